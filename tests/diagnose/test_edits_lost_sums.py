"""Sums that a loop makes and drops; and loops that do not."""

from __future__ import annotations

import pytest

from wmmadiag.diagnose.edits import apply, edits
from wmmadiag.diagnose.source.read import read_source

SOURCE = """__global__ void k(const half* p, float* out, int n) {
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc, tmp;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fill_fragment(acc, 0.0f);
  for (int i = 0; i < n; ++i) {
    BEFORE
    wmma::mma_sync(tmp, a, b, acc);
    AFTER
  }
  wmma::store_matrix_sync(out, acc, 16, wmma::mem_row_major);
}
"""


def offered(before="", after="", source=SOURCE):
    text = source.replace("BEFORE", before).replace("AFTER", after)
    found = [edit for edit in edits(read_source(text), hypotheses=("operand-order",)) if edit.kind == "lost-sums"]
    return text, found


def test_a_sum_that_no_round_keeps():
    text, found = offered()
    assert {edit.summary for edit in found} == {"accumulate into acc", "accumulate onto tmp"}
    into = next(edit for edit in found if edit.summary == "accumulate into acc")
    assert "mma_sync(acc, a, b, acc)" in apply(text, into)
    assert into.cause == "every round of the loop adds to acc as it was: tmp has the last product only"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "wmma::mma_sync(acc, a, b, tmp);"),
        ("", "for (int t = 0; t < acc.num_elements; ++t) acc.x[t] += tmp.x[t];"),
        ("", "acc = tmp;"),
        ("wmma::fill_fragment(acc, 0.0f);", ""),
        ("wmma::load_matrix_sync(acc, out, 16, wmma::mem_row_major);", ""),
        ("wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;", ""),
    ],
)
def test_a_sum_that_goes_on_or_begins_anew(before, after):
    assert offered(before, after)[1] == []


def test_outside_loops_nothing_is_dropped():
    assert offered(source=SOURCE.replace("for (int i = 0; i < n; ++i) ", ""))[1] == []
