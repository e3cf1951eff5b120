"""`schedules`: launches in other orders of warps and asynchronous copies."""

from __future__ import annotations

import numpy as np
import pytest

import wmmadiag
from wmmadiag import emulator
from wmmadiag.checks import Level
from wmmadiag.checks.run import CheckedRuns
from wmmadiag.checks.schedules import orders
from wmmadiag.launch import Launch

RACE = """extern "C" __global__ void k(float* out) {
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x + 1.0f;
    BARRIER
    out[threadIdx.x] = s[63 - threadIdx.x];
}
"""


def run(source, count, out):
    runs = CheckedRuns((), count)
    kernel = emulator.load(wmmadiag.compile_cuda(source, arch="sm_80").ptx)
    runs.launch(kernel, Launch((1, 1, 1), (64, 1, 1), [out], 0, ("out",)))
    return runs.found


@pytest.mark.parametrize("warps", [1, 2, 3, 8, 32])
@pytest.mark.parametrize("count", [0, 1, 3, 9])
def test_orders(warps, count):
    chosen = list(orders(warps, count))
    assert len(chosen) == len(set(chosen)) <= count
    assert (tuple(range(warps)), False) not in chosen
    assert all(sorted(order) == list(range(warps)) for order, _ in chosen)
    assert len(chosen) == count or warps <= 3


def test_a_race_changes_the_output_and_the_first_run_stands():
    out = np.zeros(64, np.float32)
    plain = np.zeros(64, np.float32)
    (seen,) = run(RACE.replace("BARRIER", ""), 2, out)
    assert seen.level is Level.ERROR and "out" in seen.message and seen.check == "schedules"
    assert run(RACE.replace("BARRIER", ""), 0, plain) == ()
    assert out.tobytes() == plain.tobytes()


def test_a_right_kernel_gives_the_same_bits():
    out = np.zeros(64, np.float32)
    assert run(RACE.replace("BARRIER", "__syncthreads();"), 4, out) == ()
    assert out.tolist() == list(range(64, 0, -1))


def test_an_order_in_which_the_launch_dies():
    source = """extern "C" __global__ void k(int* out) {
    __shared__ volatile int n;
    if (threadIdx.x == 0) n = 1;
    if (threadIdx.x >= 32 && n != 1) asm volatile("trap;");
    out[threadIdx.x] = 1;
}
"""
    kernel = emulator.load(wmmadiag.compile_cuda(source, arch="sm_80").ptx)
    runs = CheckedRuns((), 1)
    runs.launch(kernel, Launch((1, 1, 1), (64, 1, 1), [np.zeros(64, np.int32)], 0, ("out",)))
    assert [f.kind for f in runs.found] == ["order-fatal"]
