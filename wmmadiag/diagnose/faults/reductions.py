"""A row's maximum or sum over some of the threads that hold the row.

Which thread holds which key decides what is left out. Two ways are usual: thread t of T takes the keys t, t + T, …, so
that a key's place modulo T is its thread; or a warp takes consecutive keys. A sum that holds the keys of some threads
alone is the same for the whole row. Where lanes end with sums or maxima of their own, keys of one class share one: the
classes are the numbers of threads with some bits left out, those over which nothing was reduced being kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from wmmadiag.diagnose.faults.model import Candidate, Doubles
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model

_WARP = 32
_THREADS = (64, 128, 256, 512, 1024, 32, 16, 8, 4, 2)


def _extent(problem: Problem) -> int:
    return int(problem.arrays["k"].shape[2] if problem.operation == "attention" else problem.arrays["x"].shape[-1])


@fault_model("attention", "softmax", rank=29)
def threads_not_added(problem: Problem) -> Iterator[Candidate]:
    """The row sum holds what the first of the threads have added up."""
    keys = _extent(problem)
    for threads in _THREADS:
        counted = threads // 2
        while counted and threads < keys:
            words = f"the row sum holds keys 0 to {counted - 1} of each {threads} alone, as if of some threads only"
            yield Candidate(
                "reduction",
                "first-threads-in-sum",
                words,
                partial(_first_threads, threads, counted),
                {"threads": threads, "counted": counted},
            )
            counted //= 2


def _first_threads(threads: int, counted: int, rows: Rows) -> Doubles:
    inside = np.arange(rows.keys) % threads < counted
    return rows.weighted(None, inside[None, :].astype(np.float64))


def _masks(keys: int) -> Iterator[tuple[int, str]]:
    """Bits of a thread's number over which nothing is reduced: one step, the first or last steps, all warps."""
    for bit in (1, 2, 4, 8, 16):
        yield bit, f"lanes {bit} apart"
    for bit in (2, 4, 8, 16, 32):
        yield bit - 1, f"neighbouring lanes less than {bit} apart"
        yield (_WARP - 1) & ~(bit - 1), f"lanes {bit} or more apart"
    for threads in (64, 128, 256, 512, 1024):
        if threads // 2 < keys:
            yield threads - _WARP, f"the warps of {threads} threads"


@fault_model("softmax", rank=31)
def lanes_apart(problem: Problem) -> Iterator[Candidate]:
    """Lanes that end with a sum of their own, which divides what they write."""
    keys = _extent(problem)
    done = {0}
    for mask, said in _masks(keys):
        if mask not in done:
            done.add(mask)
            words = f"each element is divided by a sum that is not added up over {said}"
            yield Candidate("reduction", "sum-of-lane", words, partial(_own_sum, mask), {"mask": mask})


def _own_sum(mask: int, rows: Rows) -> Doubles:
    lanes = np.arange(rows.keys) & mask
    sums = np.zeros((len(rows.exponentials), mask + 1))
    for lane in np.unique(lanes):
        sums[:, lane] = rows.exponentials[:, lanes == lane].sum(axis=1)
    return np.asarray(rows.exponentials / sums[:, lanes])


@fault_model("attention", "softmax", rank=32)
def maxima_apart(problem: Problem) -> Iterator[Candidate]:
    """Lanes that subtract a maximum of their own, where the sum is that of all."""
    words = "each lane subtracts the maximum of itself and the lanes behind it: __shfl_down leaves the row's in lane 0"
    yield Candidate("reduction", "maximum-of-lanes-behind", words, partial(_own_maximum, _WARP - 1, True), {})
    done = {0}
    for mask, said in _masks(_extent(problem)):
        if mask not in done:
            done.add(mask)
            words = f"each key is relative to a maximum that is not taken over {said}"
            share = partial(_own_maximum, mask, False)
            yield Candidate("reduction", "maximum-of-lane", words, share, {"mask": mask})


def _own_maximum(mask: int, behind: bool, rows: Rows) -> Doubles:
    """Keys relative to the largest key of their lane, or of it and the lanes behind it."""
    lanes = np.arange(rows.keys) & mask
    largest = np.full((len(rows.scores), mask + 1), -np.inf)
    for lane in np.unique(lanes):
        largest[:, lane] = rows.scores[:, lanes == lane].max(axis=1)
    if behind:
        largest = np.maximum.accumulate(largest[:, ::-1], axis=1)[:, ::-1]
    own = np.where(np.isneginf(largest), 0.0, largest)[:, lanes]
    factors = np.where(rows.allowed, np.exp(rows.largest - own), 0.0)
    return rows.weighted(factors, factors)
