"""Search: try changes of the source in the order of their rank until nothing that is left could be likelier.

A search knows trials and ranks; it knows nothing of kernels. What it finds on the failing case has yet to be confirmed
on every case with all checks (`confirm`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from wmmadiag.csource.dependences import Line
from wmmadiag.diagnose.changes import Change, Texts
from wmmadiag.diagnose.effort import Effort
from wmmadiag.diagnose.ranking import Ranked, by_chance, partly
from wmmadiag.diagnose.trials.outcomes import LaunchChange, Outcome

PARTS = (192, 256, 384, 512)
"""Changes of the first trials, of the second, …; of all further ones the last."""
_LEFT = 0.1
"""Share of the likelihood that untried changes may hold, of what was tried and is right, for a search to end."""
_ALIKE = 1 / 16
"""What a change weighs that does the same on several lines and mends, of one that does not: what these lines agree with
may be wrong, and changed instead mends as well."""
_LOOKS = 6
"""Blocks that a change may leave wrong where one of several bugs is looked for."""
_AGAIN = 512
"""Changes that are looked at once more for that."""
_SUSPECTS = 3
"""Lines that are named where nothing mends."""
_MOSTLY = 4
"""Elements that must become right for each that becomes wrong, of a change that helps."""
_GOOD = 0.25
"""Share of what is wrong that a change mends, from which it is followed at once."""
_FIRST = 2
"""How many of those."""
_STRAYS = 0.25
"""What accesses that belong nowhere weigh, of what is wrong: a kernel that does less has fewer of them, too."""
_RESERVED = 8
"""Such a part of the effort's warp instructions is kept for the search behind what mends a good part."""
_STARTS = 3
"""Changes that mend a part, from which the search goes on."""

Tell = Callable[[str], None]


class Bench(Protocol):
    """Tries changes on one case; `trials.trial_bench.TrialBench` is one."""

    @property
    def texts(self) -> Texts:
        """What the changes are of."""

    @property
    def cost_apart(self) -> float:
        """How much more a change costs that is compiled as a text of its own than one that shares a program."""

    @property
    def spread(self) -> int:
        """How many times as many changes as usual are tried at once."""

    def try_batch(self, changes: Sequence[Change], *, looks: int = 1, defers: bool = False) -> list[Outcome]:
        """One outcome per change."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A change that was tried on the failing case."""

    ranked: Ranked
    outcome: Outcome
    # lines where what it puts in makes the case right as well; None where that was not tried
    also: tuple[Line, ...] | None = None

    @property
    def deferred(self) -> bool:
        """Whether it was not tried because it needs a text of its own."""
        return self.outcome.verdict == "deferred"


@dataclass(slots=True)
class Ledger:
    """What was tried, and what it cost."""

    effort: Effort
    changes: int = 0
    # what was tried of holes, see `sketching`, and its warp instructions: many at the cost of one change
    filled: int = 0
    filling: int = 0
    watched: int = 0  # warp instructions of runs in which what checks complain of was counted
    refused: int = 0
    instructions: int = 0
    allowed: int = 0  # instructions that the effort had at first, once a part of them was kept
    # by name of operator and role, how many changes; `mended`: how many of them make the case right
    tried: dict[tuple[str, str], int] = field(default_factory=dict)
    complete: bool = True  # whether every change of the source was tried
    partly: set[Line] = field(default_factory=set)  # lines of which a change mends a part of what is wrong
    # mends, best: of changes of the source as it stands, what makes the case right, and what mends most; for one who
    # does not wait for the answer
    mends: list[Change] = field(default_factory=list)
    best: Outcome | None = None
    kept: int = 0  # changes that the source is searched with now
    # logarithm of the likelihood that the undoing is among those that were not, against one that mends
    left: float = -math.inf

    @property
    def spent(self) -> bool:
        """Nothing more may be tried."""
        return self.changes >= self.effort.changes or self.instructions >= self.effort.instructions

    def worth(self, instructions: int) -> int:
        """How many trials so many warp instructions are, by those that there were."""
        return instructions * self.changes // max(1, self.instructions) if self.changes else instructions

    def reserve(self, part: int = _RESERVED) -> None:
        """Keep a part of the effort for what comes next, whatever was spent before.

        Args:
            part: so many of these are all of it.
        """
        self.allowed = self.allowed or self.effort.instructions
        least = self.allowed // part
        if self.effort.instructions - self.instructions < least:
            self.effort = replace(self.effort, instructions=self.instructions + least)

    def note(self, outcomes: Sequence[Outcome]) -> None:
        """Count some outcomes."""
        for one in outcomes:
            if isinstance(one.change, LaunchChange):
                continue
            self.changes += 1
            self.instructions += one.work
            if one.verdict == "right" and not self.kept:
                self.mends.append(one.change)
            elif one.tells and not self.kept and (self.best is None or _mended(one) > _mended(self.best)):
                self.best = one
            if one.verdict == "refused":
                self.refused += 1
            else:
                key = one.change.operator, one.change.role
                self.tried[key] = self.tried.get(key, 0) + 1


def search(bench: Bench, ranked: Sequence[Ranked], ledger: Ledger, tell: Tell, most: int | None = None) -> list[Tried]:
    """Changes that make the bench's case right, the likeliest first; those that help follow, the most helpful first.

    What is compiled by itself costs several times as much as what shares a program: changes are tried in the order of
    their likelihood per cost, which finds the undoing soonest.

    Args:
        most: changes to try; None: as many as the ledger allows.
    """
    outcomes: list[Tried] = []
    apart = math.log(bench.cost_apart)
    own = {one.change: one.score for one in ranked}
    ranked = _by_worth(ranked, apart)
    waiting = _by_worth(_hinted(ranked, ledger.partly), apart)
    best = max(own.values(), default=0.0)
    total, right = sum(_likelihood(one, best) for one in waiting), 0.0
    for size in _sizes(bench.spread):
        if not waiting:
            break
        enough = most is not None and len(outcomes) >= most
        if enough or ledger.spent or (right and by_chance() * total < _LEFT * right):
            ledger.complete = False
            break
        part, waiting = waiting[:size], waiting[size:]
        tell(f"trying changes {len(outcomes) + 1:,} to {len(outcomes) + len(part):,} of {len(ranked):,}")
        found = bench.try_batch([one.change for one in part], defers=True)
        every = [Tried(one, outcome) for one, outcome in zip(part, found, strict=True)]
        tried = [one for one in every if not one.deferred]
        later = [replace(one.ranked, apart=True) for one in every if one.deferred]
        ledger.note([one.outcome for one in tried])
        outcomes += tried
        hints = {one.ranked.line for one in tried if one.outcome.partly} - ledger.partly
        if later or hints:
            ledger.partly |= hints
            waiting = _by_worth(_hinted([*waiting, *later], hints), apart)
        total = sum(_likelihood(one, best) for one in waiting)
        held = [
            replace(one.ranked, score=own[one.ranked.change])
            for one in outcomes
            if one.outcome.verdict == "right" and not one.ranked.agreed
        ]
        # What is written for a constant that several places agree on may be what is wrong.
        weighed = [(one, _ALIKE if one.alike > 1 else 1.0) for one in _hinted(held, ledger.partly)]
        right = sum(share * _likelihood(one, best) for one, share in weighed)
    weight = by_chance() * total
    ledger.left = math.log(weight) + best if weight > 0 and not ledger.complete else -math.inf
    again = _hinted([replace(one.ranked, score=own[one.ranked.change]) for one in outcomes], ledger.partly)
    return _ordered([replace(one, ranked=other) for one, other in zip(outcomes, again, strict=True)])


def _hinted(some: Sequence[Ranked], lines: Set[Line]) -> list[Ranked]:
    """Changes, in the order given, with what trying others of some lines has shown of them."""
    return [replace(one, score=one.score + partly()) if one.line in lines else one for one in some]


def _by_worth(some: Sequence[Ranked], apart: float = 0.0) -> list[Ranked]:
    """Changes, the likeliest for what they cost first.

    Args:
        apart: the logarithm of what one costs that needs a text of its own.
    """
    return sorted(some, key=lambda one: -_worth(one, apart))


def _worth(one: Ranked, apart: float) -> float:
    """The likelihood of a change per cost, as a logarithm."""
    return one.score - apart if one.apart or one.change.kind == "static" else one.score


def suspects(ranked: Sequence[Ranked], ledger: Ledger) -> tuple[Line, ...]:
    """The lines that hold most of the likelihood of all changes, those of which one mends a part first."""
    held: dict[Line, float] = {}
    best = max((one.score for one in ranked), default=0.0)
    for one in _by_worth(_hinted(ranked, ledger.partly)):
        held[one.line] = held.get(one.line, 0.0) + _likelihood(one, best)
    return tuple(sorted(held, key=lambda line: -held[line])[:_SUSPECTS])


def helpful(bench: Bench, tried: Sequence[Tried], ledger: Ledger, tell: Tell) -> list[Tried]:
    """Of changes that were tried, those that make wrong elements right and hardly any wrong, the most helpful first.

    What another bug still spoils may have been right by chance.
    """
    again = [one.ranked for one in tried if one.outcome.verdict == "same"]
    again = sorted(again, key=lambda one: -one.score)[:_AGAIN]
    known = [one for one in tried if _helps(one.outcome)]
    if again and not ledger.spent:
        tell(f"looking for one of several bugs, {len(again):,} changes")
        found = bench.try_batch([one.change for one in again], looks=_LOOKS)
        ledger.note(found)
        known += [Tried(one, outcome) for one, outcome in zip(again, found, strict=True) if _helps(outcome)]
    return sorted(known, key=lambda one: (-_mended(one.outcome), -one.ranked.score))[:_STARTS]


def helpful_at_once(tried: Sequence[Tried]) -> list[Tried]:
    """Of changes that were tried, those with which a good part of what is wrong is gone, and hardly anything else is
    wrong: the most helpful first, one of each outcome."""
    known = [one for one in tried if _helps(one.outcome) and _mended(one.outcome, strays=1.0) >= _GOOD]
    best: dict[float, Tried] = {}
    for one in sorted(known, key=lambda one: (-_mended(one.outcome), -one.ranked.score)):
        best.setdefault(_mended(one.outcome), one)
    return list(best.values())[:_FIRST]


def _helps(outcome: Outcome) -> bool:
    mostly = outcome.verdict == "worse" and outcome.mended >= _MOSTLY * outcome.broken
    return outcome.verdict == "better" or (mostly and outcome.mended > 0)


def _mended(outcome: Outcome, strays: float = _STRAYS) -> float:
    """How much of what is wrong is gone: shares of the wrong elements and of the accesses that belong nowhere.

    Args:
        strays: what these weigh.
    """
    if outcome.wrong_before is None:
        return -(outcome.wrong_after or 0)
    fewer = outcome.wrong_before - outcome.wrong_after if outcome.wrong_after is not None else outcome.mended
    return fewer / max(1, outcome.wrong_before) + strays * outcome.astray


def _ordered(outcomes: Sequence[Tried]) -> list[Tried]:
    """Right ones first, by score; the order of equals is that of their trial."""
    return sorted(outcomes, key=lambda one: (one.outcome.verdict != "right", -one.ranked.score))


def _likelihood(one: Ranked, best: float) -> float:
    return math.exp(max(one.score - best, -60.0))


def _sizes(times: int) -> Iterator[int]:
    """Changes of each part of the trials."""
    yield from (times * one for one in PARTS)
    while True:
        yield times * PARTS[-1]
