"""A line's intermediate values, and how far a reading of them goes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wmmadiag.provenance.observed import Observed
from wmmadiag.provenance.readings import Fit


@dataclass(frozen=True, slots=True)
class StageReading:
    """A reading and how far it goes."""

    words: str  # "scale·Q·Kᵀ"
    fit: Fit
    # the uniform factor of scores (1 for none), the temperature of weights; None where it has none
    factor: float | None = None
    weights: bool = False  # of an exponential
    usual: bool = True  # its factor is one that kernels apply on purpose, not one that the values themselves gave

    @property
    def fits(self) -> bool:
        """Whether every value fits."""
        return self.fit.departs == 0


@dataclass(frozen=True, slots=True)
class Judged:
    """A line's values with the reading that explains most of them.

    `faults`: readings of known mistakes that explain all of what the best reading does not: (kind, words, reading).
    """

    seen: Observed
    best: StageReading
    faults: tuple[tuple[str, str, StageReading], ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it is consistent."""
        return self.best.fits

    @property
    def departs_at(self) -> int:
        """The event of the first value that does not fit."""
        wrong = np.flatnonzero(~self.best.fit.right)
        return int(self.seen.group[wrong[0]]) if len(wrong) else 0
