"""Which bytes of device memory nothing has written, from launch to launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import run_program

PARTS = """#include <cstdio>
__global__ void fill(float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i;
}
__global__ void shift(float* y, int n) {  // reads and writes the same array: run again in the order of blocks
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = y[i] + 1;
}
__global__ void sum(const float* y, int n, float* out) {
    float s = 0;
    for (int i = threadIdx.x; i < n; i += 32) s += y[i];
    atomicAdd(out, s);
}
__global__ void rows(float* p, int pitch) { p[blockIdx.x * pitch + threadIdx.x] = threadIdx.x; }
__global__ void sums(const float* p, int pitch, int w, float* out) {
    float s = 0;
    for (int i = 0; i < w; ++i) s += p[threadIdx.x * pitch + i];
    out[threadIdx.x] = s;
}
int main(int argc, char**) {
    float *y, *z, *out, *p;
    cudaMalloc(&y, 4000), cudaMalloc(&z, 4000), cudaMalloc(&out, 128), cudaMalloc(&p, 32 * 40 * 4);
    cudaMemset(out, 0, 4);
    for (int k = 0; k < 3; ++k) fill<<<4, 256>>>(y, 900);  // the third is known to do what the second did
    for (int k = 0; k < 3; ++k) shift<<<4, 256>>>(y, 900);
    cudaMemset(y + 900, 0, 160);
    cudaMemcpy(z, y, 4000, cudaMemcpyDeviceToDevice);
    sum<<<1, 32>>>(z, 940, out);
    rows<<<32, 32>>>(p, 40);
    sums<<<1, 32>>>(p, 40, 32, out);
    if (argc > 1) {
        cudaMemset(out, 0, 4);
        sum<<<1, 32>>>(y, 1000, out);
        sum<<<1, 32>>>(z, 941, out);
        sums<<<1, 32>>>(p, 40, 33, out);
    }
    float h[1000];
    cudaMemcpy(h, z, 4000, cudaMemcpyDeviceToHost);
    printf("%g\\n", h[899]);
    return 0;
}
"""


def test_what_is_never_read_is_no_finding(tmp_path: Path) -> None:
    done = run_program(tmp_path, PARTS)
    assert (done.returncode, done.stdout) == (0, "902\n"), done.stderr
    assert "nothing found" in done.stderr


@pytest.mark.parametrize("how", [(), ("--sample-blocks", "1"), ("--schedules", "2")])
def test_bytes_that_no_launch_has_written_are_watched_still(tmp_path: Path, how: tuple[str, ...]) -> None:
    done = run_program(tmp_path, PARTS, *how, "--", "wrong")
    assert (done.returncode, done.stdout) == (1, "902\n"), done.stderr
    told = " ".join(done.stderr.split())
    assert told.count("error [uninitialised]") == 3
    assert "line 12 reads y, which nothing has written" in told and "reads y[940]" in told
    assert "line 12 reads z, which nothing has written" in told and "reads z[940]" in told
    assert "line 18 reads p, which nothing has written" in told and "reads p[32]" in told
