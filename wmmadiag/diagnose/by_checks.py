"""Looking for what mends a case that has right numbers, and of which a check shows what another order would spoil.

How many findings there are is all that tells one change from another: one that takes some away and adds none is kept,
and the search goes on from there; then the same is done at two places.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar

from wmmadiag.checks.finding import Level
from wmmadiag.checks.registry import native_names
from wmmadiag.csource.dependences import Line
from wmmadiag.diagnose.bases import Base, Progress, confirmed_from, keeping
from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.evidence import clean, ranked_changes
from wmmadiag.diagnose.examined import Examined
from wmmadiag.diagnose.names import puts_in_order
from wmmadiag.diagnose.nearby import at_findings
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.suspicion import marks
from wmmadiag.diagnose.two_bugs import as_one, unseen_pairs
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.card import Case

Look: TypeAlias = Callable[[Examined, Base, Sequence[Case], Progress], bool]
"""Searches from a base; whether what is left there is mended."""
_Some = TypeVar("_Some")
_CHECKED, _OF = 128, 1024
"""Changes that are tried before those that do no harm are run with checks, and how many there may be."""
_FURTHER = 512
"""The same of all others, where nothing else mends."""
_PAIRED = 512
"""Pairs of changes that are tried."""
_PASSING = 8
"""Such a part of the changes that are run with all checks are where the kernel passes."""
_FEWER = 2
"""Changes that take findings away, from which the search goes on."""
_LINE = re.compile(r"\bline \d+")
_SAID = 3
"""Lines that are named where nothing mends."""


def by_checks(found: Examined, base: Base, cases: Sequence[Case], tell: Progress, look: Look) -> bool:
    """Search from a base; whether a change mends every case.

    Args:
        look: how to search from a base with a change more.
    """
    ledger, trials = found.ledger, base.trials
    sources, order = ranked_changes(found.bench, base.run, base.followed, trials.texts, ahead=found.ahead)
    if not base.kept:
        found.sources, found.suspects = sources, _said(base.run)
    every = at_findings(order, base.run, sources)
    ledger.complete = False
    if base.run.passed:  # lanes of a warp meet, and are right by how they run: nothing but order is missing
        orders = [one for one in every if puts_in_order(one.change)]
        return _Singles(found, base, cases, tell, ledger.effort.checked // _PASSING).mended(orders[:_CHECKED])
    near = _Singles(found, base, cases, tell, ledger.effort.checked)
    if near.mended(every[:_OF]):
        return True
    if len(base.kept) + 1 < ledger.effort.bugs:
        for one in near.fewer[:_FEWER]:
            for held in keeping(found, base, one, base.trials.case):
                if not ledger.spent and look(found, held, cases, tell):
                    return True
    kept = [one for one in every[:_OF] if one not in near.refused]
    if not ledger.spent and _pairs(found, base, kept, cases, tell):
        return True
    if base.kept:
        return False
    others = _Singles(found, base, cases, tell, ledger.effort.checked, _FURTHER)
    right = others.mended(every[_OF:])
    ledger.complete = not near.left and not others.left
    return right


@dataclass(slots=True)
class _Singles:
    """Changes that are tried alone, some at a time: those that do no harm are run with all checks."""

    found: Examined
    base: Base
    cases: Sequence[Case]
    tell: Progress
    checks: int  # changes to run with all checks
    at_once: int = _CHECKED
    fewer: list[Tried] = field(default_factory=list)  # those that take some findings away, and add none
    refused: set[Ranked] = field(default_factory=set)  # by the compiler
    left: bool = False  # whether some were not tried

    def mended(self, waiting: Sequence[Ranked]) -> bool:
        """Try them as far as the effort goes; whether one mends every case."""
        ledger, trials = self.found.ledger, self.base.trials
        checks = self.checks
        self.left = True
        while waiting and checks > 0 and not ledger.spent:
            part, waiting = waiting[: self.at_once], waiting[self.at_once :]
            bare = trials.try_batch([one.change for one in part])
            ledger.note(bare)
            tried = [Tried(one, outcome) for one, outcome in zip(part, bare, strict=True)]
            harmless = [one for one in tried if _harmless(one.outcome.verdict)]
            wanted = _promising(self.found, self.base, harmless)[:checks]
            if _checked(self.found, self.base, wanted, self.cases, self.tell, self.fewer):
                return True
            checks -= len(wanted)
            self.refused |= {one.ranked for one in tried if one.outcome.verdict == "refused"}
        self.left = bool(waiting)
        return False


def _pairs(found: Examined, base: Base, kept: Sequence[Ranked], cases: Sequence[Case], tell: Progress) -> bool:
    """The same at two places, where one alone takes no finding away; whether two mend every case."""
    ledger, trials = found.ledger, base.trials
    pairs = unseen_pairs(kept, trials.texts, min(_PAIRED, ledger.effort.pairs))
    outcomes = trials.try_pairs([(one.first.change, one.second.change) for one in pairs])
    ledger.note(outcomes)
    known = {one.change: one for one in outcomes}
    harmless = [one for one in pairs if _harmless(known[one.both].verdict)]
    left = _complaints_left(found, base, (), [(one.first.change, one.second.change) for one in harmless])
    wanted = _fewest(harmless, [left.get(one.both, 0.5) for one in harmless])[: ledger.effort.checked]
    found.pairs |= {one.both: one for one in wanted}
    return _checked(found, base, [Tried(as_one(one), known[one.both]) for one in wanted], cases, tell, [])


def _promising(found: Examined, base: Base, harmless: Sequence[Tried]) -> list[Tried]:
    """Of changes that leave all numbers right, those of which the engine's checks may complain less."""
    left = _complaints_left(found, base, [one.ranked.change for one in harmless], ())
    return _fewest(harmless, [left.get(one.ranked.change, 0.5) for one in harmless])


def _fewest(some: Sequence[_Some], left: Sequence[float]) -> list[_Some]:
    """What leaves checks less to complain of: first what leaves nothing, then what nothing is known of, or a part."""
    listed = [(share > 0.0, one) for one, share in zip(some, left, strict=True) if share < 1.0]
    return [one for _, one in sorted(listed, key=lambda pair: pair[0])]


def _complaints_left(
    found: Examined, base: Base, changes: Sequence[Change], pairs: Sequence[tuple[Change, Change]]
) -> Mapping[Change, float]:
    """What `TrialBench.complaints_left` tells, for as much work as the trials; nothing where that does not reach."""
    ledger = found.ledger
    cost = base.run.result.warp_instructions * (len(changes) + len(pairs))
    if ledger.watched + cost > ledger.effort.instructions:
        return {}
    ledger.watched += cost
    return base.trials.complaints_left(changes, pairs, _native(found, base.run))


def _native(found: Examined, run: CaseRun) -> tuple[str, ...]:
    """The engine's checks whose complaints can be counted and are among what is said: what mends it all leaves them
    less to complain of."""
    errors = {one.check for one in run.findings if one.level is Level.ERROR}
    raw = (one for one in found.bench.checks if one.raw and Level.ERROR in one.levels and one.name in errors)
    return native_names(raw)


def _checked(
    found: Examined, base: Base, harmless: Sequence[Tried], cases: Sequence[Case], tell: Progress, fewer: list[Tried]
) -> bool:
    """Changes that leave all numbers right, run with all checks; whether one mends every case.

    Args:
        fewer: those that take some findings away, and add none, are put there.
    """
    right: list[Tried] = []
    before = _findings(base.run)
    for one in harmless:
        tell(f"checking changes of {Path(one.ranked.line[0]).name}:{one.ranked.line[1]}")
        run = found.bench.run(base.trials.case, base.trials.files(one.ranked.change))
        if clean(run):
            right.append(one)
        elif run.verdict is not None and _findings(run) < before:  # counted: some fewer, and none more often
            fewer.append(one)
    return any(one.right for one in confirmed_from(found, base, right, cases, tell, ()))


def _findings(run: CaseRun) -> Counter[tuple[str, str, str]]:
    """The errors that checks found, by what they are about, the lines that they name left out: a change moves these."""
    errors = (one for one in run.findings if one.level is Level.ERROR)
    return Counter((one.check, one.kind, _LINE.sub("line", one.message)) for one in errors)


def _said(run: CaseRun) -> tuple[Line, ...]:
    """The lines that errors are about."""
    errors = [one for one in run.findings if one.level is Level.ERROR]
    return tuple(dict.fromkeys(mark.line for mark in marks(errors, None, None)))[:_SAID]


def _harmless(verdict: str) -> bool:
    return verdict in ("right", "same")
