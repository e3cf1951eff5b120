"""Two changes at once, where neither alone makes anything right: a mistake that was made twice, or two mistakes.

A mistake is seldom made twice in two ways: of all pairs, those come first in which an operator does the same at two
places, or at one what it undoes at the other, as where two indices are exchanged; the nearer the likelier. The pairs of
the likeliest changes follow, whatever they are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from wmmadiag.diagnose.changes import Change, TextEdit, Texts, together
from wmmadiag.diagnose.ranking import Ranked, difference
from wmmadiag.diagnose.search import Ledger, Tell, Tried

if TYPE_CHECKING:
    from wmmadiag.diagnose.trials.outcomes import Outcome

_LIKELIEST = 96
"""Changes of which any two are made: as many as one program holds with ease."""
_ALONE = 32
"""Of so many pairs one at most may need a program of its own."""
_BATCH = 1024
_PART = 4
"""Of a search's warp instructions such a part may be spent on pairs, whatever the search has spent before."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two changes of different lines, in the order of the text.

    Attributes:
        score: of its rank: bugs come about on their own, and a mistake is made again nearby.
    """

    first: Ranked
    second: Ranked
    score: float

    @property
    def both(self) -> Change:
        """Both as one."""
        return together(self.first.change, self.second.change)


class _Bench(Protocol):
    @property
    def texts(self) -> Texts: ...

    def try_pairs(self, pairs: Sequence[tuple[Change, Change]]) -> list[Outcome]: ...


def alike_pairs(tried: Sequence[Tried], texts: Texts, most: int) -> list[Pair]:
    """Pairs of changes by one operator that do the same, or undo each other, the likeliest first."""
    groups: dict[tuple[str, frozenset[tuple[str, ...]]], list[Ranked]] = {}
    for one in _in_vain(tried):
        done = {_done(edit, texts) for edit in one.change.edits}
        if len(done) == 1:
            groups.setdefault((one.change.operator, done.pop()), []).append(one)
    return _likeliest((pair for some in groups.values() for pair in _pairs(some)), most)


def _done(edit: TextEdit, texts: Texts) -> frozenset[tuple[str, ...]]:
    """The tokens that an edit takes away and puts in, whichever way round."""
    old = texts[edit.file][edit.start : edit.end].decode("utf-8", "replace")
    return frozenset(map(tuple, difference(old, edit.text)))


def likeliest_pairs(tried: Sequence[Tried], most: int) -> list[Pair]:
    """Pairs of the likeliest changes, the likeliest first."""
    return _likeliest(_pairs(sorted(_in_vain(tried), key=lambda one: -one.score)[:_LIKELIEST]), most)


def mending_pairs(
    bench: _Bench, tried: Sequence[Tried], most: int, ledger: Ledger, tell: Tell
) -> list[tuple[Pair, Tried]]:
    """Pairs that make the bench's case right, the likeliest first; it ends with the first batch that has one.

    Args:
        tried: each alone.
        most: pairs of each of both kinds.
    """
    enough = ledger.instructions + ledger.effort.instructions // _PART
    done: set[Change] = set()
    for every in (alike_pairs(tried, bench.texts, most), likeliest_pairs(tried, most)):
        for start in range(0, len(every), _BATCH):
            if ledger.instructions >= enough:
                return []
            part = [one for one in every[start : start + _BATCH] if one.both not in done]
            done |= {one.both for one in part}
            tell(f"trying two changes at once, {start + 1:,} to {start + len(part):,} of {len(every):,}")
            outcomes = bench.try_pairs([(one.first.change, one.second.change) for one in _beside(part)])
            ledger.note(outcomes)
            verdicts = {one.change: one for one in outcomes}
            right = [one for one in part if verdicts[one.both].verdict == "right"]
            if right:
                return [(one, Tried(_ranked(one), verdicts[one.both])) for one in right]
    return []


def _in_vain(tried: Sequence[Tried]) -> Iterator[Ranked]:
    return (one.ranked for one in tried if one.outcome.verdict not in ("right", "refused"))


def _pairs(some: Sequence[Ranked]) -> Iterator[Pair]:
    for pair in itertools.combinations(some, 2):
        first, second = sorted(pair, key=lambda one: one.line)
        if first.line != second.line and _apart(first.change, second.change):
            yield Pair(first, second, first.score + second.score - _distance(first, second))


def _distance(one: Ranked, other: Ranked) -> float:
    """How much less likely two places are to be wrong together than neighbouring lines, as a logarithm."""
    (file, line), (other_file, other_line) = one.line, other.line
    return math.log(other_line - line if file == other_file else max(line, other_line))


def _likeliest(made: Iterator[Pair], most: int) -> list[Pair]:
    ordered = sorted(made, key=lambda one: -one.score)
    alone = [one for one in ordered if _static(one)][: most // _ALONE]
    switched = [one for one in ordered if not _static(one)][: most - len(alone)]
    return sorted([*alone, *switched], key=lambda one: -one.score)


def _static(pair: Pair) -> bool:
    return "static" in (pair.first.change.kind, pair.second.change.kind)


def _beside(part: Sequence[Pair]) -> list[Pair]:
    """Those that share a place beside each other, so that few programs hold them all."""
    return sorted(part, key=lambda one: (one.first.change.operator, one.first.line, one.second.line))


def _ranked(pair: Pair) -> Ranked:
    return Ranked(pair.both, pair.first.line, pair.first.features, pair.score)


def _apart(one: Change, other: Change) -> bool:
    return not any(
        first.file == second.file and first.start <= second.end and second.start <= first.end
        for first in one.edits
        for second in other.edits
    )
