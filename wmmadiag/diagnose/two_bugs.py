"""Two changes at once, for two bugs that spoil the same elements: neither change alone makes any of them right."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wmmadiag.diagnose.changes import Change, Kind
from wmmadiag.diagnose.ranking import Ranked
from wmmadiag.diagnose.search import Ledger, Tell, Tried

if TYPE_CHECKING:
    from wmmadiag.diagnose.trials.outcomes import Outcome

_LIKELIEST = 160
"""Changes of which two are made."""
_ALONE = 4
"""Of so many pairs one at most may need a program of its own."""
_BATCH = 256
_PART = 4
"""Of a search's warp instructions such a part may be spent on pairs, whatever the search has spent before."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two changes of different lines, and both as one."""

    first: Ranked
    second: Ranked
    both: Change

    @property
    def score(self) -> float:
        """Of its rank: bugs come about on their own."""
        return self.first.score + self.second.score


class _Bench(Protocol):
    def try_batch(self, changes: Sequence[Change], *, looks: int = 1) -> list[Outcome]: ...


def pairs(tried: Sequence[Tried], most: int) -> list[Pair]:
    """Pairs of the likeliest changes that were tried alone in vain, the likeliest first."""
    known = [one.ranked for one in tried if one.outcome.verdict not in ("right", "refused")]
    pool = sorted(known, key=lambda one: -one.score)[:_LIKELIEST]
    made = [
        Pair(*_in_order(one, other), _both(*_in_order(one, other)))
        for one, other in itertools.combinations(pool, 2)
        if one.line != other.line and _apart(one.change, other.change)
    ]
    made.sort(key=lambda one: -one.score)
    alone = [one for one in made if one.both.kind == "static"][: most // _ALONE]
    together = [one for one in made if one.both.kind != "static"][: most - len(alone)]
    return sorted([*alone, *together], key=lambda one: -one.score)


def mending_pairs(
    bench: _Bench, tried: Sequence[Tried], most: int, ledger: Ledger, tell: Tell
) -> list[tuple[Pair, Tried]]:
    """Pairs that make the bench's case right, the likeliest first; it ends with the first batch that has one."""
    every = pairs(tried, most)
    enough = ledger.instructions + ledger.effort.instructions // _PART
    for start in range(0, len(every), _BATCH):
        if ledger.instructions >= enough:
            break
        part = every[start : start + _BATCH]
        tell(f"trying two changes at once, {start + 1:,} to {start + len(part):,} of {len(every):,}")
        outcomes = bench.try_batch([one.both for one in part])
        ledger.note(outcomes)
        found = [(one, outcome) for one, outcome in zip(part, outcomes, strict=True) if outcome.verdict == "right"]
        if found:
            return [(one, Tried(_ranked(one), outcome)) for one, outcome in found]
    return []


def _ranked(pair: Pair) -> Ranked:
    return Ranked(pair.both, pair.first.line, pair.first.features, pair.score)


def _in_order(one: Ranked, other: Ranked) -> tuple[Ranked, Ranked]:
    return (one, other) if one.line <= other.line else (other, one)


def _both(one: Ranked, other: Ranked) -> Change:
    first, second = one.change, other.change
    note = f"{first.note}; {second.note}"
    return Change("two changes", (*first.edits, *second.edits), _kind(first.kind, second.kind), first.role, note)


def _kind(one: Kind, other: Kind) -> Kind:
    """What both can be tried as: an insertion goes with anything that has a switch."""
    kinds = {one, other} - {"insertion"}
    if not kinds:
        return "insertion"
    return kinds.pop() if len(kinds) == 1 else "static"


def _apart(one: Change, other: Change) -> bool:
    return not any(
        first.file == second.file and first.start <= second.end and second.start <= first.end
        for first in one.edits
        for second in other.edits
    )
