"""Guessed numbers that nothing in a run depends on make no verdict; those on which something does, do."""

from __future__ import annotations

import pytest

import wmmadiag
from wmmadiag.subject import check

GEMM = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K, int ldc) {
    if (ldc < 0) return;
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * LDC + col, c, LDC, wmma::mem_row_major);
}
void run(const half* A, const half* B, float* C, int M, int N, int K, int ldc) {
    wmma_gemm<<<dim3(N / 16, M / 16), 32>>>(A, B, C, M, N, K, ldc);
}
"""


@pytest.mark.parametrize(("stride", "status"), [("ldc", "passed"), ("N", "undecided")])
def test_a_number_that_changes_nothing_is_asked_for(tmp_path, stride, status):
    path = tmp_path / "k.cu"
    path.write_text(GEMM.replace("LDC", stride))
    report = wmmadiag.check(path)
    assert report.status == status
    if status == "undecided":
        assert "depends on the number 'ldc'" in report.cases[0].problem.message
        assert "wmmadiag init" in report.cases[0].problem.hint


SCALED = GEMM.replace("int ldc", "float alpha").replace("ldc", "alpha").replace("LDC", "N")


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (("c);\n}", "c);\n}"), "undecided"),  # nothing reads it
        (("if (alpha < 0) return;", "if (alpha < 0) return;"), "undecided"),  # it is read, and multiplies nothing
        (("    wmma::store", "    for (auto& x : c.x) x *= alpha;\n    wmma::store"), "passed"),
        (("N, K, alpha);", "N, K, 1.0f);"), "passed"),  # the source passes nothing else
    ],
)
def test_a_factor_that_the_kernel_ignores_is_asked_for(tmp_path, change, status):
    path = tmp_path / "k.cu"
    text = SCALED if "return" in change[0] else SCALED.replace("    if (alpha < 0) return;\n", "")
    path.write_text(text.replace(*change))
    report = wmmadiag.check(path)
    assert report.status == status
    if status == "undecided" and "return" not in change[0]:
        assert "the kernel takes 'alpha', by its name the factor of A·B" in report.cases[0].problem.message


BATCHED = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void gemm_bias(const half* A, const half* B, const float* bias, float* C, int M, int N, int K,
                          long long stride_bias) {
    int row = blockIdx.y * 16, col = blockIdx.x * 16, b = blockIdx.z;
    A += b * M * K, B += b * K * N, C += b * M * N;
    BIAS
    __shared__ float first[256];
    for (int i = threadIdx.x; i < 256; i += 32) first[i] = bias[col + i % 16];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> f;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::load_matrix_sync(c, first, 16, wmma::mem_row_major);
    for (int k = 0; k < K; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(f, B + k * N + col, N);
        wmma::mma_sync(c, a, f, c);
    }
    wmma::store_matrix_sync(C + row * N + col, c, N, wmma::mem_row_major);
}
void run(const half* A, const half* B, const float* bias, float* C, int batch, int M, int N, int K) {
    gemm_bias<<<dim3(N / 16, M / 16, batch), 32>>>(A, B, bias, C, M, N, K, N);
}
"""


def test_the_distance_between_biases_that_the_kernel_ignores_is_asked_for(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text(BATCHED.replace("BIAS", ""))
    report = wmmadiag.check(path)
    assert report.status == "undecided"
    assert "the distance between what batches have of 'bias'" in report.cases[0].problem.message


SPLIT = """
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void gemm_split(const half* A, const half* B, float* C, int M, int N, int K, int each) {
    __shared__ float tile[256];
    int row = blockIdx.y * 16, col = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = blockIdx.z * each; k < min(K, (blockIdx.z + 1) * each); k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + col, N);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) STORE;
}
void run(const half* A, const half* B, float* C, int M, int N, int K, int splits) {
    cudaMemset(C, 0, M * N * sizeof(float));
    gemm_split<<<dim3(N / 16, M / 16, splits), 32>>>(A, B, C, M, N, K, (K / 16 + splits - 1) / splits * 16);
}
"""
AT = "C[(row + i / 16) * N + col + i % 16]"


@pytest.mark.parametrize(
    ("store", "status"), [(f"atomicAdd(&{AT}, tile[i])", "passed"), (f"{AT} = tile[i]", "undecided")]
)
def test_a_kernel_that_is_right_as_one_part_alone_is_asked_about(tmp_path, store, status):
    path = tmp_path / "k.cu"
    path.write_text(SPLIT.replace("STORE", store))
    report = wmmadiag.check(path)
    assert report.status == status
    if status == "undecided":
        assert "right with splits = 1, and wrong with 2" in report.cases[0].problem.message


def test_a_bound_as_large_as_the_values_says_nothing(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("""
__global__ void rms_linear(const signed char* x, const signed char* w, signed char* out, int M, int N, int K) {
    for (int n = threadIdx.x; n < N; n += blockDim.x) out[blockIdx.x * N + n] = 0;
}
void run(const signed char* x, const signed char* w, signed char* out, int M, int N, int K) {
    rms_linear<<<M, 64>>>(x, w, out, M, N, K);
}
""")
    report = wmmadiag.check(path, computes="norm_gemm", symbols={"M": "32", "N": "32", "K": "256"})
    assert report.status == "undecided"
    assert "an output of zeros would be within the bound" in report.cases[0].problem.message


def test_of_readings_that_a_kernel_is_right_by_one_is_checked_where_each_would_be_asked_about(tmp_path, monkeypatch):
    checked, own = [], check.check_card
    monkeypatch.setattr(check, "check_card", lambda card, **how: checked.append(card) or own(card, **how))
    path = tmp_path / "k.cu"
    path.write_text(SCALED.replace("    if (alpha < 0) return;\n", ""))  # nothing reads it
    assert wmmadiag.check(path).status == "undecided"
    assert len(checked) == 2, [card.computes.parameters for card in checked]  # as it was read, and one more


ONE_GUARD = """
__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  if (r < M && c < N) {
    float sum = 0;
    for (int k = 0; k < K; k++) sum += A[r * K + k] * B[k * N + c];
    C[r * N + c] = sum;
  }
}
void run(const float* A, const float* B, float* C, int M, int N, int K) {
  gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);
}
"""


@pytest.mark.parametrize("guard", ["r < M && c < N", "r < M", "c < N"])
def test_sizes_that_the_grid_rounds_up_for_and_no_line_guards_are_tried_and_told(tmp_path, guard):
    path = tmp_path / "k.cu"
    path.write_text(ONE_GUARD.replace("r < M && c < N", guard))
    report = wmmadiag.check(path, computes="gemm")
    assert report.status == "passed"
    told = [one for one in report.assumed if "with which no line compares an index" in one]
    assert len(told) == (guard.count("<") == 1)
    assert all(f"rounds up for {'N' if guard == 'r < M' else 'M'}," in one for one in told)


CHANNELS = """
extern "C" __global__ void channel_gemm(const float* a, const float* b, float* z, int n) {
    long chan = (long)blockIdx.z * FAR;
    int i = blockIdx.y * 8 + threadIdx.y, j = blockIdx.x * 8 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += a[chan + i * n + k] * b[chan + j * n + k];
    z[chan + i * n + j] = sum;
}
void run(const float* a, const float* b, float* z, int channels, int n) {
    channel_gemm<<<dim3(n / 8, n / 8, channels), dim3(8, 8)>>>(a, b, z, n);
}
"""


@pytest.mark.parametrize(("far", "status"), [("n * n", "passed"), ("n", "undecided")])
def test_what_only_the_launch_is_over_counts_matrices(tmp_path, far, status):
    path = tmp_path / "k.cu"
    path.write_text(CHANNELS.replace("FAR", far))
    report = wmmadiag.check(path, computes="gemm")
    assert report.status == status
    if status == "undecided":
        assert "right with channels = 1, and wrong with 2" in report.cases[0].problem.message
    else:
        assert report.cases[-1].symbols["batch"] > 1
