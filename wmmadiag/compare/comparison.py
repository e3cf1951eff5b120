"""Observed against expected, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.observation import MAX_RANGES, TILE, Axis, ElementDifference, Observation, TileMap
from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.parts.rounding import Doubles, Judgement, Where


@dataclass(frozen=True, slots=True)
class Classes:
    """One output's elements by what is the matter with them; all arrays have its shape."""

    values: Doubles  # observed, float64
    finite: Where  # on both sides
    difference: Doubles  # |observed - expected| where finite, else 0
    ratio: Doubles  # difference / bound; infinite where only the bound is 0
    wrong: Where  # by the rules of `compare`
    poison: Where  # still holds the poison pattern
    # missing, nan, inf: wrong elements, as `Observation` counts them
    missing: Where
    nan: Where
    inf: Where


def classify(
    observed: NDArray[Any],
    expected: Doubles,
    judgement: Judgement,
    *,
    element: ElementType,
    unwritten: Where | None = None,
) -> Classes:
    """What `compare` counts, element by element; arguments as there."""
    if observed.shape != expected.shape or judgement.bound.shape != expected.shape:
        raise ValueError(f"shapes differ: {observed.shape}, {expected.shape}, {judgement.bound.shape}")
    values = observed.astype(np.float64)
    bound = judgement.bound
    poison = np.zeros(values.shape, np.bool_) if unwritten is None else unwritten
    finite = np.isfinite(values) & np.isfinite(expected)
    difference = _difference(values, expected, finite)
    wrong = wrong_elements(observed, expected, judgement, element=element, unwritten=unwritten)
    missing = wrong & poison
    nan = wrong & ~poison & (np.isnan(values) ^ np.isnan(expected))
    inf = wrong & ~poison & ~nan & (np.isinf(values) | np.isinf(expected))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(difference > 0, difference / bound, 0.0)
    return Classes(values, finite, difference, ratio, wrong, poison, missing, nan, inf)


def compare(
    observed: NDArray[Any],
    expected: Doubles,
    judgement: Judgement,
    *,
    output: str,
    element: ElementType,
    unwritten: NDArray[np.bool_] | None = None,
    against: str = "reference",
    criterion: str = "rounding bound",
    axes: str = "",
) -> Observation:
    """Compare one output.

    An element is right if it is finite and within its bound of a finite expected value; or NaN where NaN is
    expected; or an infinity where the same is expected, or where the bound reaches the type's largest value; or not
    finite where the judgement allows that.

    Args:
        observed: the output in its storage dtype.
        expected: float64, same shape.
        judgement: bound and exceptions, same shape.
        output: role or name, for the result.
        element: the output's type.
        unwritten: where the output still holds the poison pattern.
        axes: a letter per axis, for the result; numbers if empty.
    """
    seen = classify(observed, expected, judgement, element=element, unwritten=unwritten)
    values, bound, finite, difference, ratio = seen.values, judgement.bound, seen.finite, seen.difference, seen.ratio
    wrong, poison = seen.wrong, seen.poison
    letters = axes if len(axes) == values.ndim else "".join(str(axis % 10) for axis in range(values.ndim))
    bounded = finite & (bound > 0)
    return Observation(
        output=output,
        dtype=element.name,
        shape=tuple(values.shape),
        against=against,
        criterion=criterion,
        elements=values.size,
        wrong=int(np.count_nonzero(wrong)),
        unwritten=int(np.count_nonzero(seen.missing)),
        nan=int(np.count_nonzero(seen.nan)),
        inf=int(np.count_nonzero(seen.inf)),
        signed_zero=int(np.count_nonzero((expected == 0) & (values == 0) & np.signbit(values) & ~np.signbit(expected))),
        max_difference=float(difference.max(initial=0.0)),
        mean_difference=float(difference.sum() / max(1, int(np.count_nonzero(finite)))),
        max_in_bounds=float(ratio[bounded].max()) if bounded.any() else None,
        typical_in_bounds=_median(ratio[bounded]) if bounded.any() else None,
        max_bound=float(bound.max(initial=0.0)),
        first=_element(int(np.argmax(wrong)), values, expected, bound, poison) if wrong.any() else None,
        worst=_element(_worst(wrong, finite, ratio), values, expected, bound, poison) if wrong.any() else None,
        tiles=tile_maps(wrong),
        matrices=int(np.prod(wrong.shape[:-2])) if wrong.ndim > 2 else 1,
        axes=affected_axes(wrong, letters) if wrong.any() else (),
    )


def _median(values: Doubles) -> float:
    """Of at least one value. NumPy's own brings its masked arrays, which take longer than a small comparison."""
    lower, upper = (values.size - 1) // 2, values.size // 2
    ordered = np.partition(values, (lower, upper))
    return float((ordered[lower] + ordered[upper]) / 2)


def wrong_elements(
    observed: NDArray[Any],
    expected: Doubles,
    judgement: Judgement,
    *,
    element: ElementType,
    unwritten: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Where an output is wrong, by the rule that `compare` states; all arrays have the output's shape."""
    values = observed.astype(np.float64)
    poison = np.zeros(values.shape, np.bool_) if unwritten is None else unwritten
    finite = np.isfinite(values) & np.isfinite(expected)
    right = finite & (_difference(values, expected, finite) <= judgement.bound)
    right |= np.isnan(values) & np.isnan(expected) & ~poison
    right |= np.isinf(values) & (values == expected)
    right |= _overflow_explained(values, expected, judgement.bound, element)
    if judgement.nonfinite_ok is not None:
        right |= ~np.isfinite(values) & judgement.nonfinite_ok & ~poison
    return ~right


def _difference(values: Doubles, expected: Doubles, finite: NDArray[np.bool_]) -> Doubles:
    """Absolute differences; 0 where either side is not finite."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(finite, np.abs(values - np.where(finite, expected, 0.0)), 0.0)


def compare_outputs(
    observed: NDArray[Any],
    other: NDArray[Any],
    own: Judgement,
    others: Judgement,
    *,
    output: str,
    element: ElementType,
    against: str,
    axes: str = "",
) -> Observation:
    """Compare an output with another variant's or kernel's, each of which may be off by its own bound."""
    values = other.astype(np.float64)
    free = [m for m in (own.nonfinite_ok, others.nonfinite_ok) if m is not None]
    either: NDArray[np.bool_] | None = np.logical_or.reduce(free) if free else None
    if either is not None:
        # Where several answers are right (rows without keys), the other's is no standard.
        values = np.where(either, 0.0, values)
    judgement = Judgement(own.bound + others.bound, either)
    return compare(observed, values, judgement, output=output, element=element, against=against, axes=axes)


def _overflow_explained(values: Doubles, expected: Doubles, bound: Doubles, element: ElementType) -> NDArray[np.bool_]:
    """Infinities of the right sign where an allowed value already rounds to infinity in the output's type."""
    if not element.is_float or not np.isinf(values).any():
        return np.zeros(values.shape, np.bool_)
    with np.errstate(over="ignore", invalid="ignore"):
        border = element.largest * (1.0 + element.unit / 2.0)
        reached = np.abs(expected) + bound >= border
    return np.asarray(np.isinf(values) & reached & (np.sign(values) == np.sign(expected)), np.bool_)


def _worst(wrong: NDArray[np.bool_], finite: NDArray[np.bool_], ratio: Doubles) -> int:
    candidates = wrong & finite
    if not candidates.any():
        return int(np.argmax(wrong))
    return int(np.argmax(np.where(candidates, ratio, -1.0)))


def _element(
    flat: int, values: Doubles, expected: Doubles, bound: Doubles, poison: NDArray[np.bool_]
) -> ElementDifference:
    index = tuple(int(i) for i in np.unravel_index(flat, values.shape))
    return ElementDifference(
        index, float(values[index]), float(expected[index]), float(bound[index]), bool(poison[index])
    )


def tile_maps(wrong: NDArray[np.bool_]) -> tuple[TileMap, ...]:
    """Counts per 16×16 tile of the last two axes, for each matrix with a wrong element.

    Args:
        wrong: any rank; a vector counts as one row.
    """
    matrix = wrong if wrong.ndim >= 2 else wrong.reshape(1, -1)
    rows, columns = matrix.shape[-2:]
    row_starts, column_starts = np.arange(0, rows, TILE), np.arange(0, columns, TILE)
    maps = []
    for index in np.ndindex(matrix.shape[:-2]):
        plane = matrix[index]
        if not plane.any():
            continue
        counts = np.add.reduceat(np.add.reduceat(plane.astype(np.int64), row_starts, 0), column_starts, 1)
        maps.append(TileMap(tuple(index), rows, columns, tuple(tuple(int(c) for c in row) for row in counts)))
    return tuple(maps)


def affected_axes(wrong: NDArray[np.bool_], letters: str) -> tuple[Axis, ...]:
    """Which indices of each axis hold a wrong element."""
    found = []
    for axis, letter in enumerate(letters):
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        counts = np.count_nonzero(wrong, axis=others) if others else wrong.astype(np.int64)
        hit = np.concatenate(([0], (counts > 0).astype(np.int8), [0]))
        edges = np.diff(hit)
        starts, stops = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        ranges = tuple((int(a), int(b)) for a, b in zip(starts, stops, strict=True))[:MAX_RANGES]
        found.append(Axis(letter, wrong.shape[axis], int(np.count_nonzero(counts)), ranges, int(counts.max())))
    return tuple(found)
