"""Cooperative launches: `grid.sync()` of cooperative groups."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import UnsupportedError

SOURCE = """#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(float* out, float* parts, int rounds) {
    auto grid = cg::this_grid();
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    for (int round = 0; round < rounds; ++round) {
        parts[i] = round * 1000 + i;
        SYNC;
        out[round * n + i] = parts[(i + blockDim.x) % n];
        SYNC;
    }
}
"""


def kernel(tmp_path, sync: str = "grid.sync()", launch: str = "") -> wmmadiag.Kernel:
    (tmp_path / "k.cu").write_text(SOURCE.replace("SYNC", sync) + launch)
    return wmmadiag.kernel(tmp_path / "k.cu", arch="sm_80")


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_every_block_waits_for_all(tmp_path, blocks):
    out, parts = np.zeros((3, blocks * 64), np.float32), np.zeros(blocks * 64, np.float32)
    kernel(tmp_path).launch(blocks, 64, out, parts, 3)
    assert np.array_equal(out, np.arange(3)[:, None] * 1000 + np.roll(np.arange(blocks * 64), -64))


def test_more_blocks_than_a_chip_has_multiprocessors_wait_for_each_other_in_few_turns(tmp_path):
    blocks = 300
    out, parts = np.zeros((2, blocks * 64), np.float32), np.zeros(blocks * 64, np.float32)
    stats = kernel(tmp_path).launch(blocks, 64, out, parts, 2)
    assert np.array_equal(out, np.arange(2)[:, None] * 1000 + np.roll(np.arange(blocks * 64), -64))
    assert stats.warp_instructions < 1000 * blocks


POLLING = """
__global__ void k(volatile int* flags, int* out) {
    // each block waits for the one behind it, each warp for the other
    __shared__ volatile int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    if (threadIdx.x == 32) {
        while (blockIdx.x + 1 < gridDim.x && flags[blockIdx.x + 1] == 0) {}
        out[blockIdx.x] = blockIdx.x + 1 < gridDim.x ? flags[blockIdx.x + 1] + 1 : 1;
        turn = 1;
    }
    if (threadIdx.x == 0) {
        while (turn == 0) __nanosleep(10);
        flags[blockIdx.x] = out[blockIdx.x];
    }
}
"""


def test_blocks_that_poll_give_way(tmp_path):
    (tmp_path / "k.cu").write_text(POLLING)
    flags, out = np.zeros(300, np.int32), np.zeros(300, np.int32)
    wmmadiag.kernel(tmp_path / "k.cu", arch="sm_80").launch(300, 64, flags, out)
    assert np.array_equal(out, np.arange(300, 0, -1))


@pytest.mark.parametrize(("sync", "kinds"), [("grid.sync()", set()), ("__syncthreads()", {"races"})])
@pytest.mark.slow
def test_races_between_blocks(tmp_path, sync, kinds):
    out, parts = np.zeros((2, 256), np.float32), np.zeros(256, np.float32)
    found = kernel(tmp_path, sync).check(4, 64, out, parts, 2, checks="races")
    assert {one.check for one in found} == kinds


@pytest.mark.parametrize(
    ("host", "kinds"),
    [
        ("void run(float* o, float* p) { k<<<4, 64>>>(o, p, 2); }", {"not-cooperative"}),
        ("void run(void** a) { cudaLaunchCooperativeKernel((void*)k, dim3(4), dim3(64), a, 0, 0); }", set()),
        ("", set()),
    ],
)
@pytest.mark.slow
def test_a_plain_launch_is_an_error(tmp_path, host, kinds):
    out, parts = np.zeros((2, 256), np.float32), np.zeros(256, np.float32)
    found = kernel(tmp_path, launch=host).check(4, 64, out, parts, 2, checks="resources")
    assert {one.kind for one in found} == kinds


def test_the_debugger_says_that_it_cannot(tmp_path):
    from wmmadiag.compile.driver import compile_source
    from wmmadiag.compile.options import CompileOptions
    from wmmadiag.emulator import load
    from wmmadiag.launch import Launch

    (tmp_path / "k.cu").write_text(SOURCE.replace("SYNC", "grid.sync()"))
    loaded = load(compile_source(tmp_path / "k.cu", CompileOptions(arch="sm_80")).ptx, arch="sm_80")
    arguments = (np.zeros(128, np.float32), np.zeros(128, np.float32), np.int32(1))
    with pytest.raises(UnsupportedError, match="grid barrier"):
        loaded.stepper(Launch((2, 1, 1), (64, 1, 1), arguments), 1 << 20, 1 << 10)
