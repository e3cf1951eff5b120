"""From where a search sets out: the source as it stands, or with changes kept that each mend a part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.confirm import Confirmed, confirmed
from wmmadiag.diagnose.evidence import traced
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.trial_bench import TrialBench
from wmmadiag.errors import WmmadiagError
from wmmadiag.provenance import ProvenanceRun
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.card import Case, LaunchShape

Progress: TypeAlias = Callable[[str], None]
"""Told what comes next."""
_PARTLY = 2
"""Changes that mend the failing case and not every one, from which the search goes on."""
_BY_CHANCE = 1 / 64
"""Such a share more may be wrong: of what another mistake spoils other elements are right by chance."""


@dataclass(frozen=True, slots=True)
class Base:
    """From where a search sets out."""

    trials: TrialBench  # of a source in which the `kept` changes are made, on a case that it is wrong in
    run: CaseRun  # of that case; followed: where its elements come from
    followed: ProvenanceRun | None
    kept: tuple[Tried, ...] = ()  # changes that each mend a part
    most: int | None = None  # changes to try from here; None: as many as may be tried


def further(
    found: Examined,
    base: Base,
    answers: Sequence[Confirmed],
    helps: Sequence[Tried],
    cases: Sequence[Case],
    most: int | None,
    done: set[Change],
) -> Iterator[Base]:
    """Where to go on from: what mends the case, with one that it leaves wrong; then what mends a part of the case.

    Args:
        most: changes to try from each, see `Base`.
        done: changes from which the search went on before; those that it goes on from now are put there.
    """
    for one in partly_right(found, answers)[:_PARTLY]:
        if one.tried.ranked.change not in done:
            done.add(one.tried.ranked.change)
            yield from behind(found, base, [one], cases, most)
    for helping in helps:
        if helping.ranked.change not in done:
            done.add(helping.ranked.change)
            yield from keeping(found, base, helping, base.trials.case, most)


def partly_right(found: Examined, answers: Sequence[Confirmed]) -> list[Confirmed]:
    """What mends the failing case, and leaves another one as wrong as it was."""
    return [one for one in answers if not one.right and one.shape is None and _no_worse(found, one)]


def behind(
    found: Examined,
    base: Base,
    some: Sequence[Confirmed],
    cases: Sequence[Case],
    most: int | None = None,
) -> Iterator[Base]:
    """The base with each of some changes kept, on a case that it leaves wrong; `most`: see `keeping`."""
    for one in some:
        left = one.runs[-1].result
        case = next(case for case in cases if case.name == left.case)
        yield from keeping(found, base, one.tried, case, most, seed=left.seed)


def _no_worse(found: Examined, one: Confirmed) -> bool:
    """Whether the case that a change leaves wrong was as wrong without it."""
    last = one.runs[-1]
    before = found.baseline.get(last.result.case)
    if before is None or last.result.distribution not in (before.result.distribution, ""):
        return False
    return last.wrong_count <= before.wrong_count * (1 + _BY_CHANCE)


def keeping(
    found: Examined, base: Base, step: Tried, case: Case, most: int | None = None, *, seed: int | None = None
) -> Iterator[Base]:
    """The base with one more change kept; nothing where it cannot be.

    Args:
        most: changes to try from there; None: as many as may be tried.
    """
    try:
        trials = base.trials.keeping(step.ranked.change, case=case, seed=seed)
    except (WmmadiagError, ValueError):
        return
    run = found.bench.run(case, base.trials.files(step.ranked.change), seed=seed)
    followed, _ = traced(found.bench, run)
    found.ledger.kept += 1
    try:
        yield Base(trials, run, followed, (*base.kept, step), most)
    finally:
        found.ledger.kept -= 1


def confirmed_from(
    found: Examined,
    base: Base,
    right: Sequence[Tried],
    cases: Sequence[Case],
    tell: Progress,
    launched: Sequence[tuple[Tried, LaunchShape]],
) -> list[Confirmed]:
    """What is right on one case, held to all; it is the answer where it is right in all, or nothing else is known."""
    if not right and not launched:
        return []
    tell(f"confirming {len(right) + len(launched):,} changes")
    answers = confirmed(
        found.bench, affordable(found, cases), found.baseline, right, base.trials.texts,
        found.ledger.effort.confirmed, launched,
    )  # fmt: skip
    better = any(one.firm for one in answers) or (
        any(one.right for one in answers) and not any(one.right for one in found.answers)
    )
    if better or (answers and not found.answers):
        found.answers, found.steps = tuple(answers), base.kept
    return answers


def affordable(found: Examined, cases: Sequence[Case]) -> list[Case]:
    """The cases that ran as the source stands, the failing one first: a change is held to these."""
    ran = [case for case in cases if case.name in found.baseline]
    return sorted(ran, key=lambda case: case.name != found.case.name)
