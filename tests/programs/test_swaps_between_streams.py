"""Loops around atomicCAS in several streams: their first read is a guess, another read is a race."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

PROGRAM = r"""#include <cstdio>
__device__ float largest[4];
__device__ void raise(float* at, float v) {
    int old = __float_as_int(*at), seen;
    do {
        seen = old;
        if (__int_as_float(seen) >= v) break;
        old = atomicCAS((int*)at, seen, __float_as_int(v));
    } while (old != seen);
}
__global__ void update(float v, float* y) {
    raise(&largest[1], v);
    EXTRA;
}
int main() {
    float *y, h[4] = {};
    cudaMalloc(&y, 128);
    cudaMemcpyToSymbol(largest, h, sizeof h);
    cudaStream_t s[3];
    for (auto& one : s) cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    update<<<1, 32, 0, s[0]>>>(5.f, y);
    update<<<1, 32, 0, s[1]>>>(7.f, y + 8);
    update<<<1, 32, 0, s[2]>>>(6.f, y + 16);
    cudaDeviceSynchronize();
    cudaMemcpyFromSymbol(h, largest, sizeof h);
    printf("%g\n", h[1]);
}
"""


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("extra", "found"),
    [("", ""), ("y[0] = largest[1]", "bytes 4 to 7 of largest"), ("largest[1] = v", "bytes 4 to 7 of largest")],
)
def test_the_first_read_of_a_loop_around_a_swap(tmp_path: Path, extra: str, found: str) -> None:
    done = run_program(tmp_path, PROGRAM.replace("EXTRA", extra))
    said = " ".join(done.stderr.split())
    assert ("error [streams]" in said, done.returncode) == (bool(found), int(bool(found))), done.stderr
    assert found in said
