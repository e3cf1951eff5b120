"""Where two places mend every case, neither is proven, though one of them is right in further sizes as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.subject.card_files.read import load_card

SOURCE = """#include <mma.h>
using namespace nvcuda;
__global__ void rows(const half* a, const half* b, float* c, int n, int k) {
    const int row = blockIdx.x * 16;
    const int pairs = n / 32;  // of tiles
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    for (int t = 0; t < 2 * pairs; t++) {
        wmma::fill_fragment(fc, 0.0f);
        for (int i = 0; i < k; i += 16) {
            wmma::load_matrix_sync(fa, a + row * k + i, k);
            wmma::load_matrix_sync(fb, b + i * n + t * 16, n);
            wmma::mma_sync(fc, fa, fb, fc);
        }
        wmma::store_matrix_sync(c + row * n + t * 16, fc, n, wmma::mem_row_major);
    }
}
"""
CARD = """format = 1
name = "rows of tiles"
source = "k.cu"
entry = "rows"
computes.operation = "gemm"
arguments = [
  { name = "a", role = "a", dtype = "f16" }, { name = "b", role = "b", dtype = "f16" },
  { name = "c", role = "d", dtype = "f32" },
  { name = "n", dtype = "s32", value = "N" }, { name = "k", dtype = "s32", value = "K" },
]
launch = { grid = "M/16", block = 32 }
cases = [{ name = "one", M = 48, N = 96, K = 16 }, { name = "more", M = 48, N = 160, K = 48 }]
"""


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("t < 2 * pairs", "t < pairs", "likely"),  # or n / 16 pairs, which is right for an odd number of tiles as well
        ("b + i * n + t", "b + i * k + t", "proven"),
    ],
)
def test_a_cause_is_proven_where_one_place_alone_mends(tmp_path: Path, old: str, new: str, verdict: str) -> None:
    assert SOURCE.count(old) == 1
    (tmp_path / "k.cu").write_text(SOURCE.replace(old, new))
    (tmp_path / "k.toml").write_text(CARD)
    (cause,) = diagnose_card(load_card(tmp_path / "k.toml"), threads=2).causes
    assert cause.verdict == verdict and cause.fix is not None
    assert any("k.cu:9 mends it as well" in one for one in cause.evidence) == (verdict == "likely")
