"""Whole programs through `wmmadiag run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FIRST = r"""
#include <cstdio>
#include <vector>
template <int N, class T>
__global__ void scale(const T* __restrict__ x, T* y, int n, float by) {
    __shared__ T s[N];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : T(0);
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x] * by;
}
__constant__ float bias[2];
__device__ int counter = 5;
__global__ void add(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += bias[1];
    atomicAdd(&counter, 1);
    if (i == 0) printf("hello %d\n", n);
}
int main(int argc, char** argv) {
    const int n = 1000;
    std::vector<float> h(n, 3), out(n);
    float *d_x, *d_y;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc((void**)&d_y, n * sizeof(float));
    cudaMemcpy(d_x, h.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    scale<128><<<(n + 127) / 128, 128>>>(d_x, d_y, n, 2);
    float b[2] = {7, 11};
    cudaMemcpyToSymbol(bias, b, sizeof b);
    add<<<(n + 127) / 128, 128>>>(d_y, n);
    puts("launched");
    if (cudaDeviceSynchronize() != cudaSuccess) return 1;
    cudaMemcpy(out.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    int c = 0;
    cudaMemcpyFromSymbol(&c, counter, sizeof c);
    printf("%g %g %d %s\n", out[0], out[999], c, argv[argc - 1]);
    return argc;
}
"""


def run(tmp_path: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`wmmadiag run` of one source."""
    source = tmp_path / "program.cu"
    source.write_text(text)
    command = [sys.executable, "-m", "wmmadiag", "run", "program.cu", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)


def test_program_has_its_own_output_and_status(tmp_path: Path) -> None:
    done = run(tmp_path, FIRST, "--", "-x")
    assert done.stdout == "launched\nhello 1000\n17 17 1029 -x\n", done.stderr
    assert done.returncode == 2
    assert "2 launches" in done.stderr
