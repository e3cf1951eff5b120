"""Which changes are tried beside what mends a case: those near it, of what it calls, and the same elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from wmmadiag.csource.tree import parse
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.rivals import _nearby, _tried, rivals_of
from wmmadiag.diagnose.trials.outcomes import Outcome

TEXT = b"""__device__ int row_of(int lane) {
    return lane / 4;
}
__global__ void k(float* out, const float* in, int n) {
    int row = row_of(threadIdx.x);
    int column = n - 1;
    out[row] = in[row];
    out[column + n] = 0.0f;
}
"""


def one(line: int, note: str = "other", text: str = "") -> Ranked:
    at = len(b"\n".join(TEXT.split(b"\n")[: line - 1]))
    change = Change("number", (TextEdit("k.cu", at, at + 1, text),), "expression", "index", note)
    return Ranked(change, ("k.cu", line), 0.0)


def lines(right: Ranked, order: list[Ranked]) -> list[int]:
    found: Any = SimpleNamespace(ledger=SimpleNamespace(effort=SimpleNamespace(wider=0)))
    base: Any = SimpleNamespace(run=SimpleNamespace(findings=[]))
    rest = _nearby(found, base, {"k.cu": parse(TEXT, "k.cu")}, [right], order, {right.change})
    return [ranked.line[1] for ranked in rest]


def test_what_stands_near_a_change_is_tried_and_what_stands_elsewhere_is_not() -> None:
    assert lines(one(5, "mends"), [one(7), one(8), one(5)]) == [7, 5]


def test_what_a_line_or_the_text_that_is_put_in_calls_is_tried() -> None:
    assert lines(one(5, "mends"), [one(2), one(8)]) == [2]
    assert lines(one(8, "mends", "row_of(1)"), [one(2)]) == [2]
    assert lines(one(8, "mends"), [one(2)]) == []


def test_what_makes_a_value_that_a_line_uses_is_tried_inside_the_function_that_returns_it() -> None:
    assert lines(one(7, "mends"), [one(2), one(6)]) == [2]


def test_what_does_the_same_elsewhere_is_tried_once() -> None:
    assert lines(one(5, "mends"), [one(8, "mends"), one(8)]) == [8]
    assert lines(one(5, "mends"), [one(7, "mends")]) == [7]


class _Trials:
    """Answers for changes; those whose note says so turn out to need a compilation of their own."""

    def __init__(self, cost_apart: float = 6.0) -> None:
        self.cost_apart, self.asked = cost_apart, list[str]()

    def try_batch(self, changes: Sequence[Change], *, defers: bool = False) -> list[Outcome]:
        self.asked += [one.note for one in changes]
        return [
            Outcome(one, "deferred" if defers and one.note.startswith("apart") and self.cost_apart > 6 else "same", 64)
            for one in changes
        ]


def test_of_rivals_that_are_a_dear_compilation_each_as_many_are_tried_as_are_worth_it() -> None:
    def static(note: str) -> Ranked:
        ranked = one(5, note)
        return replace(ranked, change=replace(ranked.change, kind="static"))

    some = [static("type"), one(6, "apart 1"), one(7), static("size"), one(8, "apart 2"), static("layout")]
    for cost, tried, over in ((6.0, 6, 0), (400.0, 4, 2), (2000.0, 1, 5)):
        ledger = SimpleNamespace(note=lambda _: None)
        found: Any = SimpleNamespace(ledger=ledger, passed_over=0)
        base: Any = SimpleNamespace(trials=_Trials(cost))
        assert (len(_tried(found, base, some)), found.passed_over) == (tried, over)


def test_beside_two_that_mend_together_only_the_likelier_changes_are_tried() -> None:
    ledger = SimpleNamespace(spent=False, effort=SimpleNamespace(wider=1), note=len)  # a second round needs more
    mends = SimpleNamespace(tried=SimpleNamespace(ranked=one(5, "mends")))
    steps = [SimpleNamespace(ranked=one(8, "helps"))]
    found: Any = SimpleNamespace(ledger=ledger, steps=steps, answers=[mends], passed_over=0)
    base: Any = SimpleNamespace(run=SimpleNamespace(findings=[]), trials=_Trials())
    known: Any = SimpleNamespace(ranked=one(6))
    rest = rivals_of(found, base, {"k.cu": parse(TEXT, "k.cu")}, [one(7), one(6), one(6, "also"), one(4)], [known])
    assert [(each.ranked.line[1], each.ranked.change.note) for each in rest] == [(7, "other"), (6, "also")]
    ledger.spent = True
    assert not rivals_of(found, base, {}, [one(7)], [])
