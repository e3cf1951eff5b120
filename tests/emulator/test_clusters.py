"""Clusters of blocks: whose shared memory an address is in, the cluster's barrier, and what the checks see of both."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.checks.registry import findings, native_names, select
from wmmadiag.compile.driver import compile_source
from wmmadiag.compile.options import CompileOptions
from wmmadiag.emulator import EmulatorOptions, load
from wmmadiag.errors import KernelFault
from wmmadiag.launch import Launch

SOURCE = """
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void turn(const int* in, int* out, int far, int stop) {
  __shared__ int mine[48];
  cg::cluster_group all = cg::this_cluster();
  int t = threadIdx.x, b = blockIdx.x + gridDim.x * blockIdx.y, n = all.num_blocks();
  if (t < 40) mine[t] = in[b * 40 + t];
  __syncthreads();
#ifndef FORGOTTEN
  all.sync();
#endif
  int* theirs = all.map_shared_rank(mine, (all.block_rank() + 1) % n);
  if (t < 40) out[b * 40 + t] = theirs[(39 - t) + far] * 1000 + cg::cluster_group::query_shared_rank(theirs);
  if (t >= stop) return;  // the barrier does not wait for what has ended
  all.sync();
}
__global__ void __cluster_dims__(2, 2, 1) placed(unsigned* out) {
  __shared__ unsigned base;
  cg::cluster_group all = cg::this_cluster();
  if (threadIdx.x == 0) base = 100 * blockIdx.y + blockIdx.x;
  all.sync();
  unsigned sum = 0;
  for (unsigned r = 0; r < all.num_blocks(); r++) sum += (r + 1) * *all.map_shared_rank(&base, r);
  unsigned *to = out + 4 * (blockIdx.y * gridDim.x + blockIdx.x);
  if (threadIdx.x == 0) to[0] = sum, to[1] = all.block_rank(), to[2] = all.block_index().y, to[3] = all.dim_blocks().x;
  all.sync();
}
"""


def kernel(folder, name, *defines):
    (folder / "k.cu").write_text("".join(f"#define {one}\n" for one in defines) + SOURCE)
    compiled = compile_source(folder / "k.cu", CompileOptions(arch="sm_90"))
    return load(compiled.ptx, name, options=EmulatorOptions(checks=native_names(select("default"))))


def turned(made, *, threads=64, far=0, stop=64, cluster=(4, 1, 1)):
    source, out = np.arange(8 * 40, dtype=np.int32), np.zeros(8 * 40, np.int32)
    launch = Launch((8, 1, 1), (threads, 1, 1), [source, out, far, stop], cluster=cluster)
    made.launch(launch)
    found = findings(made, launch, select("default"))
    rows = source.reshape(8, 40)
    size = cluster[0]
    expected = [rows[b // size * size + (b + 1) % size][::-1] * 1000 + (b + 1) % size for b in range(8)]
    return np.array_equal(out.reshape(8, 40), expected), {one.kind for one in found}


def test_each_block_reads_its_neighbours_memory(tmp_path):
    made = kernel(tmp_path, "turn")
    for cluster in ((4, 1, 1), (2, 1, 1), (8, 1, 1), (1, 1, 1)):
        assert turned(made, cluster=cluster) == (True, set())
    assert turned(made, stop=40)[0]
    assert turned(made, threads=320, cluster=(8, 1, 1))[0]  # more warps than the checks of one block know


def test_clusters_that_a_kernel_is_compiled_for_lie_in_rows_of_the_grid(tmp_path):
    made = kernel(tmp_path, "_Z6placedPj")
    out = np.zeros((4, 6, 4), np.uint32)
    made.launch(Launch((6, 4, 1), (32, 1, 1), [out]))
    for y in range(4):
        for x in range(6):
            left, top = x // 2 * 2, y // 2 * 2
            blocks = [100 * (top + r // 2) + left + r % 2 for r in range(4)]
            assert out[y, x].tolist() == [
                sum((r + 1) * one for r, one in enumerate(blocks)),
                x % 2 + y % 2 * 2,
                y % 2,
                2,
            ]
    with pytest.raises(KernelFault, match="in clusters of 2 × 2 × 1"):
        made.launch(Launch((5, 4, 1), (32, 1, 1), [out]))


def test_a_barrier_that_is_forgotten_is_a_race_and_bounds_are_each_blocks(tmp_path):
    assert "read-write" in turned(kernel(tmp_path, "turn", "FORGOTTEN"))[1]
    with pytest.raises(KernelFault, match="out of bounds of shared memory") as fault:
        turned(kernel(tmp_path, "turn"), far=20)
    assert "mine" in str(fault.value.detail)
