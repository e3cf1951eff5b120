"""Judge every change of a function against a finished, wrong run."""

from __future__ import annotations

import io
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout

import numpy as np
from numpy.typing import NDArray

from wmmadiag.compare.bounds import Judgement, tolerance
from wmmadiag.diagnose.faults.model import Candidate, Doubles, Fitted
from wmmadiag.diagnose.functions.model import Arrays, Change, Propose, Task, task_of
from wmmadiag.diagnose.functions.operands import (
    other_indices,
    other_numbers,
    other_operands,
    other_order,
    other_tables,
    parts_left_out,
)
from wmmadiag.diagnose.functions.results import stored_elsewhere
from wmmadiag.diagnose.functions.rewriting import rewritten
from wmmadiag.subject.binding import BoundCase

_PROPOSALS: tuple[Propose, ...] = (
    other_tables, other_operands, rewritten, other_indices, other_order, stored_elsewhere, other_numbers,
    parts_left_out,
)  # fmt: skip
"""In the order in which they are asked: where two fit equally well, the earlier wins."""
_SUBSTANTIAL, _FEW = 0.5, 0.02
"""Of the wrong elements: what explains fewer is no explanation, and what makes more right ones wrong neither.

So many changes are tried that some will come near a few elements by chance.
"""
_NEARER = 0.25
"""How much nearer than the reference a prediction must lie where it explains."""
_VAGUE = "card-mismatch"
"""Says only that something else is computed: where another change does the same, that one says more."""
_MOST = 12
"""Fits that are kept."""


def fit_function(
    bound: BoundCase, wrong: Mapping[str, NDArray[np.bool_]], judged: Mapping[str, Judgement],
    expected: Mapping[str, Doubles], *, seconds: float = 3.0,
) -> tuple[Fitted, ...]:  # fmt: skip
    """The changes of the card's function that reproduce a finished, wrong run, the best first.

    Empty where the card's operation is no function, or nothing fits.

    Args:
        wrong, judged, expected: of each output, as the run was judged.
        seconds: of computing after which no further change is tried.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        task = task_of(bound)
        if task is None or not any(mask.any() for mask in wrong.values()):
            return ()
        run = _Run(bound, wrong, judged, expected)
        found: list[tuple[int, Fitted]] = []
        stop = time.thread_time() + seconds
        for number, change in enumerate(_changes(task)):
            if time.thread_time() > stop:
                break
            try:
                outputs, bounds = change.predict(task)
            except Exception:  # the user's code may raise anything where it is given something else
                continue
            fitted = run.fitted(change, outputs, bounds)
            if fitted is not None:
                found.append((number, fitted))
    total = sum(int(np.count_nonzero(mask)) for mask in wrong.values())
    found.sort(key=lambda item: (item[1].partial, total - item[1].explains + item[1].broken, item[0]))
    return tuple(_once(one for _, one in found))[:_MOST]


def _changes(task: Task) -> Iterator[Change]:
    for propose in _PROPOSALS:
        yield from propose(task)


def _once(found: Iterator[Fitted]) -> Iterator[Fitted]:
    """What predicts the same is said once, by the first; another fault that does so is told of, for it is a rival."""
    seen: dict[tuple[float, int], set[str]] = {}
    for one in found:
        known = seen.setdefault((round(one.residual, 9), one.explains), set())
        if one.hypothesis not in known and not (known and one.hypothesis == _VAGUE):
            known.add(one.hypothesis)
            yield one


class _Run:
    def __init__(
        self, bound: BoundCase, wrong: Mapping[str, NDArray[np.bool_]], judged: Mapping[str, Judgement],
        expected: Mapping[str, Doubles],
    ) -> None:  # fmt: skip
        from wmmadiag.subject.verdict import unwritten_elements

        self._bound, self._wrong, self._judged, self._expected = bound, wrong, judged, expected
        self._observed = {role: array.astype(np.float64) for role, array in bound.outputs().items() if role in wrong}
        self._unwritten = {
            role: unwritten_elements(bound, role, array) for role, array in bound.outputs().items() if role in wrong
        }

    def _allowed(self, role: str, predicted: Doubles, bounds: Arrays) -> Doubles:
        if self._bound.tolerance is not None:
            return tolerance(predicted, self._bound.tolerance).bound
        return bounds.get(role, self._judged[role].bound)

    def fitted(self, change: Change, outputs: Arrays, bounds: Arrays) -> Fitted | None:
        """What is left of a change, or None where it explains too little."""
        explained: dict[str, NDArray[np.bool_]] = {}
        broken = count = total = finite = 0
        near = own = worst = 0.0
        for role, wrong in self._wrong.items():
            predicted, observed = outputs[role], self._observed[role]
            allowed = self._allowed(role, predicted, bounds)
            difference = np.abs(observed - predicted)
            right = difference <= allowed
            right |= ~np.isfinite(predicted) & ~np.isfinite(observed)
            unwritten = self._unwritten[role]
            if unwritten is not None:
                right &= ~unwritten
            explained[role] = right & wrong
            count += int(np.count_nonzero(explained[role]))
            total += int(np.count_nonzero(wrong))
            broken += int(np.count_nonzero(~right & ~wrong))
            shown = explained[role] & np.isfinite(observed) & np.isfinite(predicted)
            finite += int(np.count_nonzero(shown))
            near += float(np.sum(difference[shown] ** 2))
            own += float(np.sum((observed - self._expected[role])[shown] ** 2))
            ratio = np.where(difference == 0, 0.0, difference / allowed)
            ratio = np.where(right & ~np.isfinite(difference), 0.0, np.where(np.isnan(ratio), np.inf, ratio))
            worst = max(worst, float(ratio.max(initial=0.0)))
        if count < max(1, _SUBSTANTIAL * total) or broken > _FEW * total or finite * 2 < count:
            return None
        if near > own * _NEARER**2:
            return None
        return Fitted(
            change.hypothesis, change.model, change.words, dict(change.parameters), worst, explained, broken,
            count < total or broken > 0, _candidate(change),
        )  # fmt: skip


def _candidate(change: Change) -> Candidate:
    """As other fault models have it; a function has no rows that could be asked for by themselves."""

    def predict(rows: object) -> Doubles:
        del rows
        raise ValueError("a function of the user's is called as a whole")

    return Candidate(change.hypothesis, change.model, change.words, predict, dict(change.parameters))
