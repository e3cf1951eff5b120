"""The launch as a place like any other: another grid, block or size of shared memory for the same source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.ranking import MARKS, Ranked, fitted
from wmmadiag.diagnose.search import Tried
from wmmadiag.diagnose.trials.outcomes import LaunchChange, Outcome

if TYPE_CHECKING:
    from wmmadiag.diagnose.suspicion import Suspicion
    from wmmadiag.diagnose.trials.trial_bench import TrialBench
    from wmmadiag.subject.card import Expression, LaunchShape

_AXES = "xyz"
_QUOTIENT = re.compile(r"^(?P<dividend>.+?)\s*//?\s*(?P<divisor>\w+)$")


def launches(shape: LaunchShape) -> Iterator[LaunchChange]:
    """Other launches: of each extent twice, half, one more and one less; extents exchanged; rounded up; more memory."""
    for what, extents in (("grid", shape.grid), ("block", shape.block)):
        for axis, one in enumerate(extents):
            for words, other, fewer in _others(one, fine=what == "grid"):
                made = (*extents[:axis], other, *extents[axis + 1 :])
                yield LaunchChange(_with(shape, what, made), f"{words} in {_AXES[axis]} of the {what}", fewer)
        for one, other in ((0, 1), (1, 2), (0, 2)):
            if other < len(extents) and extents[one] != extents[other]:
                swapped = list(extents)
                swapped[one], swapped[other] = swapped[other], swapped[one]
                note = f"{_AXES[one]} and {_AXES[other]} of the {what} exchanged"
                yield LaunchChange(_with(shape, what, tuple(swapped)), note)
    if shape.shared not in (0, "0", ""):
        note = f"more dynamic shared memory than {shape.shared} bytes"
        yield LaunchChange(replace(shape, shared=f"2 * ({shape.shared})"), note)


def _others(one: Expression, *, fine: bool) -> Iterator[tuple[str, Expression, bool]]:
    quotient = _QUOTIENT.match(str(one))
    if quotient is not None and fine:
        rounded = f"ceil_div({quotient['dividend']}, {quotient['divisor']})"
        yield f"{one} rounded up", rounded, False
    yield f"twice {one}", f"2 * ({one})", False
    yield f"half of {one}", f"ceil_div({one}, 2)", True
    if fine:
        yield f"one more than {one}", f"({one}) + 1", False
        yield f"one less than {one}", f"max(1, ({one}) - 1)", True


def _with(shape: LaunchShape, what: str, extents: tuple[Expression, ...]) -> LaunchShape:
    return replace(shape, grid=extents) if what == "grid" else replace(shape, block=extents)


def tried_launches(trials: TrialBench, shape: LaunchShape) -> list[Outcome]:
    """What becomes of the bench's case with other launches.

    Args:
        shape: the launch as it is.
    """
    return trials.try_launches(list(launches(shape)))


def mending_launches(
    outcomes: Sequence[Outcome], suspicion: Suspicion, shape: LaunchShape, *, fewer: bool
) -> list[tuple[Tried, LaunchShape]]:
    """Of launches that were tried, those with which the case is right, each as a change of the launch's own line.

    Args:
        shape: the launch as it is.
        fewer: those with fewer threads, or the others.
    """
    found = []
    for outcome in outcomes:
        change = outcome.change
        if outcome.verdict == "right" and isinstance(change, LaunchChange) and change.fewer == fewer:
            made = Change("launch", (), "static", "launch", change.note)
            score = sum(fitted().get(word, 0.0) for word in _features(suspicion))
            ranked = Ranked(made, (shape.place.file, shape.place.line), score)
            found.append((Tried(ranked, replace(outcome, change=made)), change.shape))
    return found


def _features(suspicion: Suspicion) -> Sequence[str]:
    """As `ranking.features` has them of a change by one token, on a line that no evidence marks."""
    own = ["operator:launch", "role:launch", "kind:static", "launch of launch", "tokens:1", "edits:1"]
    return [*own, *(f"{kind}:never" for kind in MARKS if kind in suspicion.nearest)]
