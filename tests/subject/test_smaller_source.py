"""Kernels whose own code goes by constants of the file that are sizes for a GPU."""

from __future__ import annotations

import pytest

from wmmadiag.api import check
from wmmadiag.errors import WmmadiagError

SOURCE = """\
#include <cuda_runtime.h>
#include <mma.h>
using namespace nvcuda;
#include "beside.h"
#define M 16
M_GIVEN
#define M_ALL (M * M_TILES)
const int N_ALL = 4096;
static constexpr int K_ALL = 1 << 12;
__global__ void gemm(const half* A, const half* B, float* C) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  const int row = blockIdx.y * 16, column = blockIdx.x * 16;
  for (int k = 0; k < K_ALL; k += 16) {
    wmma::load_matrix_sync(a, A + row * K_ALL + k, K_ALL);
    wmma::load_matrix_sync(b, B + k * N_ALL + column, N_ALL);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + row * N_ALL + column, c, N_ALL, wmma::mem_row_major);
}
void run() {
  half *A, *B; float* C;
  cudaMalloc(&A, sizeof(half) * M_ALL * K_ALL);
  cudaMalloc(&B, sizeof(half) * K_ALL * N_ALL);
  cudaMalloc(&C, sizeof(float) * M_ALL * N_ALL);
  gemm<<<dim3(N_ALL / 16, M_ALL / 16), 32>>>(A, B, C);
}
"""


def judged(tmp_path, text):
    (tmp_path / "beside.h").write_text("#pragma once\n")
    path = tmp_path / "k.cu"
    path.write_text(text)
    return path, check(path)


@pytest.mark.parametrize("given", ["#define M_TILES 256", "#define M_TILES (256)  // of 16 rows"])
def test_a_kernel_of_large_constants_is_judged_with_smaller_ones(tmp_path, given):
    path, report = judged(tmp_path, SOURCE.replace("M_GIVEN", given))
    assert report.status == "passed"
    assert report.source == str(path)
    assert any("constants are smaller than its own" in one and "K_ALL" in one for one in report.assumed)
    sizes = report.cases[0].symbols
    assert len({sizes[name] for name in "MNK"}) > 1 and max(sizes[name] for name in "MNK") <= 1024


def test_a_wrong_one_is_not_right_and_its_place_is_in_the_source(tmp_path):
    text = SOURCE.replace("M_GIVEN", "#define M_TILES 256")
    assert judged(tmp_path, text.replace("A + row * K_ALL", "A + row * N_ALL"))[1].status != "passed"
    path, report = judged(tmp_path, text.replace("C + row * N_ALL", "C + 8 + row * N_ALL"))
    assert report.status != "passed"
    line = 1 + text[: text.index("wmma::store_matrix_sync")].count("\n")
    assert any(f"{path}:{line}" in str(case) for case in report.cases)


def test_small_constants_stay(tmp_path):
    text = SOURCE.replace("M_GIVEN", "#define M_TILES 4").replace("4096", "128").replace("1 << 12", "64")
    _, report = judged(tmp_path, text)
    assert report.status == "passed"
    assert report.cases[0].symbols["M"] == 64 and not any("smaller" in one for one in report.assumed)


def test_a_question_is_about_the_source(tmp_path):
    text = SOURCE.replace("M_GIVEN", "#define M_TILES 256").replace("gemm", "doIt").replace("* B", "* wxyz")
    text = text.replace("B + k", "wxyz + k").replace("* 16, column", "* 32, column")
    with pytest.raises(WmmadiagError) as found:
        judged(tmp_path, text)
    assert str(tmp_path / "k.cu") in str(found.value) and "smaller" not in str(found.value)
