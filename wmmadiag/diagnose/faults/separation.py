"""Two changes that fit equally well: inputs on which they differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmmadiag.diagnose.faults.fitting import tolerances
from wmmadiag.diagnose.faults.model import Fitted
from wmmadiag.diagnose.faults.problem import problem_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.card import Case

# What tells faults of a softmax apart comes first: maxima that grow, keys that dominate, weights that are even.
_ORDER = ("normal", "growing_max", "late_max", "spike", "positive", "uniform", "indexed", "small_integers")


@dataclass(frozen=True, slots=True)
class Separation:
    """A run on which two changes predict different outputs.

    Attributes:
        bound: ready to launch.
        elements: where the two predictions differ by more than both bounds.
    """

    bound: BoundCase
    elements: int

    @property
    def case(self) -> Case:
        """The card's case."""
        return self.bound.case

    @property
    def distribution(self) -> str:
        """Of the inputs."""
        return self.bound.distribution

    @property
    def seed(self) -> int:
        """Of the inputs."""
        return self.bound.seed


def separate(a: Fitted, b: Fitted, bound: BoundCase) -> Separation | None:
    """Inputs on which two fitted changes differ by more than their bounds; None if none was found.

    The case itself under other distributions is tried first, then the card's other cases.
    """
    best: Separation | None = None
    others = [case for case in bound.card.cases if case.name != bound.case.name][:4]
    for case in [bound.case, *others]:
        for distribution in _ORDER:
            try:
                other = bind(bound.card, case, bound.variant, seed=bound.seed + 1, inputs=distribution)
            except WmmadiagError:
                continue
            elements = _difference(a, b, other)
            if elements > (best.elements if best else 0):
                best = Separation(other, elements)
        if best is not None:
            return best
    return best


def _difference(a: Fitted, b: Fitted, bound: BoundCase) -> int:
    problem = problem_of(bound)
    if problem is None:
        return 0
    count = 0
    with np.errstate(all="ignore"):
        for lead in problem.leads:
            rows = problem.all_rows(lead)
            try:
                first, second = a.candidate.predict(rows), b.candidate.predict(rows)
            except (ValueError, IndexError):  # made for another shape
                return 0
            if first.shape != second.shape:
                return 0
            reach = tolerances(rows, first, a.candidate) + tolerances(rows, second, b.candidate)
            far = np.abs(first - second) > reach
            count += int(np.count_nonzero(far | (np.isfinite(first) ^ np.isfinite(second))))
    return count
