"""Division by another quantity than the row's sum of exponentials."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.faults.model import Candidate, Doubles, Prediction
from wmmadiag.diagnose.faults.problem import Problem, Rows
from wmmadiag.diagnose.faults.registry import fault_model


def _not_normalised(rows: Rows) -> Doubles:
    return rows.combine(rows.exponentials)


def _twice(rows: Rows) -> Doubles:
    return rows.combine(rows.exponentials) / rows.sums**2


def _without_maximum(rows: Rows) -> Doubles:
    return rows.combine(np.exp(rows.scores))


def _multiplied(rows: Rows) -> Doubles:
    return rows.combine(rows.exponentials) * rows.sums


def _by_count(rows: Rows) -> Doubles:
    return rows.combine(rows.exponentials) / rows.keys


def _no_softmax(rows: Rows) -> Doubles:
    return rows.combine(np.where(rows.allowed, rows.scores, 0.0))


def _root(rows: Rows) -> Doubles:
    return rows.combine(rows.exponentials) / np.sqrt(rows.sums)


_PLAIN: tuple[tuple[str, str, Prediction], ...] = (
    ("sum-not-divided", "the output is not divided by the row sum", _not_normalised),
    ("sum-divided-twice", "the output is divided by the row sum twice", _twice),
    ("sum-multiplied", "the output is multiplied by the row sum instead of divided", _multiplied),
    ("exponentials-plain", "exp(score) is used without subtracting the maximum, and not normalised", _without_maximum),
    ("divided-by-count", "the output is divided by the number of keys instead of the row sum", _by_count),
    ("softmax-missing", "the scores go into P·V without a softmax", _no_softmax),
    ("sum-square-root", "the output is divided by the square root of the row sum", _root),
)


@fault_model("attention", "softmax", rank=15)
def other_divisors(problem: Problem) -> Iterator[Candidate]:
    """The division by the row sum: missing, doubled, inverted."""
    del problem
    for model, words, predict in _PLAIN:
        yield Candidate("normalisation", model, words, predict)


RowMap: TypeAlias = Callable[["NDArray[np.intp]"], "NDArray[np.intp]"]


def _plus(r: NDArray[np.intp], step: int) -> NDArray[np.intp]:
    return r + step


def _xor(r: NDArray[np.intp], bit: int) -> NDArray[np.intp]:
    return np.bitwise_xor(r, bit)


def _modulo(r: NDArray[np.intp], tile: int) -> NDArray[np.intp]:
    return r % tile


def _in_tile(r: NDArray[np.intp], tile: int, row: int) -> NDArray[np.intp]:
    return r // tile * tile + row


def _mirrored(r: NDArray[np.intp], tile: int) -> NDArray[np.intp]:
    return r // tile * tile + tile - 1 - r % tile


def _times(r: NDArray[np.intp], factor: int, divisor: int) -> NDArray[np.intp]:
    return r * factor // divisor


def _row_maps() -> Iterator[tuple[str, str, RowMap]]:
    for step in (1, -1, 8, -8, 16, -16, 2, -2, 4, -4):
        yield f"r{step:+d}", f"row r uses row r{step:+d}'s", partial(_plus, step=step)
    for bit in (1, 8, 16, 2, 4, 32):
        yield f"r^{bit}", f"row r uses row (r xor {bit})'s", partial(_xor, bit=bit)
    for tile in (8, 16, 32, 64, 128):
        yield f"r%{tile}", f"row r uses row (r mod {tile})'s", partial(_modulo, tile=tile)
        first, last = partial(_in_tile, tile=tile, row=0), partial(_in_tile, tile=tile, row=tile - 1)
        yield f"first of {tile}", f"every row uses that of the first row of its tile of {tile}", first
        yield f"last of {tile}", f"every row uses that of the last row of its tile of {tile}", last
        yield (
            f"mirrored in {tile}",
            f"rows use that of the mirrored row in their tile of {tile}",
            partial(_mirrored, tile=tile),
        )
    yield "0", "every row uses row 0's", partial(_times, factor=0, divisor=1)
    yield "r//2", "row r uses row (r div 2)'s", partial(_times, factor=1, divisor=2)
    yield "2r", "row r uses row 2r's", partial(_times, factor=2, divisor=1)


def with_sum_of(rows_of: RowMap) -> Prediction:
    """Each row divided by another row's sum; NaN where there is no such row."""

    def predict(rows: Rows) -> Doubles:
        count = rows.problem.observed.shape[2]
        other = rows_of(rows.index)
        there = (other >= 0) & (other < count)
        sums = _sums(rows.problem, rows.lead)[np.where(there, other, 0)]
        return rows.combine(rows.exponentials) / np.where(there, sums, np.nan)[:, None]

    return predict


def with_maximum_of(rows_of: RowMap) -> Prediction:
    """The output relative to its own row's maximum, the sum relative to another row's."""

    def predict(rows: Rows) -> Doubles:
        count = rows.problem.observed.shape[2]
        other = rows_of(rows.index)
        there = (other >= 0) & (other < count)
        largest = _maxima(rows.problem, rows.lead)[np.where(there, other, 0)][:, None]
        factor = np.where(there[:, None], np.exp(rows.largest - largest), 1.0)
        return rows.combine(rows.exponentials) / (rows.sums * factor)

    return predict


def _statistics(problem: Problem, lead: tuple[int, int]) -> tuple[Doubles, Doubles]:
    key = (id(problem), lead)
    if key not in _KEPT:
        if len(_KEPT) > 64:
            _KEPT.clear()
        rows = problem.all_rows(lead)
        _KEPT[key] = (rows.sums[:, 0], rows.largest[:, 0], problem)
    sums, largest, _ = _KEPT[key]
    return sums, largest


# The problem itself is kept, too, so that its id stays its own.
_KEPT: dict[tuple[int, tuple[int, int]], tuple[Doubles, Doubles, Problem]] = {}


def _sums(problem: Problem, lead: tuple[int, int]) -> Doubles:
    return _statistics(problem, lead)[0]


def _maxima(problem: Problem, lead: tuple[int, int]) -> Doubles:
    return _statistics(problem, lead)[1]


@fault_model("attention", "softmax", rank=40)
def other_rows_statistics(problem: Problem) -> Iterator[Candidate]:
    """Another row's sum or maximum."""
    count = problem.observed.shape[2]
    index = np.arange(count)
    for name, words, rows_of in _row_maps():
        other = rows_of(index)
        if ((other == index) | (other < 0) | (other >= count)).all():
            continue
        yield Candidate("row-statistic", "sum-of-other-row", f"{words} row sum", with_sum_of(rows_of), {"row": name})
        yield Candidate(
            "row-statistic",
            "maximum-of-other-row",
            f"{words} maximum in the row sum",
            with_maximum_of(rows_of),
            {"row": name},
        )
