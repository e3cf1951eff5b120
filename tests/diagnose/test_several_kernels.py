"""A diagnosis of a source whose host function launches several kernels is of all of them."""

from __future__ import annotations

import pytest

import wmmadiag
from wmmadiag.diagnose.describe import _if_meant

SOURCE = """#include <cuda_fp16.h>
#include "nothere.h"
#include <mma.h>
using namespace nvcuda;
__global__ void to_half(const float* x, half* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2half(x[i]);
}
__global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K) {
  int m = blockIdx.y * 16, n = blockIdx.x * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::load_matrix_sync(a, A + m * K + k, K);
    wmma::load_matrix_sync(b, B + k * N + n, N);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + m * N + n, c, N, wmma::mem_row_major);
}
void gemm(const float* A, const float* B, float* C, half* a16, half* b16, int M, int N, int K) {
  to_half<<<(M * K + 255) / 256, 256>>>(A, a16, M * K);
  to_half<<<(N * K + 255) / 256, 256>>>(B, b16, N * K);
  wmma_gemm<<<dim3(N / 16, M / 16), 32>>>(a16, b16, C, M, N, K);
}
"""


def diagnosed(tmp_path, old, new):
    path = tmp_path / "k.cu"
    path.write_text(SOURCE.replace(old, new))
    assert old == new or path.read_text() != SOURCE
    return wmmadiag.diagnosis(path, effort="quick")


def test_a_mistake_of_one_of_several_is_named(tmp_path):
    found = diagnosed(tmp_path, "B + k * N + n", "B + k * N + m")
    assert "k.cu:17" in found.causes[0].place and found.causes[0].verdict == "likely"  # what it computes was taken so
    assert any("nothere.h was not found and is taken as empty" in one for one in found.assumed)


def test_right_ones_are_right_together(tmp_path):
    assert diagnosed(tmp_path, "", "").outcome == "right"


def test_a_mistake_of_what_another_one_takes_is_named(tmp_path):
    """What it multiplies is rounded by another kernel: that is seen once a change makes everything nearly right."""
    found = diagnosed(tmp_path, "y[i] = __float2half(x[i])", "y[i] = __float2half(x[i] * 2)")
    assert "k.cu:7" in found.causes[0].place and found.causes[0].verdict == "likely"
    assert found.causes[0].fix.status == "verified"
    assert any(one.startswith("inputs rounded to") for one in found.assumed)


@pytest.mark.parametrize(
    ("name", "said", "unknown", "prefixed"),
    [("gemm", {}, True, True), ("gemm", {"computes": "gemm"}, True, False), ("gemm", {}, False, False),
     ("cosine_gemm", {}, False, True)],
)  # fmt: skip
def test_a_kernel_that_nobody_named_is_wrong_if_it_is_what_it_was_taken_for(tmp_path, name, said, unknown, prefixed):
    more = "acc.x[0] = cosf(acc.x[0]);" if name != "gemm" else ""
    stored = SOURCE.replace("wmma::store_matrix_sync", f"{more} wmma::store_matrix_sync")
    (tmp_path / "k.cu").write_text(stored.replace("wmma_gemm", name))
    card = wmmadiag.open_card(tmp_path / "k.cu", entry=name, **said)
    assert _if_meant("wrong", card, unknown=unknown).startswith("if it computes gemm, which nobody said") == prefixed
