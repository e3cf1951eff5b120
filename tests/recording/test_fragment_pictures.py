"""What a fragment held against what it should: the loads of a wrong kernel beside those of the mended one."""

from __future__ import annotations

import difflib

import pytest

from wmmadiag.api import open_card
from wmmadiag.recording.fragments import fragment_maps
from wmmadiag.results.diagnosis import Cause, Diagnosis, Fix

SOURCE = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    __shared__ __align__(32) half tile[16][24];
    for (int i = threadIdx.x; i < 256; i += 32) tile[i / 16][i % 16] = A[i];
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::load_matrix_sync(a, &tile[0][0], 16);
    wmma::load_matrix_sync(b, B, 16);
    wmma::mma_sync(sum, a, b, sum);
    wmma::store_matrix_sync(C, sum, 16, wmma::mem_row_major);
}
"""
CARD = """format = 1
name = "pitch"
source = "pitch.cu"
entry = "gemm"
arguments = [
    { name = "A", role = "a", dtype = "f16" }, { name = "B", role = "b", dtype = "f16" },
    { name = "C", role = "d", dtype = "f32" },
    { name = "M", dtype = "s32", value = "M" }, { name = "N", dtype = "s32", value = "N" },
    { name = "K", dtype = "s32", value = "K" },
]
launch = { grid = [1], block = 32 }
computes = { operation = "gemm" }
cases = [{ name = "one", M = 16, N = 16, K = 16 }]
"""
LINE = SOURCE[: SOURCE.index("sync(a")].count("\n") + 1


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    monkeypatch.setenv("WMMADIAG_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "pitch.cu").write_text(SOURCE)
    (tmp_path / "pitch.toml").write_text(CARD)
    card = open_card(tmp_path / "pitch.toml")

    def made(mended, line=LINE, status="verified"):
        diff = "".join(difflib.unified_diff(SOURCE.splitlines(True), mended.splitlines(True), "a", "b"))
        cause = Cause("x", "proven", "x", f"{tmp_path / 'pitch.cu'}:{line}:5", fix=Fix("x", diff, status))
        found = Diagnosis("x", "", "", "gemm", "sm_90", "emulator", "default", "one", "diagnosed", "x", causes=(cause,))
        return fragment_maps(card, found)

    return made


def test_a_wrong_leading_dimension(pictures):
    (seen,) = pictures(SOURCE.replace("[0][0], 16)", "[0][0], 24)"))
    assert (seen.rows, seen.columns, len(seen.cells)) == (16, 16, 256) and "Fragment a" in seen.title
    for cell in seen.cells:
        offset = 16 * cell.row + cell.column
        assert cell.held == f"tile[{offset // 24}][{offset % 24}]" and cell.wanted == f"tile[{cell.row}][{cell.column}]"
    # PTX ISA, wmma.load of m16n16k16 on sm_75 and later: lane 0 holds (0, 0) and (0, 1) first, then rows 8 below.
    lane = [(cell.row, cell.column) for cell in seen.cells if cell.lane == 0][:4]
    assert lane == [(0, 0), (0, 1), (8, 0), (8, 1)]


def test_lines_that_the_change_adds_before_are_counted(pictures):
    mended = SOURCE.replace("[0][0], 16)", "[0][0], 24)").replace(
        "    __syncthreads();\n", "    // now\n    __syncthreads();\n"
    )
    assert len(pictures(mended)) == 1


def test_another_layout_of_the_same_lines(pictures):
    mended = SOURCE.replace(
        "matrix_b, 16, 16, 16, half, wmma::row_major", "matrix_b, 16, 16, 16, half, wmma::col_major"
    )
    (seen,) = pictures(mended, LINE + 1)
    assert all(cell.held == f"B[{cell.row},{cell.column}]" for cell in seen.cells if cell.row == cell.column)
    assert sum(cell.held != cell.wanted for cell in seen.cells) == 240


def test_no_picture_without_a_difference(pictures):
    assert pictures(SOURCE.replace("0.0f", "1.0f")) == ()
    assert pictures(SOURCE.replace("[0][0], 16)", "[0][0], 24)"), status="suggestion") == ()
    assert pictures(SOURCE.replace("[0][0], 16)", "[0][0], oops)")) == ()  # does not compile
