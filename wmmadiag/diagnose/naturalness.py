"""How natural a change makes a text: what right tensor-core code looks like, and what the source itself does.

A language model of tokens (Hindle et al. 2012; of wrong code, Ray et al. 2016): what is wrong is less natural than what
is right. What kernels have in common is counted once, see `corpus`; what a source calls its own is learnt from that
source, without the place in question. Probabilities are smoothed by those of the run that is a token shorter (MacKay
and Peto 1995), those of the source by those of kernels.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.changes import Change, TextEdit, alike_at_the_ends
from wmmadiag.diagnose.corpus import (
    COMMENT,
    KINDS,
    RUN,
    TOKEN,
    Corpus,
    Hashes,
    Numbers,
    corpus,
    counted,
    runs_of,
    stirred,
    tokens_in,
)

_OWN_RUN = 4
"""Tokens of the longest run that is counted in the source itself."""
_SMOOTH, _OWN_SMOOTH = 2.0, 1.5
"""How many times a run counts as seen by what the shorter one says."""
_NEW = 0.3
"""Times that a name counts as seen in a source before it is."""
_LONG = 60
"""Tokens of a change that are looked at."""
_EDITS = 2
"""Edits of a change that are."""
_STEPS = (0.7, 1.5, 2.5, 3.5, 5.0, 7.0, 10.0, 14.0, 20.0)
"""Natural logarithms of how much likelier a text becomes, or less: bounds of what is told apart."""
_EACH = (-8.0, -6.0, -5.0, -4.2, -3.6, -3.0, -2.5, -2.0, -1.5, -1.0, -0.5)
"""The same of the likelihood of each token."""
Reals = NDArray[np.float64]


class Naturalness:
    """A language model for the changes of some sources.

    Args:
        known: counts of kernels; those that are shipped where nothing else is said.
    """

    def __init__(self, sources: Mapping[str, Source], known: Corpus | None = None) -> None:
        self._known = known or corpus()
        self._files = {file: _File(source.data, self._known) for file, source in sources.items()}

    def words(self, changes: Sequence[Change]) -> list[tuple[str, ...]]:
        """What each change makes of how natural its text is, in words that weights are given to."""
        likely, lengths = np.zeros((len(changes), 4)), np.zeros((len(changes), 2), np.int64)
        for file, held in self._files.items():
            parts = [
                (number, held.spot(edit))
                for number, change in enumerate(changes)
                for edit in change.edits[:_EDITS]
                if edit.file == file
            ]
            if parts:
                which = np.array([number for number, _ in parts])
                spots = [spot for _, spot in parts]
                np.add.at(likely, which, held.likelihoods(spots, self._known))
                np.add.at(lengths, which, [(one.last - one.first, len(one.new)) for one in spots])
        return [tuple(_told(row, *of)) for row, of in zip(likely.tolist(), lengths.tolist(), strict=True)]


def _told(likely: Sequence[float], gone: int, come: int) -> Iterator[str]:
    old, new, own_old, own_new = likely
    longer = "same" if gone == come else "more" if come > gone else "less"
    for name, before, after in (("natural", old, new), ("natural here", own_old, own_new)):
        step = _step(after - before)
        yield f"{name}:{step}"
        yield f"{name} {longer}:{step}"
        yield f"{name} before:{bisect(_EACH, before / (gone + RUN - 1))}"
        yield f"{name} behind:{bisect(_EACH, after / (come + RUN - 1))}"


def _step(more: float) -> int:
    """How much likelier, in steps: nought where hardly, less than that where less likely."""
    return bisect(_STEPS, more) if more > 0 else -bisect(_STEPS, -more)


@dataclass(frozen=True, slots=True)
class _Spot:
    """Tokens `first` to `last` of a file, and what stands there instead."""

    first: int
    last: int
    new: tuple[bytes, ...]


class _File:
    """The tokens of a file, and what is counted in it."""

    def __init__(self, data: bytes, known: Corpus) -> None:
        found = list(TOKEN.finditer(COMMENT.sub(lambda one: b" " * len(one[0]), data)))
        self._tokens = [one[0] for one in found]
        self._starts, self._ends = [one.start() for one in found], [one.end() for one in found]
        self._known = known.numbers(self._tokens)
        self._numbers = {token: number for number, token in enumerate(dict.fromkeys(self._tokens), 1)}
        self._own = [self._numbers[token] for token in self._tokens]
        self._ending = runs_of(np.array(self._own, np.uint64), _OWN_RUN)  # the runs that end at each token, by length
        held = np.concatenate([hashes[length:] for length, hashes in enumerate(self._ending)])
        self._runs, counts = np.unique(held, return_counts=True)
        self._counts = counts.astype(np.int64)
        of_kind, different = Counter(self._known), Counter(known.numbers(list(self._numbers)))
        self._of_kind = np.array(
            [of_kind[number] + _NEW * different[number] + _NEW for number in range(len(KINDS) + 1)]
        )
        self._split: dict[str, tuple[bytes, ...]] = {}

    def spot(self, edit: TextEdit) -> _Spot:
        """The tokens that an edit takes away and puts in, without what stands at both ends of either."""
        first = bisect(self._ends, edit.start)
        last = max(first, bisect(self._starts, edit.end - 1) if edit.end > edit.start else first)
        text = edit.text
        old = self._tokens[first:last]
        new = self._split.get(text)
        if new is None:
            new = self._split[text] = tuple(tokens_in(text.encode("utf-8", "surrogateescape"))[:_LONG])
        head, tail = alike_at_the_ends(old, new)
        return _Spot(first + head, min(last - tail, first + head + _LONG), new[head : len(new) - tail])

    def likelihoods(self, spots: Sequence[_Spot], known: Corpus) -> Reals:
        """Logarithms of how likely each spot's tokens and those behind it are, one row each: as they are and with what
        is put in, by kernels; the same by the file itself."""
        places = list(dict.fromkeys((spot.first, spot.last) for spot in spots))
        number = {place: at for at, place in enumerate(places)}
        which = np.array([number[spot.first, spot.last] for spot in spots])
        minus = _Minus(self._ending, np.array(places), len(self._tokens))
        before = self._stretches([(first, last, self._tokens[first:last]) for first, last in places], known)
        behind = self._stretches([(spot.first, spot.last, spot.new) for spot in spots], known)
        old = self._summed(before, np.arange(len(places)), minus, known)[which]
        new = self._summed(behind, which, minus, known)
        return np.stack([old[:, 0], new[:, 0], old[:, 1], new[:, 1]], axis=1)

    def _stretches(self, parts: Sequence[tuple[int, int, Sequence[bytes]]], known: Corpus) -> _Stretches:
        """Tokens that stand for those from one to another, each with what stands ahead and behind.

        Args:
            parts: first token, the one behind the last, and the tokens.
        """
        reach, end = RUN - 1, 0
        put_in = known.numbers([token for _, _, tokens in parts for token in tokens])
        numbers: list[int] = []
        own: list[int] = []
        ahead: list[int] = []
        whole: list[int] = []
        for first, last, tokens in parts:
            start, end = end, end + len(tokens)
            before, behind = slice(max(0, first - reach), first), slice(last, last + reach)
            numbers += [*self._known[before], *put_in[start:end], *self._known[behind]]
            own += [*self._own[before], *(self._numbers.get(token, 0) for token in tokens), *self._own[behind]]
            ahead.append(first - before.start)
            whole.append(first - before.start + len(tokens) + len(self._own[behind]))
        return _Stretches(np.array(numbers, np.uint64), np.array(own, np.uint64), np.array(ahead), np.array(whole))

    def _summed(self, held: _Stretches, places: Numbers, minus: _Minus, known: Corpus) -> Reals:
        """Sums of the logarithms of each stretch's tokens, by kernels and by the file itself.

        Args:
            places: of each stretch, which place the file knows nothing of.
        """
        likely = _by_kernels(held, known)
        return np.stack([held.summed(likely), held.summed(self._by_itself(held, likely, places, minus))], axis=1)

    def _by_itself(self, held: _Stretches, likely: Reals, places: Numbers, minus: _Minus) -> Reals:
        """How likely each token is by the file, where kernels say so much; a name by how often it is there of its
        kind."""
        at = np.repeat(places, held.whole)
        ending = runs_of(held.own, _OWN_RUN)
        seen = counted(self._runs, self._counts, ending[0]) - minus.runs(at, 1, ending[0])
        kinds = np.minimum(held.numbers, len(KINDS)).astype(np.int64)
        share = np.minimum((np.maximum(seen, 0) + _NEW) / self._of_kind[kinds], 1.0)
        likely = np.where(held.numbers <= len(KINDS), likely * share, likely)
        goes_on = np.ones(likely.shape, bool)
        for length in range(2, _OWN_RUN + 1):
            runs, heads = ending[length - 1], _ahead(ending[length - 2])
            above = counted(self._runs, self._counts, heads) - minus.heads(at, length, heads)
            goes_on &= (held.inside >= length - 1) & (above > 0)
            here = np.maximum(counted(self._runs, self._counts, runs) - minus.runs(at, length, runs), 0)
            likely = np.where(goes_on, (here + _OWN_SMOOTH * likely) / (above + _OWN_SMOOTH), likely)
        return likely


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Stretches of tokens, one behind the other: the numbers that kernels and the file give them; of each, how many
    are only what goes ahead, and how many there are."""

    numbers: Hashes
    own: Hashes
    ahead: Numbers
    whole: Numbers

    @property
    def inside(self) -> Numbers:
        """Which token of its stretch each is."""
        return np.arange(self.numbers.size) - np.repeat(np.cumsum(self.whole) - self.whole, self.whole)

    def summed(self, likely: Reals) -> Reals:
        """The sum of the logarithms of each stretch, without what goes ahead."""
        told = np.where(self.inside >= np.repeat(self.ahead, self.whole), np.log(likely), 0.0)
        found = np.bincount(np.repeat(np.arange(self.whole.size), self.whole), told, self.whole.size)
        return np.asarray(found, np.float64)


def _by_kernels(held: _Stretches, known: Corpus) -> Reals:
    """How likely each token is behind those before it."""
    likely = np.full(held.numbers.shape, 1.0 / len(known.words))
    goes_on = np.ones(held.numbers.shape, bool)
    above = np.full(held.numbers.shape, known.tokens)
    for length, runs in enumerate(runs_of(held.numbers, RUN), 1):
        goes_on &= (held.inside >= length - 1) & (above > 0)
        here = counted(known.runs, known.counts, runs)
        likely = np.where(goes_on, (here + _SMOOTH * likely) / (above + _SMOOTH), likely)
        above = _ahead(here)
    return likely


def _ahead(values: NDArray[Any]) -> NDArray[Any]:
    """What the token before has."""
    return np.concatenate([np.zeros(1, values.dtype), values[:-1]])


class _Minus:
    """The runs of a file that a place's tokens are in, by place: what is in question says nothing of itself."""

    def __init__(self, ending: Sequence[Hashes], places: NDArray[np.int64], tokens: int) -> None:
        first, last = places.T
        lengths = np.minimum(last + _OWN_RUN - 1, tokens) - first
        which = np.repeat(np.arange(len(places)), lengths)
        at = np.arange(len(which)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + first[which]
        runs, heads = [], []
        for length in range(1, _OWN_RUN + 1):
            start = at - length + 1
            held = (start >= 0) & (start < last[which])
            runs.append(_keyed(which[held], length, ending[length - 1][at[held]]))
            if length > 1:
                heads.append(_keyed(which[held], length, ending[length - 2][at[held] - 1]))
        self._runs, self._counts = np.unique(np.concatenate(runs), return_counts=True)
        self._heads, self._head_counts = np.unique(np.concatenate(heads), return_counts=True)

    def runs(self, places: Numbers, length: int, hashes: Hashes) -> Numbers:
        """How many of a place's runs these are."""
        return counted(self._runs, self._counts, _keyed(places, length, hashes))

    def heads(self, places: Numbers, length: int, hashes: Hashes) -> Numbers:
        """How many of a place's runs of a length begin with these."""
        return counted(self._heads, self._head_counts, _keyed(places, length, hashes))


def _keyed(places: Numbers, length: int, hashes: Hashes) -> Hashes:
    return stirred(places.astype(np.uint64) * np.uint64(_OWN_RUN + 1) + np.uint64(length)) ^ hashes
