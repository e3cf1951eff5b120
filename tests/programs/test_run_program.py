"""Whole programs through `wmmadiag run`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command import run_program, wmmadiag

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
#define ARGUMENTS(grid, block) <<<grid, block>>>
__constant__ float bias[2];
__device__ int counter = 5;
__device__ float twice(float x, int) { return x + x; }
template <float (*f)(float, int)>
__global__ void apply(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f(y[i], i) / 2;
}
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
    apply<twice> ARGUMENTS(8, 128)(d_y, n);
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


def test_program_has_its_own_output_and_status(tmp_path: Path) -> None:
    done = run_program(tmp_path, FIRST, "--", "-x")
    assert done.stdout == "launched\nhello 1000\n17 17 1029 -x\n", done.stderr
    assert done.returncode == 2
    assert "3 launches" in done.stderr


def test_a_report_has_standard_output_to_itself(tmp_path: Path) -> None:
    done = run_program(tmp_path, FIRST, "--json", "-", "--", "-x")
    assert json.loads(done.stdout)["launches"] == 3
    assert "hello 1000\n17 17 1029 -x\n" in done.stderr and done.returncode == 2


@pytest.mark.slow
def test_each_kind_of_launch_becomes_a_card_that_runs(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(FIRST)
    done = wmmadiag(tmp_path, "init", "program.cu", "--run")
    card = tmp_path / "program_1.toml"
    assert done.returncode == 0, done.stderr
    assert 'entry = "scale<128, float>"' in card.read_text()
    assert "value = 1000" in card.read_text()
    checked = wmmadiag(tmp_path, "check", card.name)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_what_the_host_compiler_refuses_has_a_next_step(tmp_path: Path) -> None:
    done = run_program(tmp_path, "surface<void, 2> s;\nint main() {}\n")
    assert done.returncode == 2
    assert "program.cu:1:1: host code: " in done.stderr
    assert "next: surfaces are not emulated: write through a pointer" in done.stderr


def test_two_main_functions_are_no_program(tmp_path: Path) -> None:
    (tmp_path / "other.cu").write_text("int main() { return 1; }\n")
    done = run_program(tmp_path, "int main() {}\n", "other.cu")
    assert done.returncode == 2
    assert "other.cu: a second main function; the first is in program.cu" in done.stderr


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


@pytest.mark.slow
def test_errors_of_the_runtime_and_of_host_code_are_told_with_their_lines(tmp_path: Path) -> None:
    right = run_program(tmp_path, FAULTS)
    assert right.returncode == 0, right.stderr
    assert (
        "100 launches (1 watched; 1 like one of these ran bare; 98 did the same again to the same contents: not run),"
        " nothing found" in right.stderr
    )
    done = run_program(tmp_path, FAULTS, "--", "all")
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


TILES = r"""
#include <cstdio>
#include <cstdlib>
__global__ void shift(const float* x, float* y, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = x[i];
    if (n > 0) __syncthreads();
    y[i] = s[63 - threadIdx.x];
}
__device__ unsigned done;
__global__ void last(float* y, float* sum) {
    if (threadIdx.x == 0) {
        y[blockIdx.x] = 1;
        __threadfence();
        if (atomicAdd(&done, 1) == gridDim.x - 1) {
            __threadfence();
            for (int i = 0; i < gridDim.x; ++i) *sum += y[i];
        }
    }
}
int main(int, char** argv) {
    const int what = atoi(argv[1]), blocks = 40;
    float *x, *y, sum = 0;
    cudaMalloc(&x, 64 * blocks * 4);
    if (cudaMalloc(&y, what == 2 ? 32 << 20 : 64 * blocks * 4) != cudaSuccess) return puts("no memory"), 4;
    cudaMemset(x, 0, 64 * blocks * 4);
    if (what == 3)
        for (volatile int i = 0;; ++i) {}
    shift<<<blocks, 64>>>(x, y, what);
    last<<<blocks, 32>>>(y, x);
    cudaMemcpy(&sum, x, 4, cudaMemcpyDeviceToHost);
    printf("%g\n", sum);
    return 0;
}
"""


LONG = r"""
__global__ void first(int* x) { x[threadIdx.x] = 1; }
template <int N> __global__ void wait(int* x) {
    unsigned sum = threadIdx.x;
    for (int i = 0; i < 1000000; ++i) sum = sum * 3 + (sum >> N);
    x[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
int main(int argc, char**) {
    int* x;
    cudaMalloc(&x, 500 * 32 * 4);
    first<<<1, 32>>>(x);
    if (argc > 1)
        for (volatile int i = 0;; ++i) {}
    wait<7><<<500, 32>>>(x);
    cudaDeviceSynchronize();
}
"""


@pytest.mark.slow
def test_limits_samples_and_reports_of_a_run(tmp_path: Path) -> None:
    right = run_program(tmp_path, TILES, "--sample-blocks", "3", "--leaks", "--", "1")
    assert (right.returncode, right.stdout) == (0, "40\n"), right.stderr
    assert "of 2 a sample of blocks alone, 2 warnings;" in right.stderr
    assert "program.cu:25: x, cudaMalloc at program.cu:25 is never freed" in " ".join(right.stderr.split())
    wrong = run_program(
        tmp_path, TILES, "--sample-blocks", "3", "--sarif", "found.sarif", "--junit", "found.xml", "--", "0"
    )
    assert wrong.returncode == 1
    assert "program.cu:9:" in wrong.stderr, wrong.stderr
    assert '"startLine": 9' in (tmp_path / "found.sarif").read_text()
    assert '<testsuite name="program (sm_90, emulator)" tests="1" failures="1"' in (tmp_path / "found.xml").read_text()
    small = run_program(tmp_path, TILES, "--memory", "16M", "--", "2")
    assert (small.returncode, small.stdout) == (4, "no memory\n"), small.stderr
    endless = run_program(tmp_path, TILES, "--timeout", "0.8", "--", "3")
    assert endless.returncode == 3
    assert "did not end within 0.8 s, and was ended before its first launch" in endless.stderr
    assert "nothing found; the program was ended" in endless.stderr
    long = run_program(tmp_path, LONG, "--timeout", "3", "--threads", "1")
    said = re.search(r"and was ended in launch 2, of wait<7>: (\d+) of 500 blocks had begun", long.stderr)
    assert said and 0 < int(said[1]) < 500, long.stderr
    behind = run_program(tmp_path, LONG, "--timeout", "3", "--", "behind")
    assert "and was ended in host code behind launch 1, of first" in behind.stderr, behind.stderr
    assert "1 launch, nothing found" in behind.stderr


@pytest.mark.slow
def test_check_runs_a_main_and_says_both_verdicts(tmp_path: Path) -> None:
    source = tmp_path / "scale.cu"
    text = r"""
#include <cstdio>
__global__ void halves(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * 0.5f + FAULT;
}
int main() {
    const int n = 100;
    float h[n], *x, *y;
    for (int i = 0; i < n; ++i) h[i] = i;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&y, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    halves<<<1, 128>>>(x, y, n);
    cudaMemcpy(h, y, sizeof h, cudaMemcpyDeviceToHost);
    for (int i = 0; i < n; ++i)
        if (h[i] != i * 0.5f) return puts("FAILED"), 1;
    return puts("PASSED"), 0;
}
"""
    for fault, code, said in (("0", 0, "it says at the end: PASSED"), ("1", 1, "it says at the end: FAILED")):
        source.write_text(text.replace("FAULT", fault))
        done = wmmadiag(tmp_path, "check", "scale.cu")
        assert said in done.stdout, done.stdout + done.stderr
        assert f"exit status {code}" in done.stdout
        assert done.returncode == code, done.stdout + done.stderr
        verdict = "WRONG: the program's own exit status says so" if code else "ok by the program's own comparison"
        assert verdict in done.stdout
    source.write_text(
        text.replace("FAULT", "0").replace("const int n = 100;", 'return puts("usage: scale N"), 1; const int n = 100;')
    )
    done = wmmadiag(tmp_path, "check", "scale.cu")
    assert done.returncode in (2, 3), done.stdout + done.stderr  # what its source alone leads to
