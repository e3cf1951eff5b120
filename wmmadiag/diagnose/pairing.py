"""The likeliest pairs of changes, of millions: their scores are computed many at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wmmadiag.diagnose.changes import Change, together
from wmmadiag.diagnose.ranking import Ranked

_ALONE = 32
"""Of so many pairs one at most may need a program of its own."""
_AT_ONCE = 1 << 20
"""Pairs whose scores are held at once."""

_Numbers = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two changes of different places, in the order of the text."""

    first: Ranked
    second: Ranked
    score: float  # of its rank: bugs come about on their own, and a mistake is made again nearby

    @property
    def both(self) -> Change:
        """Both as one."""
        return together(self.first.change, self.second.change)


@dataclass(frozen=True, slots=True)
class Pool:
    """Changes of which pairs are made."""

    changes: Sequence[Ranked]
    beside: Sequence[Ranked] | None = None  # what each of them is paired with; None: the others of them
    less: float = 0.0  # what a pair's score is less, because there are others to be made


def likeliest(pools: Iterable[Pool], most: int) -> list[Pair]:
    """Pairs of changes whose edits do not touch, the likeliest first; of equals those that are made first."""
    alone, switched = _Best(most // _ALONE), _Best(most)
    for pool in pools:
        columns = _Columns(pool)
        for one, other in _indices(len(pool.changes), None if pool.beside is None else len(pool.beside)):
            score, apart, static = columns.of(one, other)
            for best, wanted in ((alone, apart & static), (switched, apart & ~static)):
                best.add(columns, one[wanted], other[wanted], score[wanted])
    first = alone.pairs()
    return sorted([*first, *switched.pairs(most - len(first))], key=lambda pair: -pair.score)


def _indices(count: int, beside: int | None) -> Iterator[tuple[_Numbers, _Numbers]]:
    """Which is paired with which, some rows of all pairs at once: the second counts on behind the first's."""
    rows = max(1, _AT_ONCE // max(1, count if beside is None else beside))
    for start in range(0, count, rows):
        row = np.arange(start, min(start + rows, count), dtype=np.int64)
        column = np.arange(count if beside is None else beside, dtype=np.int64)
        one, other = (each.ravel() for each in np.meshgrid(row, column, indexing="ij"))
        if beside is None:
            later = other > one
            yield one[later], other[later]
        else:
            yield one, other + count


class _Columns:
    """What a pair's score is made of, of each change of a pool."""

    def __init__(self, pool: Pool) -> None:
        self.ranked = [*pool.changes, *(pool.beside or ())]
        self._less = pool.less
        files = {file: number for number, file in enumerate(sorted({one.line[0] for one in self.ranked}))}
        texts: dict[str, int] = {}
        edits = [one.change.edits for one in self.ranked]
        self._file = np.array([files[one.line[0]] for one in self.ranked], np.int64)
        self._line = np.array([one.line[1] for one in self.ranked], np.int64)
        self._score = np.array([one.score for one in self.ranked], np.float64)
        self._static = np.array([one.change.kind == "static" for one in self.ranked], np.bool_)
        self._text = np.array([texts.setdefault(some[0].file, len(texts)) for some in edits], np.int64)
        self._start = np.array([some[0].start for some in edits], np.int64)
        self._end = np.array([some[0].end for some in edits], np.int64)
        self._several = np.array([len(some) > 1 for some in edits], np.bool_)
        # Of `math.log`, whose last bit is no matter of which instructions the machine has.
        self._log = np.array([math.log(max(1, n)) for n in range(int(self._line.max(initial=0)) + 1)], np.float64)

    def of(self, one: _Numbers, other: _Numbers) -> tuple[_Scores, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Scores; whether the first edits are apart; whether either change needs a program of its own."""
        lines = self._line[one], self._line[other]
        far = np.where(self._file[one] == self._file[other], np.abs(lines[0] - lines[1]), np.maximum(*lines))
        score = self._score[one] + self._score[other] - self._log[far] - self._less
        touch = self._text[one] == self._text[other]
        touch &= (self._start[one] <= self._end[other]) & (self._start[other] <= self._end[one])
        return score, ~touch, self._static[one] | self._static[other]

    def pair(self, one: int, other: int, score: float) -> Pair | None:
        """A pair; None where any of several edits touch."""
        some = self.ranked[one], self.ranked[other]
        if (self._several[one] or self._several[other]) and not _apart(some[0].change, some[1].change):
            return None
        first, second = sorted(some, key=lambda each: (each.line, each.change.edits[0].start))
        return Pair(first, second, score)


class _Best:
    """The best pairs of all that were added; sorted once in a while, since most pools add few."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[Pair] = []
        self._least = math.inf if most == 0 else -math.inf  # what a pair must be more than

    def add(self, columns: _Columns, one: _Numbers, other: _Numbers, score: _Scores) -> None:
        """Add pairs of a pool's changes."""
        wanted = np.flatnonzero(score > self._least)
        found = 0
        for at in wanted[np.argsort(-score[wanted], kind="stable")].tolist():
            if found >= self._most:
                break
            pair = columns.pair(int(one[at]), int(other[at]), float(score[at]))
            if pair is not None:
                self._kept.append(pair)
                found += 1
        if len(self._kept) > 2 * self._most:
            self.pairs()

    def pairs(self, most: int | None = None) -> list[Pair]:
        """They, the likeliest first; of equals those that were added first."""
        self._kept = sorted(self._kept, key=lambda pair: -pair.score)[: self._most]
        if self._kept and len(self._kept) == self._most:
            self._least = self._kept[-1].score
        return self._kept[:most]


def _apart(one: Change, other: Change) -> bool:
    return not any(
        first.file == second.file and first.start <= second.end and second.start <= first.end
        for first in one.edits
        for second in other.edits
    )
