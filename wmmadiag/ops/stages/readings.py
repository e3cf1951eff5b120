"""Which reading of observed values fits: a product by a uniform factor, weights up to a factor per row, sums likewise.

All functions take flat arrays, one entry per observed value. `hidden`: a value at least as low stands for one that the
operation hides, -inf where it hides none; `allowed`: which it leaves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles, Where

Groups: TypeAlias = "NDArray[np.int64]"

_LARGEST_HALF = 65000.0
_MANY = 1 << 22


@dataclass(frozen=True, slots=True)
class Fit:
    """Values against one reading: where they fit, and what was expected."""

    right: Where
    expected: Doubles

    @property
    def departs(self) -> int:
        """How many values do not fit."""
        return int(np.count_nonzero(~self.right))


def groups_of(*keys: NDArray[Any]) -> Groups:
    """A number for each entry, the same for those that agree in all keys."""
    codes = np.zeros(len(keys[0]), np.int64)
    for key in keys:
        low = int(key.min(initial=0))
        codes = codes * (int(key.max(initial=0)) - low + 1) + (key - low)
        if codes.max(initial=0) > _MANY:
            codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes


def scaled(
    observed: Doubles, values: Doubles, errors: Doubles, factor: float, rounding: float,
    allowed: Where | None = None, hidden: float = -math.inf,
) -> Fit:  # fmt: skip
    """factor·value; where that is not allowed, a hidden one is as good."""
    expected = factor * values
    bound = 2.0 * (abs(factor) * errors + rounding * np.abs(expected)) + 1e-30
    with np.errstate(invalid="ignore"):
        right = np.abs(observed - expected) <= bound
        if allowed is not None:
            right |= ~allowed & (observed <= hidden)
    return Fit(right, expected)


def uniform_factor(observed: Doubles, values: Doubles, hidden: float = -math.inf) -> float | None:
    """The factor that most values have, or None."""
    with np.errstate(invalid="ignore"):
        big = (np.abs(values) > 0.1 * np.abs(values).max(initial=0.0)) & np.isfinite(observed) & (observed > hidden)
    if np.count_nonzero(big) < 4:
        return None
    factor = float(np.median(observed[big] / values[big]))
    return factor if factor != 0.0 and np.isfinite(factor) else None


def shifted(observed: Doubles, values: Doubles, bound: Doubles, groups: Groups, allowed: Where, hidden: float) -> Fit:
    """Value - one number per group: scores less their row's maximum."""
    with np.errstate(invalid="ignore"):
        usable = allowed & np.isfinite(observed) & (observed > hidden)
        offset = _median_per_group(observed - values, groups, usable)
        expected = values + offset[groups]
        # The offset is as accurate as the value that tells it.
        widest = _largest_per_group(np.where(usable, bound, 0.0), groups)[groups]
        right = np.abs(observed - expected) <= bound + widest + 1e-6 * np.abs(offset[groups])
        right |= ~allowed & (observed <= hidden)
    return Fit(right, expected)


def proportional_weights(
    observed: Doubles, scores: Doubles, relative: Doubles, floor: float, groups: Groups, allowed: Where
) -> Fit:
    """exp(score) times one factor per group; 0 where that is not allowed."""
    masked = np.where(allowed, scores, -np.inf)
    largest = _largest_per_group(masked, groups)[groups]
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        weights = np.where(allowed, np.exp(masked - np.where(np.isfinite(largest), largest, 0.0)), 0.0)
        good = allowed & np.isfinite(observed) & (weights > 1e-3) & (observed > 8 * floor / np.maximum(relative, 1e-9))
        factor = _median_per_group(observed / weights, groups, good)[groups]
        factor = np.where(np.isfinite(factor), factor, 0.0)
        expected = factor * weights
        # Where nothing tells the factor, weights may be anything below the accuracy of small numbers.
        unknown = (factor == 0.0) & allowed
        small = 16 * floor / np.maximum(relative, 1e-9)
        right = np.abs(observed - expected) <= np.where(unknown, small, 2.0 * relative * expected + floor)
        right |= np.isposinf(observed) & (expected > _LARGEST_HALF)
    return Fit(right, expected)


def proportional_sums(observed: Doubles, values: Doubles, errors: Doubles, groups: Groups, rounding: float) -> Fit:
    """Value times one factor per group."""
    finite = np.isfinite(observed)
    seen = np.where(finite, observed, 0.0)
    size = np.abs(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        big = finite & (size > 0.5 * _largest_per_group(size, groups)[groups]) & (size > 0)
        factor = np.nan_to_num(_median_per_group(seen / values, groups, big))[groups]
        relative = np.nan_to_num(_median_per_group(errors / size, groups, big))[groups]
    with np.errstate(invalid="ignore"):
        expected = factor * values
        bound = np.abs(factor) * (2.0 * errors + 4.0 * relative * size) + 2.0 * rounding * np.abs(expected) + 1e-30
        return Fit(finite & (np.abs(seen - expected) <= bound), expected)


def _largest_per_group(values: Doubles, groups: Groups) -> Doubles:
    largest = np.full(int(groups.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, groups, values)
    return largest


def _median_per_group(values: Doubles, groups: Groups, usable: Where) -> Doubles:
    """The median of usable values of each group; NaN where there are none."""
    result = np.full(int(groups.max(initial=-1)) + 1, np.nan)
    chosen = np.flatnonzero(usable)
    order = chosen[np.lexsort((values[chosen], groups[chosen]))]
    ordered = groups[order]
    if len(order):
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        ends = np.r_[starts[1:], len(order)]
        result[ordered[starts]] = values[order[(starts + ends - 1) // 2]]
    return result
