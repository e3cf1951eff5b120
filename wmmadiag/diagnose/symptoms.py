"""What a comparison saw, as structure: which rows, columns, tiles and heads; by a factor, by garbage, by nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.observation import Observation
from wmmadiag.subject.bench import CaseRun

Mask = NDArray[np.bool_]

_PERIODS = (2, 4, 8, 16, 32, 64, 128, 256)
_SAME_FACTOR = 0.02


def symptoms(run: CaseRun) -> tuple[str, ...]:
    """Lines about one failing case; empty where there are no numbers or nothing is wrong."""
    if run.bound is None or run.verdict is None:
        return ()
    lines: list[str] = []
    outputs = run.bound.outputs()
    for role, mask in run.wrong.items():
        if not mask.any():
            continue
        seen = next(one for one in run.verdict.observations if one.output == run.bound.argument_of(role).spec.name)
        lines += _of_output(seen, mask, outputs[role].astype(np.float64), run.verdict.expected[role])
    return tuple(lines)


def _of_output(
    seen: Observation, mask: Mask, observed: NDArray[np.float64], expected: NDArray[np.float64]
) -> Iterator[str]:
    name = seen.output
    share = seen.wrong / max(1, seen.elements)
    yield f"{name}: {seen.wrong:,} of {seen.elements:,} elements wrong ({share:.0%})"
    if seen.unwritten:
        yield f"{name}: {seen.unwritten:,} were never written"
    if seen.nan or seen.inf:
        yield f"{name}: {seen.nan:,} are NaN and {seen.inf:,} infinite where a number is expected, or the reverse"
    letters = [axis.name for axis in seen.axes]
    for axis, letter in enumerate(letters):
        words = _along(mask, axis)
        if words:
            yield f"{name}: along {letter} {words}"
    factor = common_factor(observed, expected, mask)
    if factor is not None:
        yield f"{name}: every wrong element is {factor:.4g} times what it must be"


def _along(mask: Mask, axis: int) -> str:
    """Which indices of an axis hold wrong elements, when that is a pattern."""
    other = tuple(i for i in range(mask.ndim) if i != axis)
    hit = np.asarray(mask.any(axis=other))
    count, extent = int(hit.sum()), hit.size
    if count in (0, extent) or extent == 1:
        return ""
    index = np.flatnonzero(hit)
    first, last = int(index[0]), int(index[-1])
    if last - first + 1 == count:
        if first == 0:
            return f"only {first} to {last} of {extent} are wrong; the rest is right"
        end = "to the end" if last == extent - 1 else f"to {last}"
        return f"wrong from {first} {end} (of {extent})"
    for period in _PERIODS:
        if period >= extent:
            break
        pattern = hit[:period]
        whole = np.resize(pattern, extent)
        if (whole == hit).all() and not pattern.all():
            inside = np.flatnonzero(pattern)
            if int(inside[-1] - inside[0]) + 1 == inside.size:
                return f"wrong in {int(inside[0])} to {int(inside[-1])} of every {period}"
            return f"{inside.size} of every {period} are wrong, the first {int(inside[0])}"
    return f"{count} of {extent} hold wrong elements"


def common_factor(observed: NDArray[np.float64], expected: NDArray[np.float64], mask: Mask) -> float | None:
    """The factor between observed and expected that all wrong elements share, or None."""
    usable = mask & np.isfinite(observed) & np.isfinite(expected)
    if not usable.any() or not (mask == usable).all():
        return None
    seen, wanted = observed[usable], expected[usable]
    large = np.abs(wanted) >= 0.5 * np.abs(wanted).max(initial=0.0)
    if large.sum() < 8 or not (wanted[large] != 0).all():
        return None
    ratios = seen[large] / wanted[large]
    middle = float(np.median(ratios))
    if abs(middle - 1) < 2 * _SAME_FACTOR or middle == 0:
        return None
    return middle if np.abs(ratios - middle).max() <= _SAME_FACTOR * abs(middle) else None
