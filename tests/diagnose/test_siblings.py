"""Whether a change makes a statement more like those beside it."""

from __future__ import annotations

import pytest

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import TextEdit
from wmmadiag.diagnose.siblings import Siblings

TEXT = b"""void f() {
  mma(low[2 * d], as, bq[0], bq[1]);
  mma(low[2 * d + 1], ap, bq[2], bq[3]);
  other = x;
}
"""


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (b"ap", "as", "sibling:nearer"),
        (b"ap", "at", "sibling:as near"),
        (b"bq[3]", "cq[3] + 1", "sibling:farther"),
        (b"low[2 * d + 1], ap, bq[2], bq[3]", "low[2 * d], as, bq[0], bq[1]", "sibling:the same"),
    ],
)
def test_a_statement_is_nearer_to_its_sibling_or_farther(old: bytes, new: str, word: str) -> None:
    at = TEXT.index(old)
    assert word in set(Siblings({"k.cu": parse(TEXT, "k.cu")}).words([TextEdit("k.cu", at, at + len(old), new)]))


@pytest.mark.parametrize(("at", "length"), [(TEXT.index(b"x;"), 1), (TEXT.index(b"mma"), 0)])
def test_short_statements_and_insertions_have_no_siblings(at: int, length: int) -> None:
    assert not set(Siblings({"k.cu": parse(TEXT, "k.cu")}).words([TextEdit("k.cu", at, at + length, "y")]))
