"""Bulk copies: what they bring, what counts them, and what does not wait for them."""

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
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void wait(unsigned long long* bar, int parity) {
  asm volatile("{ .reg .pred p; W_%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra W_%=; }"
               :: "r"(at(bar)), "r"(parity) : "memory");
}
extern "C" __global__ void scale(const float* in, float* out, int tiles, int bytes) {
  __shared__ alignas(128) float tile[2][256];
  __shared__ unsigned long long full[2];
  const int t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < 2; s++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[s])));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  auto begin = [&](int i) {
    if (t != 0) return;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(at(&full[i & 1])) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(tile[i & 1])), "l"(in + i * 256), "r"(bytes), "r"(at(&full[i & 1])) : "memory");
  };
  begin(0);
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) begin(i + 1);
#ifndef IMPATIENT
    wait(&full[i & 1], i / 2 & 1);
#endif
    for (int j = t; j < 256; j += blockDim.x) tile[i & 1][j] *= 2;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 1024;"
                   :: "l"(out + i * 256), "r"(at(tile[i & 1])) : "memory");
      asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
  }
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) send(const float* in, float* out) {
  __shared__ float got[32];
  __shared__ unsigned long long bar;
  cooperative_groups::cluster_group all = cooperative_groups::this_cluster();
  int t = threadIdx.x;
  if (t == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&bar)));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 128;" :: "r"(at(&bar)) : "memory");
  }
  all.sync();
  unsigned to, there, other = all.block_rank() ^ 1;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(at(&got[31 - t])), "r"(other));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at(&bar)), "r"(other));
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];"
               :: "r"(to), "f"(in[blockIdx.x * 32 + t]), "r"(there) : "memory");
  wait(&bar, 0);
  out[blockIdx.x * 32 + t] = got[t];
  all.sync();
}
"""


def kernel(folder, name, *defines):
    (folder / "k.cu").write_text("".join(f"#define {one}\n" for one in defines) + SOURCE)
    compiled = compile_source(folder / "k.cu", CompileOptions(arch="sm_90"))
    return load(compiled.ptx, name, options=EmulatorOptions(checks=native_names(select("default"))))


def scaled(made, *, count=5 * 256, bytes=1024):
    source, out = np.arange(count, dtype=np.float32), np.zeros(5 * 256, np.float32)
    launch = Launch((1, 1, 1), (96, 1, 1), [source, out, 5, bytes], names=("in", "out", "tiles", "bytes"))
    made.launch(launch)
    return np.array_equal(out, 2 * source), {one.kind for one in findings(made, launch, select("default"))}


def test_tiles_come_and_go_and_each_waits_for_its_bytes(tmp_path):
    assert scaled(kernel(tmp_path, "scale")) == (True, set())


def test_who_does_not_wait_races_with_the_copy(tmp_path):
    found = scaled(kernel(tmp_path, "scale", "IMPATIENT"))[1]
    assert found & {"read-write", "write-write"}


def test_bytes_that_do_not_come_are_waited_for_and_those_outside_are_a_fault(tmp_path):
    with pytest.raises(KernelFault, match="deadlock"):
        scaled(kernel(tmp_path, "scale"), bytes=512)
    with pytest.raises(KernelFault, match="out of bounds of global memory"):
        scaled(kernel(tmp_path, "scale"), count=5 * 256 - 4)


def test_stores_into_the_neighbours_memory_count_there(tmp_path):
    source, out = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    made = kernel(tmp_path, "send")
    launch = Launch((4, 1, 1), (32, 1, 1), [source, out])
    made.launch(launch)
    assert np.array_equal(out.reshape(4, 32), source.reshape(4, 32)[[1, 0, 3, 2], ::-1])
    assert findings(made, launch, select("default")) == ()
