"""When a search goes on, and when it ends: what mends the failing case has yet to mend the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.csource.dependences import Dependences
from wmmadiag.csource.tree import parse
from wmmadiag.diagnose import hunt, mending, nearby, rivals
from wmmadiag.diagnose.bases import Base
from wmmadiag.diagnose.changes import Change, TextEdit
from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import PARTS, Ledger, Tried
from wmmadiag.diagnose.trials.outcomes import Outcome
from wmmadiag.place import Place

FILE = "k.cu"
CHANCE, UNDOING, FRAIL, UNFIT = 3, 900, 5, 6
"""A change that makes the failing case right and no other, among the likeliest; one that is far behind it; and one of
the likeliest that is right in every case and may hide what is wrong; and one that is, but with no size beside these."""


class _Trials:
    """A bench on which some changes make the case right; each costs some warp instructions."""

    cost_apart, spread = 6.0, 1

    def __init__(self, right: Sequence[int], work: int = 10) -> None:
        self.right, self.work, self.tried = frozenset(right), work, list[int]()
        self.texts = {FILE: b"int a;\n" * 2000}
        self.wrong_before = 64
        self.strays_before = 0
        self.cost_apart = 6.0
        self.case = SimpleNamespace(name="small")

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        numbers = [int(one.note) for one in changes]
        self.tried += numbers
        return [
            Outcome(one, "right" if number in self.right else "same", 64, work=self.work)
            for one, number in zip(changes, numbers, strict=True)
        ]

    def try_pairs(self, pairs: Sequence[tuple[Change, Change]]) -> list[Outcome]:
        raise AssertionError("no pair of these is apart")

    def keeping(self, *changes: Change, **_: Any) -> _Trials:
        return self


def ranks(count: int) -> list[Ranked]:
    """The first ones so much likelier that a search which found one of them right ends."""
    made = []
    for number in range(count):
        change = Change("number", (TextEdit(FILE, 0, 1, str(number)),), "expression", "index", str(number))
        made.append(Ranked(change, (FILE, 1 + number), 9.0 if number < PARTS[0] else -9.0))
    return made


@pytest.fixture
def search_of(monkeypatch: pytest.MonkeyPatch):
    """Search with a bench of right changes; of them, the undoing alone is right in every case."""

    def run(
        trials: _Trials, ledger: Ledger, count: int, together: Sequence[int] = (), sought: Sequence[Tried] = ()
    ) -> tuple[bool, list[list[int]]]:
        held: list[list[int]] = []

        def confirm(found: Any, base: Any, right: Sequence[Tried], *_: Any) -> list[Any]:
            numbers = [int(one.ranked.change.note) for one in right]
            held.append(numbers)
            return [
                SimpleNamespace(
                    right=number in (UNDOING, FRAIL, UNFIT),
                    firm=number == UNDOING,
                    shape="",
                    runs=(None,),
                    waste=(),
                    frail="why" if number == FRAIL else "",
                )
                for number in numbers
            ]

        sources = {FILE: parse(trials.texts[FILE], FILE)}
        for module in (mending, rivals):
            monkeypatch.setattr(
                module, "ranked_changes", lambda *_, known=None, **__: (sources, ranks(count) if known is None else [])
            )
        monkeypatch.setattr(mending, "tried_launches", lambda *_: [])
        monkeypatch.setattr(mending, "suspicion_of", lambda *_: None)
        monkeypatch.setattr(hunt, "rendered_entries", lambda *_: "k")
        monkeypatch.setattr(hunt, "program", lambda *_, **__: None)
        monkeypatch.setattr(hunt, "Sketches", lambda *_: SimpleNamespace(tried=lambda *_: []))
        monkeypatch.setattr(mending, "solved", lambda *_: list(sought))
        monkeypatch.setattr(hunt, "slid", lambda trials, entry, right, ledger: list(right))
        for module in (mending, hunt):
            monkeypatch.setattr(module, "confirmed_from", confirm)
        bench = SimpleNamespace(variant=SimpleNamespace(launch=None), card=SimpleNamespace(launch=None, derived=None))
        kept = [SimpleNamespace(ranked=ranks(number + 1)[number]) for number in together]
        answers = [SimpleNamespace(tried=kept[-1])] if kept else []
        found = SimpleNamespace(
            bench=bench,
            ledger=ledger,
            sources={},
            ahead=None,
            suspects=(),
            helps=(),
            pairs={},
            passed_over=0,
            steps=kept[:-1],
            answers=answers,
        )
        base = Base(trials, SimpleNamespace(findings=(), compilation=None), None)  # type: ignore[arg-type]
        return mending._numbers(found, base, (), lambda _: None), held  # type: ignore[arg-type]

    return run


@pytest.mark.parametrize("before", [0, 9000])  # changes that other rounds tried
def test_what_is_right_in_one_case_only_does_not_end_the_search(search_of, before: int) -> None:
    trials, ledger = _Trials([CHANCE, UNDOING]), Ledger(EFFORTS["normal"], changes=before)
    mended, held = search_of(trials, ledger, 1000)
    assert mended and held == [[CHANCE], [UNDOING]]
    assert sorted(trials.tried) == list(range(len(trials.tried)))  # none twice


def test_what_may_hide_the_mistake_ends_the_search_only_where_the_likeliest_have_nothing_else(search_of) -> None:
    mended, held = search_of(_Trials([FRAIL, UNDOING]), Ledger(EFFORTS["normal"]), 1000)
    assert mended and held == [[FRAIL], [UNDOING]]
    trials = _Trials([FRAIL, 4000])
    mended, held = search_of(trials, Ledger(EFFORTS["normal"]), 5000)
    assert mended and [some for some in held if some] == [[FRAIL]] and 4000 not in trials.tried


def test_where_no_likely_change_is_right_with_another_size_the_kernel_is_not_made_for_it(search_of) -> None:
    mended, held = search_of(_Trials([UNFIT, UNDOING]), Ledger(EFFORTS["normal"]), 1000)
    assert mended and held == [[UNFIT], [UNDOING]]
    trials = _Trials([UNFIT])
    mended, held = search_of(trials, Ledger(EFFORTS["normal"]), 5000)
    assert mended and [some for some in held if some] == [[UNFIT]]
    assert len(trials.tried) == mending._EARLY


def test_beside_changes_that_mend_it_together_one_that_does_so_alone_is_looked_for(
    search_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mending, "_STEPS", [lambda hunt: True])
    ledger = Ledger(EFFORTS["normal"])
    trials = _Trials([UNDOING])
    assert search_of(trials, ledger, 1200, together=[UNDOING, 20]) == (True, [[UNDOING]])
    assert UNDOING in trials.tried and 600 not in trials.tried
    trials = _Trials([UNDOING])
    assert search_of(trials, ledger, 1200, together=[20]) == (True, [])
    assert not trials.tried


@pytest.mark.parametrize(("role", "held"), [("factor", [[UNDOING]]), ("index", [])])
def test_where_several_changes_of_values_mend_it_together_a_number_is_sought(
    search_of, monkeypatch: pytest.MonkeyPatch, role: str, held: list[list[int]]
) -> None:
    monkeypatch.setattr(mending, "_STEPS", [lambda hunt: True])
    once = ranks
    monkeypatch.setitem(
        globals(), "ranks", lambda count: [replace(one, change=replace(one.change, role=role)) for one in once(count)]
    )
    number = Tried(ranks(UNDOING + 1)[UNDOING], Outcome(ranks(1)[0].change, "right", 64))
    _, confirmed = search_of(_Trials([]), Ledger(EFFORTS["normal"]), 1200, together=[10, 20], sought=[number])
    assert [some for some in confirmed if some] == held


@pytest.mark.parametrize("limit", ["instructions", "changes"])
def test_a_search_whose_effort_is_spent_ends(search_of, limit: str) -> None:
    effort = replace(EFFORTS["quick"], **{limit: 500})
    trials, ledger = _Trials([CHANCE, UNDOING]), Ledger(effort)
    mended, held = search_of(trials, ledger, 5000)
    assert not mended and held[0] == [CHANCE] and ledger.spent
    assert len(trials.tried) < 1000 and UNDOING not in trials.tried


def test_a_part_of_the_effort_is_kept_for_the_second_round(search_of) -> None:
    effort = EFFORTS["normal"]
    ledger = Ledger(effort, instructions=effort.instructions)
    search_of(_Trials([]), ledger, 10)
    assert ledger.effort.instructions > effort.instructions


def test_a_search_ends_where_operators_give_one_change_twice(search_of, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ranks
    monkeypatch.setitem(globals(), "ranks", lambda count: [*once(count), *once(count)])
    mended, held = search_of(_Trials([CHANCE]), Ledger(EFFORTS["normal"]), 100)
    assert not mended and set(held[0]) == {CHANCE}


KERNEL = """__global__ void k(float* out, const float* in) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = in[t];
    int other = t ^ 32;
    out[t] = s[other];
    int none = 5;
}
"""


def test_changes_of_a_findings_lines_are_checked_first() -> None:
    sources = {FILE: parse(KERNEL.encode(), FILE)}
    order = [replace(one, line=(FILE, line)) for one, line in zip(ranks(4), (7, 5, 4, 6), strict=True)]
    race = Finding("races", "write-read", Level.ERROR, "two threads", Place(FILE, 4), Place(FILE, 6))
    run: Any = SimpleNamespace(findings=[race])
    assert [one.line[1] for one in nearby.at_findings(order, run, sources)] == [4, 6, 5, 7]


LOOPS = """__global__ void k(float* out, int* done) {
    for (int i = 0; i < 4; ++i) {
        out[i] = 1.0f;
    }
    // all of it is written
    if (threadIdx.x == 0) {
        atomicAdd(done, 1);
    }
    int none = 5;
}
"""


def test_what_orders_accesses_comes_first_where_a_statement_around_one_ends() -> None:
    sources = {FILE: parse(LOOPS.encode(), FILE)}
    end, later = LOOPS.index("    }\n    //") + 5, LOOPS.index("    int none")

    def put(at: int, role: str) -> Ranked:
        change = Change("made", (TextEdit(FILE, at, at, "f();"),), "insertion", role, "")
        return Ranked(change, (FILE, LOOPS.count("\n", 0, at) + 1), 0.0)

    order = [put(later, "barrier"), put(end, "statement"), put(end, "barrier")]
    race = Finding("races", "blocks-read-write", Level.ERROR, "two blocks", Place(FILE, 3))
    run: Any = SimpleNamespace(findings=[race])
    assert nearby.at_findings(order, run, sources) == [order[2], order[1], order[0]]


CALLS = """__device__ void put(float* s, float v) {
    s[threadIdx.x] = v;
}
__global__ void k(float* out, const float* in) {
    __shared__ float s[64];
    for (int i = 0; i < 4; ++i) {
        put(s, in[i]);
        out[i] = s[63 - threadIdx.x];
    }
}
"""


def test_what_orders_accesses_comes_first_where_both_are_made_or_called_for() -> None:
    sources = {FILE: parse(CALLS.encode(), FILE)}

    def before(line: int) -> Ranked:
        start = len("".join(CALLS.splitlines(keepends=True)[: line - 1]))
        start += len(CALLS[start:]) - len(CALLS[start:].lstrip())
        change = Change("made", (TextEdit(FILE, start, start, "f();"),), "insertion", "barrier", "")
        return Ranked(change, (FILE, line), 0.0)

    order = [before(2), before(7), before(8), before(5)]
    write = Place(FILE, 2, 1, "put(float*, float)", Place(FILE, 7, 1, "k(float*, float const*)"))
    read = Place(FILE, 8, 1, "k(float*, float const*)")
    run: Any = SimpleNamespace(findings=[Finding("races", "read-write", Level.ERROR, "two threads", write, read)])
    assert [one.line[1] for one in nearby.at_findings(order, run, sources)] == [7, 8, 2, 5]


def test_beside_a_line_is_where_its_values_are_made_and_used() -> None:
    beside = Dependences({FILE: parse(KERNEL.encode(), FILE)}).beside([(FILE, 5)])
    lines = {line for _, line in beside}
    assert {3, 5, 6} <= lines and 7 not in lines
