"""What a fault model proposes, and what is left of it after fitting."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from wmmadiag.diagnose.faults.problem import Rows

Doubles: TypeAlias = NDArray[np.float64]
Value: TypeAlias = "int | float | str"
Prediction: TypeAlias = "Callable[[Rows], Doubles]"


@dataclass(frozen=True, slots=True)
class Candidate:
    """The oracle with one change.

    Attributes:
        hypothesis: id of what would cause it.
        model: stable name of the change.
        words: what the kernel computes then, as a clause.
        predict: the changed output of some rows, shaped (rows, columns). It reads everything from its argument, so
            that it can be asked about other inputs, too. NaN where the change leaves the value open (a row without
            keys).
        parameters: what was fitted or searched.
        coarser: parameters of the operation under which the bound is taken where the change is one of rounding alone:
            `predict` is then the oracle itself, and the model has looked at the size of the errors.
        about: role of the input that it is about, or "activation" or "softcap": its line is where that is read or
            computed, or else where the result is stored; "" where another part of the run tells the line.
        looser: factor on the rounding bound where the change enlarges what is rounded (scores 8 times as large).
    """

    hypothesis: str
    model: str
    words: str
    predict: Prediction
    parameters: Mapping[str, Value] = field(default_factory=dict)
    looser: float = 1.0
    coarser: Mapping[str, Value] = field(default_factory=dict)
    about: str = ""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A change that reproduces wrong elements.

    Attributes:
        hypothesis, model, words, parameters: of the `Candidate`.
        residual: largest |kernel - changed oracle| / bound over all elements; inf if one is not finite or unwritten
            where that was not predicted.
        explained: by role, elements that are wrong against the oracle and right against the changed one.
        broken: elements that are right against the oracle and that the changed one would make wrong.
        partial: it does not explain every wrong element, or breaks some.
        candidate: what was fitted, to ask it about other inputs.
    """

    hypothesis: str
    model: str
    words: str
    parameters: Mapping[str, Value]
    residual: float
    explained: Mapping[str, NDArray[np.bool_]]
    broken: int
    partial: bool
    candidate: Candidate = field(repr=False, compare=False)

    @property
    def explains(self) -> int:
        """How many wrong elements."""
        return sum(int(np.count_nonzero(mask)) for mask in self.explained.values())
