"""Guessed numbers that nothing in a run depends on make no verdict; those on which something does, do."""

from __future__ import annotations

import pytest

import wmmadiag

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
