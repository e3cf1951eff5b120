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


def test_each_kind_of_launch_becomes_a_card_that_runs(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(FIRST)
    words = [sys.executable, "-m", "wmmadiag"]
    done = subprocess.run(
        [*words, "init", "program.cu", "--run"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    card = tmp_path / "program_1.toml"
    assert done.returncode == 0, done.stderr
    assert 'entry = "scale<128, float>"' in card.read_text()
    assert "value = 1000" in card.read_text()
    checked = subprocess.run([*words, "check", card.name], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


FAULTS = r"""
#include <cstdio>
__global__ void fill(float* y, int n) { y[threadIdx.x] = n; }
int main(int argc, char**) {
    float *d_y, h[64];
    cudaMalloc(&d_y, sizeof h / 2);
    for (int i = 0; i < 100; ++i) fill<<<1, 32>>>(d_y, 3);
    if (argc == 1) return 0;
    printf("%d ", cudaMemcpy(h, d_y, sizeof h, cudaMemcpyDeviceToHost) == cudaErrorInvalidValue);
    fill<<<1, 2048>>>(d_y, 3);
    printf("%d ", cudaGetLastError() == cudaErrorInvalidConfiguration);
    fill<<<1, 33>>>(d_y, 3);
    printf("%d ", cudaGetLastError() == cudaSuccess);
    printf("%d\n", cudaDeviceSynchronize() == cudaErrorIllegalAddress && cudaGetLastError() == cudaErrorIllegalAddress);
    fflush(stdout);
    return d_y[5] > 0;
}
"""


def test_errors_of_the_runtime_and_of_host_code_are_told_with_their_lines(tmp_path: Path) -> None:
    right = run(tmp_path, FAULTS)
    assert right.returncode == 0, right.stderr
    assert "100 launches (1 watched; 99 like one of these ran bare), nothing found" in right.stderr
    done = run(tmp_path, FAULTS, "--", "all")
    assert done.stdout == "1 1 1 1\n", done.stderr
    assert done.returncode == 1
    for line, words in (
        (9, "cudaMemcpy reads 256 bytes of d_y"),
        (10, "a block of 2048 × 1 × 1 = 2048 threads"),
        (3, "out of bounds of global"),
        (16, "host code touches device memory: d_y"),
    ):
        assert f"program.cu:{line}:" in done.stderr, done.stderr
        assert words in " ".join(done.stderr.split()), done.stderr
