"""What right tensor-core code looks like: how often it has which runs of tokens.

Names that few kernels share are known by their kind alone. The counts are in `corpus.npz`, made by
`benchmarks/fit_naturalness.py` of the right kernels of the repository.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COUNTS = Path(__file__).with_name("corpus.npz")
RUN = 5
"""Tokens of the longest run."""
TOKEN = re.compile(rb"[A-Za-z_]\w*|\d[\w.]*|<<|>>|<=|>=|==|!=|&&|\|\||\+=|-=|\*=|/=|->|::|\+\+|--|[^\s\w]")
COMMENT = re.compile(rb"//[^\n]*|/\*.*?\*/", re.DOTALL)
KINDS = (b"<number>", b"<CONSTANT>", b"<Type>", b"<name>")
"""Of tokens that are not told apart by name; their numbers are the first ones."""
_NAME = re.compile(rb"[A-Za-z_]")
_ODD, _STIR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)
"""Of Fibonacci hashing (Knuth, TAOCP 6.4), and of MurmurHash3's last step."""

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Corpus:
    """Counts of runs of tokens: `runs` are hashes in rising order, `counts` how often each is there."""

    words: Mapping[bytes, int]  # tokens that are told apart by name, behind the kinds of the others; their numbers
    runs: Hashes
    counts: Numbers
    tokens: int  # in all

    def numbers(self, tokens: Sequence[bytes]) -> list[int]:
        """The number of each token, or of its kind."""
        known = self.words
        return [known.get(one) or known[kind_of(one)] for one in tokens]

    def without(self, other: Corpus, least: int = 1) -> Corpus:
        """The same with another one's counts taken away, of runs that are left so often at least."""
        counts = self.counts.copy()
        at = np.minimum(np.searchsorted(self.runs, other.runs), max(0, self.runs.size - 1))
        held = self.runs[at] == other.runs
        counts[at[held]] -= other.counts[held]
        left = counts >= least
        return Corpus(self.words, self.runs[left], counts[left], self.tokens - other.tokens)


def kind_of(token: bytes) -> bytes:
    """What stands for a token that is not told apart by name: by how it is written, as C++ code has it."""
    if token[:1].isdigit():
        return KINDS[0]
    if token.isupper() or (token[:1] == b"k" and token[1:2].isupper()):
        return KINDS[1]
    return KINDS[2] if token[:1].isupper() else KINDS[3]


def tokens_in(text: bytes) -> list[bytes]:
    """The tokens of a text without its comments."""
    return TOKEN.findall(COMMENT.sub(b" ", text))


def vocabulary(texts: Sequence[Sequence[bytes]], least: int) -> dict[bytes, int]:
    """The tokens that are told apart by name, which are those of so many texts at least, and all signs; with their
    numbers, from 1 on."""
    shared = Counter(token for text in texts for token in set(text))
    held = sorted(one for one, count in shared.items() if count >= least or not (_NAME.match(one) or one[:1].isdigit()))
    return {token: number for number, token in enumerate((*KINDS, *held), 1)}


def counted_in(texts: Sequence[Sequence[bytes]], words: Mapping[bytes, int]) -> Corpus:
    """The counts of some texts, given as tokens."""
    plain = Corpus(words, np.zeros(0, np.uint64), np.zeros(0, np.int64), 0)
    found = []
    for text in texts:
        ending = runs_of(np.array(plain.numbers(text), np.uint64), RUN)
        found += [hashes[length:] for length, hashes in enumerate(ending)]
    runs, counts = np.unique(np.concatenate(found), return_counts=True)
    return Corpus(words, runs, counts.astype(np.int64), sum(map(len, texts)))


@cache
def corpus() -> Corpus:
    """What the shipped counts hold."""
    with np.load(COUNTS) as held:
        words = {token: number for number, token in enumerate(held["words"].tobytes().split(b"\n"), 1)}
        runs = np.cumsum(held["steps"].astype(np.uint64))
        return Corpus(words, runs, held["counts"].astype(np.int64), int(held["tokens"]))


def counted(runs: Hashes, counts: Numbers, hashes: Hashes) -> Numbers:
    """How often each run is among those counted."""
    if not runs.size:
        return np.zeros(hashes.shape, np.int64)
    at = np.minimum(np.searchsorted(runs, hashes), runs.size - 1)
    return np.where(runs[at] == hashes, counts[at], 0)


def runs_of(numbers: NDArray[np.uint64], longest: int) -> list[Hashes]:
    """The hashes, of 32 bits, of the runs that end at each token: of one token, of two, …

    The first ones of longer runs begin before the first token and mean nothing.
    """
    whole, found = np.zeros(numbers.shape, np.uint64), []
    for _ in range(longest):
        whole = stirred(np.concatenate([[np.uint64(0)], whole[:-1]])[: numbers.size] * _ODD + numbers)
        found.append(whole >> np.uint64(32))
    return found


def stirred(numbers: Hashes) -> Hashes:
    """Numbers whose bits all hang on all of theirs."""
    found = numbers * _STIR
    return found ^ (found >> np.uint64(29))
