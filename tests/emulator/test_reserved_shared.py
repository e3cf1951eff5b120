"""Shared memory that the system lends: tiles of several warps of cooperative groups meet in it."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import KernelFault

SOURCE = """#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* sums) {
    extern __shared__ int own[];
    __shared__ cg::block_tile_memory<256> scratch;
    auto tile = cg::tiled_partition<TILE>(cg::this_thread_block(scratch));
    own[threadIdx.x] = x[threadIdx.x];
    SYNC;
    const int sum = cg::reduce(tile, own[threadIdx.x ^ 32], cg::plus<int>());
    if (tile.thread_rank() == 0) sums[tile.meta_group_rank()] = sum;
}
"""
MOST = 163 * 1024  # bytes of shared memory that a block may have on sm_80, besides the system's


def kernel(tmp_path, tile: int = 128, sync: str = "tile.sync()") -> wmmadiag.Kernel:
    (tmp_path / "k.cu").write_text(SOURCE.replace("SYNC", sync).replace("TILE", str(tile)))
    return wmmadiag.kernel(tmp_path / "k.cu", arch="sm_80")


@pytest.mark.parametrize("tile", [64, pytest.param(128, marks=(pytest.mark.slow, pytest.mark.rest)), 256])
def test_tiles_of_several_warps_reduce_and_nothing_is_found(tmp_path, tile):
    x, sums = np.arange(256, dtype=np.int32), np.zeros(8, np.int32)
    assert not kernel(tmp_path, tile).check(1, 256, x, sums, shared=1024)
    assert np.array_equal(sums[: 256 // tile], x.reshape(-1, tile).sum(1))


def test_a_tile_that_does_not_meet_is_a_race(tmp_path):
    x, sums = np.zeros(256, np.int32), np.zeros(8, np.int32)
    found = kernel(tmp_path, sync="__syncwarp()").check(1, 256, x, sums, shared=1024)
    assert "races" in {one.check for one in found}


def test_what_is_lent_is_not_taken_of_the_block(tmp_path):
    x, sums, made = np.ones(256, np.int32), np.zeros(8, np.int32), kernel(tmp_path)
    made.launch(1, 256, x, sums, shared=MOST)
    assert sums[0] == 128
    with pytest.raises(KernelFault, match="bytes of shared memory"):
        made.launch(1, 256, x, sums, shared=MOST + 16)
