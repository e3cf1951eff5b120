"""Where every number is right and only a check shows what is wrong: two places at once, and what is said in vain."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from trial_changes import UNORDERED, product

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.diagnose.by_checks import _complaints_left, _findings
from wmmadiag.diagnose.effort import EFFORTS
from wmmadiag.diagnose.engine import diagnose_card
from wmmadiag.diagnose.search import Ledger
from wmmadiag.place import Place
from wmmadiag.results.diagnosis import Diagnosis
from wmmadiag.subject.card import Card

STAGED = """const int warp = threadIdx.y / 4;
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    __shared__ float staged[2][32], again[2][32];
    staged[0][lane] = sum;
    sum = 0.0f;
    __syncwarp();
    const float beside = staged[0][lane ^ 1];
    again[warp][lane] = beside;
    __syncwarp();
    c[at(row, n, col)] = again[warp][lane ^ 1];"""
"""Both warps of a block use the first one's stage: one after the other, as the emulator runs them, they are right."""


def staged(folder: Path, *edits: tuple[str, str]) -> Card:
    text = STAGED
    for old, new in edits:
        text = text.replace(old, new)
    return product(folder, ("c[at(row, n, col)] = sum;", text))


def line_of(card: Card, piece: str) -> int:
    return next(n for n, text in enumerate(card.source.read_text("utf-8").split("\n"), 1) if piece in text)


def lines(found: Diagnosis) -> list[int]:
    return [int(one.place.rpartition(":")[2]) for one in found.causes]


@pytest.mark.slow
def test_what_takes_some_findings_away_is_kept_and_the_search_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cast(Any, EFFORTS), "normal", replace(EFFORTS["normal"], checked=32))  # both are among them
    card = product(tmp_path, ("c[at(row, n, col)] = sum;", UNORDERED))
    found = diagnose_card(card)
    first, second = line_of(card, "staged[place] ="), line_of(card, "again[place] =")
    assert [one.verdict for one in found.causes] == ["likely", "likely"]
    assert {(line - first) // (second - first) for line in lines(found)} == {0, 1}  # one of each
    assert all(one.fix is not None and one.fix.status == "verified" for one in found.causes)


def test_findings_are_told_apart_by_what_they_are_about_not_by_lines_that_a_change_moves() -> None:
    def run(*messages: str, level: Level = Level.ERROR) -> Any:
        found = [Finding("races", "read-write", level, message, Place("k.cu", 7)) for message in messages]
        return SimpleNamespace(findings=found)

    staged, moved = "this line reads s, line 21 writes", "this line reads s, line 22 writes"
    twice, once = _findings(run(staged, "this line reads s, line 40 writes")), _findings(run(moved))
    assert once < twice and not twice < twice and not once < once
    assert not _findings(run("this line reads t, line 21 writes")) < twice  # another one in its place
    assert not _findings(run(staged, level=Level.WARNING))


@pytest.mark.slow
def test_where_nothing_mends_the_findings_lines_are_named(tmp_path: Path) -> None:
    card = staged(tmp_path)
    found = diagnose_card(card, effort="quick")  # no two changes at once
    (cause,) = found.causes
    assert cause.verdict == "undecided" and lines(found) == [line_of(card, "[lane] = sum;")]
    assert any("staged" in one for one in cause.evidence)


@pytest.mark.parametrize(("instructions", "asked"), [(10_000, True), (100, False)])
def test_complaints_are_counted_as_far_as_the_effort_reaches(instructions: int, asked: bool) -> None:
    """A launch that takes long is not run a thousand times with checks on."""
    seen: list[Any] = []
    trials = SimpleNamespace(complaints_left=lambda *some: seen.append(some) or {})
    base: Any = SimpleNamespace(
        trials=trials, run=SimpleNamespace(findings=(), result=SimpleNamespace(warp_instructions=70))
    )
    ledger = Ledger(replace(EFFORTS["normal"], instructions=instructions))
    found: Any = SimpleNamespace(ledger=ledger, bench=SimpleNamespace(checks=()))
    assert _complaints_left(found, base, [cast(Any, "one"), cast(Any, "other")], ()) == {}
    assert bool(seen) is asked and ledger.watched == (140 if asked else 0)


def test_a_stage_of_each_warps_own_is_nothing_to_complain_of(tmp_path: Path) -> None:
    assert diagnose_card(staged(tmp_path, ("staged[0]", "staged[warp]"))).causes == ()
