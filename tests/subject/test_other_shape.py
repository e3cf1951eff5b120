"""Kernels that host code launches in several shapes: a case of each card has another one."""

from __future__ import annotations

import pytest

from wmmadiag.api import check
from wmmadiag.subject.binding import bind
from wmmadiag.subject.open_subject import SubjectOptions, open_subject

KERNEL = """#include <cuda_runtime.h>
__global__ void softmax_rows(const float* input, float* output, int rows, int cols) {
  extern __shared__ float part[];
  const float* x = input + blockIdx.x * cols;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) top = fmaxf(top, x[i]);
  part[threadIdx.x] = top;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + half]);
  }
  __syncthreads();
  top = part[0];
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) sum += expf(x[i] - top);
  part[threadIdx.x] = sum;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
  }
  __syncthreads();
  sum = part[0];
  for (int i = threadIdx.x; i < cols; i += blockDim.x) output[blockIdx.x * cols + i] = expf(x[i] - top) / sum;
}
void run(const float* x, float* y, int rows, int cols, int threads) {
  softmax_rows<<<rows, threads, threads * sizeof(float)>>>(x, y, rows, cols);
}
"""
HOSTS = {
    "array": "int sizes[] = {32, 64, 256}; for (int j = 0; j < 3; j++) { int t = sizes[j]; run(x, y, rows, cols, t); }",
    "list": "for (int t : {32, 64, 256}) run(x, y, rows, cols, t);",
    "doubled": "for (int t = 32; t <= 256; t *= 2) run(x, y, rows, cols, t);",
    "calls": "run(x, y, rows, cols, 32); run(x, y, rows, cols, 256);",
    "downwards": "for (int t = 256; t >= 32; t /= 2) run(x, y, rows, cols, t);",
    "chosen": "int which = 1; if (argc > 1) which = atoi(argv[1]);"
    " for (int t : {32, 64, 256}) {"
    " switch (which) { case 1: idle<<<1, t>>>(y); break; default: run(x, y, rows, cols, t); } }",
}
BROKEN = KERNEL.replace("top = part[0];\n  __syncthreads();", "top = part[0];")


def source(tmp_path, host, kernel=KERNEL, cols=1000):
    path = tmp_path / "rows.cu"
    main = f"int rows = 512, cols = {cols}, bytes = rows * cols * 4; float *x, *y; cudaMalloc(&x, bytes);"
    main += " cudaMalloc(&y, bytes);"
    idle = "__global__ void idle(float* y) {}\n"
    path.write_text(f"{kernel}{idle}int main(int argc, char** argv) {{ {main}\n{host}\n}}\n")
    return path


def card_of(path):
    return open_subject(path, SubjectOptions(entry="softmax_rows"))


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_case_of_another_shape(tmp_path, host):
    *usual, last = card_of(source(tmp_path, host)).cases
    shapes = [{value for value in case.symbols.values() if value in (32, 256)} for case in (*usual, last)]
    assert last.name == "launch"
    assert all(one == shapes[0] for one in shapes[:-1])
    assert shapes[0] | shapes[-1] == {32, 256} and shapes[0] != shapes[-1]


def test_extents_keep_what_they_are_beside_a_block(tmp_path):
    *_, tiles, last = card_of(source(tmp_path, HOSTS["list"])).cases
    assert last.symbols["N"] % 256 == 1000 % 256 and last.symbols["N"] > 256
    assert last.symbols["M"] == tiles.symbols["M"] < 256  # a block for each row: as many as in the other cases will do


@pytest.mark.parametrize(
    "host",
    [
        "run(x, y, rows, cols, 32);",
        "for (int n : {512, 1024}) run(x, y, n, cols, 32);",  # extents are tried anyhow
        "for (int t : {32, 2048}) run(x, y, rows, cols, t);",  # no block has so many threads
    ],
)
def test_one_shape_alone(tmp_path, host):
    assert "launch" not in [case.name for case in card_of(source(tmp_path, host)).cases]


def test_missing_barrier_shows_where_a_block_has_several_warps(tmp_path):
    right, wrong = (check(source(tmp_path, HOSTS["array"], text), entry="softmax_rows") for text in (KERNEL, BROKEN))
    assert [case.status for case in right.cases] == ["passed"] * len(right.cases)
    assert {case.case: case.status for case in wrong.cases} == {
        "small": "passed",
        "tiles": "passed",
        "launch": "failed",
    }
    hints = [one.hint for case in wrong.cases for one in case.findings]
    assert all("__syncthreads()" in one for one in hints)


def test_what_a_user_says_of_the_block_holds_for_the_memory_that_it_is_given(tmp_path):
    card = open_subject(source(tmp_path, HOSTS["array"]), SubjectOptions(entry="softmax_rows", block=("128",)))
    bound = bind(card, card.cases[0], card.variants[0])
    assert (bound.launch.block[0], bound.launch.shared_bytes) == (128, 128 * 4)
    assert check(source(tmp_path, HOSTS["array"]), entry="softmax_rows", block=("128",)).status == "passed"


TILED = """#include <cuda_fp16.h>
#include <mma.h>
__global__ void mul(const half* A, const half* B, float* C, int M, int N, int K) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, row_major> b;
  fragment<accumulator, 16, 16, 16, float> c;
  fill_fragment(c, 0.0f);
  const int row = blockIdx.y * 32 + threadIdx.x / 64 * 16, col = blockIdx.x * 32 + threadIdx.x / 32 % 2 * 16;
  const int steps = K / 16;
  for (int k = 0; k < steps; ++k) {
    load_matrix_sync(a, A + row * K + 16 * k, K);
    load_matrix_sync(b, B + 16 * k * N + col, N);
    mma_sync(c, a, b, c);
  }
  store_matrix_sync(C + row * N + col, c, N, mem_row_major);
}
void launch(const half* A, const half* B, float* C, int M, int N, int K) {
  mul<<<dim3(N / 32, M / 32), 128>>>(A, B, C, M, N, K);
}
void run(int M, int N, int K) {
  half *A, *B; float* C;
  cudaMalloc(&A, M * K * sizeof(half)); cudaMalloc(&B, K * N * sizeof(half)); cudaMalloc(&C, M * N * sizeof(float));
  if (fits(M, N, K)) launch(A, B, C, M, N, K);
}
void all() { run(48, 80, 112); run(64, 96, 160); }
"""


def test_a_kernel_that_leaves_a_rest_out_is_judged_where_there_is_none(tmp_path):
    """Which sizes it is launched with hangs on what nobody can tell: those that host code names first are not its own,
    and what is wrong with all sizes stays so."""
    source = tmp_path / "mul.cu"
    source.write_text(TILED, "utf-8")
    report = check(source)
    assert report.status == "passed" and any("nothing is left out" in one for one in report.assumed)
    source.write_text(TILED.replace("row * K + 16 * k, K", "row * K + 16 * k, N"), "utf-8")
    assert check(source).status != "passed"
