"""The smallest case that still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from wmmadiag.campaign.points import Point
from wmmadiag.campaign.work import Result
from wmmadiag.subject.card import Expression

MOST = 200
"""Runs at most that are spent on one failure."""
SIMPLE = ("small_integers", "positive", "")
"""Distributions whose values say more at a glance than those of others, simplest first."""

Run = Callable[[Point], Result]


def shrunk(
    failing: Result,
    run: Run,
    axes: Mapping[str, Sequence[Expression]],
    allowed: Callable[[Point], bool] = lambda _: True,
) -> Result:
    """A case as small as can be found that fails with the same failures.

    Sizes first, since they decide what everything else costs; then orders, places, inputs and the seed. It ends where
    no single step makes the case smaller, or after `MOST` runs.

    Args:
        axes: values of each size that the plan tries: what is legal beyond them nobody has said.
        allowed: whether a combination of them is one that the plan wants.
    """
    best, spent = failing, 0
    again = True
    while again and spent < MOST:
        again = False
        for smaller in filter(allowed, _steps(best.point, axes)):
            if spent >= MOST:
                break
            spent += 1
            found = run(smaller)
            if found.failures == failing.failures and found.status == failing.status:
                best, again = found, True
                break
    return best


def _steps(point: Point, axes: Mapping[str, Sequence[Expression]]) -> Iterator[Point]:
    """Points that are smaller in one way each, the boldest first."""
    for name, value in point.sizes.items():
        for smaller in _smaller(value, axes.get(name, ())):
            yield replace(point, sizes={**point.sizes, name: smaller})
    if point.schedules:
        yield replace(point, schedules=0)
    if point.displaced:
        yield replace(point, displaced=0)
    place = SIMPLE.index(point.inputs) if point.inputs in SIMPLE else len(SIMPLE)
    for simple in SIMPLE[:place]:
        yield replace(point, inputs=simple)
    if point.seed:
        yield replace(point, seed=0)


def _smaller(value: Expression, tried: Sequence[Expression]) -> list[int]:
    """The plan's sizes below one, from the smallest on."""
    if not isinstance(value, int):
        return []
    return sorted({one for one in tried if isinstance(one, int) and one < value})
