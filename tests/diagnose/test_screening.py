"""Changes that mend one case alike, told apart by another one; and an operand that is read as if it lay otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from wmmadiag.diagnose.bases import partly_right
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.confirm import confirmed
from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.screening import screened
from wmmadiag.diagnose.search import Ledger, Tried
from wmmadiag.diagnose.trials.outcomes import Outcome, TrialVerdict
from wmmadiag.subject.card_files.read import load_card


class _Trials:
    """On its further case each change fares as its note says."""

    def __init__(self) -> None:
        self.cases: list[str] = []

    def keeping(self, *, case: Any) -> _Trials:
        self.cases.append(case.name)
        return self

    def try_batch(self, changes: Sequence[Change], *, looks: int) -> list[Outcome]:
        assert looks == 0  # each is looked at whole
        split = [one.note.split() for one in changes]
        return [
            Outcome(one, cast(TrialVerdict, verdict), 8, work=5, nearer=float(nearer))
            for one, (verdict, nearer) in zip(changes, split, strict=True)
        ]


def right(*fates: str) -> list[Tried]:
    """Changes that are right on the failing case, the likeliest first."""
    made = []
    for number, fate in enumerate(fates):
        change = Change("number", (TextEdit("k.cu", 0, 1, str(number)),), "expression", "index", fate)
        ranked = Ranked(change, ("k.cu", 1), -float(number))
        made.append(Tried(ranked, Outcome(change, "right", 8)))
    return made


def order(some: Sequence[Tried], trials: _Trials, ledger: Ledger, *names: str) -> list[str]:
    cases = cast(Any, [SimpleNamespace(name=name) for name in names])
    return [one.ranked.change.note for one in screened(cast(Any, trials), some, cases, ledger)]


def test_what_is_right_on_another_case_comes_first_and_then_what_is_nearest() -> None:
    trials, ledger = _Trials(), Ledger(EFFORTS["normal"])
    some = right("fault 0", "same 0.1", "better 0.4", "right 0", "right 1")
    assert order(some, trials, ledger, "wide") == ["right 0", "right 1", "better 0.4", "same 0.1", "fault 0"]
    assert trials.cases == ["wide"] and ledger.changes == 5 and ledger.instructions == 25


def test_few_changes_are_left_to_the_confirmation() -> None:
    trials, ledger = _Trials(), Ledger(EFFORTS["normal"])
    assert order(right("fault 0", "right 0"), trials, ledger, "wide") == ["fault 0", "right 0"]
    assert not trials.cases and not ledger.changes


def test_nothing_is_screened_on_a_case_more_once_all_work_is_spent() -> None:
    trials, ledger = _Trials(), Ledger(EFFORTS["normal"], changes=EFFORTS["normal"].changes)
    fates = ["same 0", "right 0", "same 0", "right 0"]
    assert order(right(*fates), trials, ledger, "wide") == fates and not trials.cases


def test_what_is_not_right_everywhere_keeps_the_order_it_was_given() -> None:
    """The likeliest one is not before what leaves another case nearer to right: there the search goes on."""
    text = b"int f() {\n  int a = 1;\n  return a;\n}\n"
    some = []
    for one, start, score in zip(right("near", "far"), (text.index(b"1"), text.index(b"a;")), (0.0, 5.0), strict=True):
        change = replace(one.ranked.change, edits=(TextEdit("k.cu", start, start + 1, "2"),))
        some.append(replace(one, ranked=replace(one.ranked, change=change, score=score)))

    def run(name: str, *, passed: bool) -> SimpleNamespace:
        result = SimpleNamespace(case=name, warp_instructions=8)
        return SimpleNamespace(passed=passed, findings=(), verdict=object(), result=result)

    bench = SimpleNamespace(run=lambda case, texts: run(case.name, passed=case.name == "small"))
    cases = [SimpleNamespace(name=name) for name in ("small", "wide")]
    baseline = {one.name: run(one.name, passed=False) for one in cases}
    found = confirmed(cast(Any, bench), cast(Any, cases), cast(Any, baseline), some, {"k.cu": text}, 8)
    assert [one.tried.ranked.change.note for one in found] == ["near", "far"] and not any(one.right for one in found)


@pytest.mark.parametrize(("left", "goes_on"), [(1000, True), (1010, True), (1100, False)])
def test_what_mends_a_case_may_leave_another_one_as_wrong_as_it_was_but_for_chance(left: int, goes_on: bool) -> None:
    """Of what another mistake makes wrong a few elements are right by chance."""

    def run(wrong: int) -> SimpleNamespace:
        return SimpleNamespace(wrong_count=wrong, result=SimpleNamespace(case="wide", distribution=""))

    found = SimpleNamespace(baseline={"wide": run(1000)})
    answer = SimpleNamespace(right=False, shape=None, runs=(run(left),))
    assert partly_right(cast(Any, found), [cast(Any, answer)]) == ([answer] if goes_on else [])


SCORES = """__global__ void scores(const float* q, const float* k, float* s, int keys, int dim) {
    int row = blockIdx.x, lane = threadIdx.x;
    for (int tile = 0; tile < keys / 16; ++tile) {
        float sum = 0.0f;
        for (int d = 0; d < dim; ++d)
            sum += q[row * dim + d] * k[tile * 16 + lane + d * keys];
        s[row * keys + tile * 16 + lane] = sum;
    }
}
"""
CARD = """format = 1
source = "k.cu"
entry = "scores"
tolerance = { atol = 1e-4, rtol = 1e-4 }

[computes]
python = "reference.py:scores"

[[arguments]]
role = "q"
dtype = "f32"
shape = ["M", "K"]
direction = "in"

[[arguments]]
role = "k"
dtype = "f32"
shape = ["N", "K"]
direction = "in"

[[arguments]]
role = "s"
dtype = "f32"
shape = ["M", "N"]
direction = "out"

[[arguments]]
name = "keys"
dtype = "s32"
value = "N"

[[arguments]]
name = "dim"
dtype = "s32"
value = "K"

[launch]
grid = ["M"]
block = ["16"]

[[cases]]
name = "square"
M = 4
N = 32
K = 32

[[cases]]
name = "wide"
M = 3
N = 64
K = 32
"""
REFERENCE = """def scores(inputs, sizes):
    return {"s": inputs["q"] @ inputs["k"].T}
"""


@pytest.fixture
def transposed(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SCORES)
    (tmp_path / "k.toml").write_text(CARD)
    (tmp_path / "reference.py").write_text(REFERENCE)
    return tmp_path / "k.toml"


@pytest.mark.slow
def test_an_operand_that_is_read_as_if_it_lay_the_other_way(transposed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the square case `keys` and `dim` are one number: only the other one says which of them mends.

    An operator of the second round mends it. Places are filled before that, in vain and for most of the time: not here.
    """
    monkeypatch.setitem(cast(Any, EFFORTS), "normal", replace(EFFORTS["normal"], filled=0))
    found = diagnose_card(load_card(transposed))
    cause = found.causes[0]
    assert cause.verdict in ("proven", "likely") and cause.place.endswith("k.cu:6"), cause
    assert cause.fix is not None and cause.fix.status == "verified"
    assert "k[(tile * 16 + lane) * dim + d]" in cause.fix.diff, cause.fix.diff
