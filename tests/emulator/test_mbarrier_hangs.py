"""Waits at mbarriers that nobody will end, and long ones that end."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag.errors import KernelFault

SOURCE = """
extern "C" __global__ void k(int* out, int rounds) {
    __shared__ __align__(8) unsigned long long bar;
    const unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], COUNT;" :: "r"(at));
    __syncthreads();
    if (warp == 0) {
        int sum = 0;
        for (int i = 0; i < rounds; ++i) { sum = sum * 3 + i; asm volatile("" : "+r"(sum)); }
        asm volatile("{ .reg .b64 st; mbarrier.arrive.shared.b64 st, [%0]; }" :: "r"(at) : "memory");
        out[threadIdx.x] = sum & 1;
    }
    unsigned done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                               : "=r"(done) : "r"(at) : "memory");
    if (warp != 0) out[threadIdx.x] = 7;
}
"""


def kernel(count: int) -> wmmadiag.Kernel:
    return wmmadiag.kernel(SOURCE.replace("COUNT", str(count)), arch="sm_90")


def test_a_phase_that_nobody_ends_is_a_deadlock():
    with pytest.raises(KernelFault, match="deadlock") as raised:
        kernel(33).launch(2, 128, np.zeros(128, np.int32), 10)
    assert raised.value.kind == "deadlock"
    assert raised.value.place is not None
    assert raised.value.place.line == 15


def test_a_wait_for_a_warp_that_still_works_is_none():
    out = np.zeros(128, np.int32)
    kernel(32).launch(1, 128, out, 2_000_000)
    assert (out[32:] == 7).all()
