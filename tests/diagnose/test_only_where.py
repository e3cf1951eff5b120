"""A change made only where a condition of the source holds."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.changes import Change, TextEdit, applied
from wmmadiag.diagnose.only_where import only_where
from wmmadiag.diagnose.operators.places import program
from wmmadiag.diagnose.ranking import Ranked

FILE = "k.cu"
KERNEL = b"""template <int kWidth>
__global__ void k(float* out, const float* a, int n, bool scaled) {
  float before = 0.0f;
  for (int i = 0; i < n; ++i) {
    const float factor = 2.0f;
    out[i] = factor * a[i] - before;
    if (i < kWidth) { before = a[i]; }
  }
}
"""


def made(old: bytes, new: str, kind: str = "expression") -> Iterator[str]:
    """The texts of a change under conditions."""
    at = KERNEL.index(old)
    edit = TextEdit(FILE, at, at + (len(old) if kind != "insertion" else 0), new)
    one = Ranked(Change("test", (edit,), kind, "value", "another"), (FILE, 5), 1.0)  # type: ignore[arg-type]
    for each in only_where(program({FILE: KERNEL}, "k"), [one]):
        assert each.score < one.score
        yield applied({FILE: KERNEL}, [each.change])[FILE].decode()


def test_a_value_is_another_one_where_a_condition_of_the_source_holds_or_where_it_does_not() -> None:
    found = list(made(b"2.0f", "1.0f"))
    for asked in ("i == 0", "scaled", "i < kWidth"):
        assert any(f"factor = {asked} ? 1.0f : 2.0f;" in text for text in found)
    assert any("factor = !(i == 0) ? 1.0f : 2.0f;" in text for text in found)
    assert any("out[i] = (i == 0 ? a[i] : factor * a[i]) - before;" in text for text in made(b"factor * a[i]", "a[i]"))


def test_a_statement_is_put_in_where_a_condition_holds() -> None:
    texts = list(made(b"out[i] =", "before *= 0.5f;\n    ", "insertion"))
    assert any("if (scaled) { before *= 0.5f; }\n    out[i]" in text for text in texts)


def test_what_the_compiler_must_know_and_what_is_assigned_to_hang_on_no_condition() -> None:
    assert not list(made(b"kWidth", "kWidth + 1", "static"))
    assert not list(made(b"out[i]", "out[i + 1]"))
