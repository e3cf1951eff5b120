"""Values of a run on the way to an output: what was seen, what the operation says they must be, and how they read.

An operation's object names the class of its stages (`Operation.stages`); whatever a run saw is sorted by line before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol, TypeAlias

from wmmadiag.numerics.element_types import ElementType
from wmmadiag.ops.parts.late import NDArray, np
from wmmadiag.ops.parts.rounding import Doubles
from wmmadiag.ops.stages.readings import Fit, Groups
from wmmadiag.place import Place

Coverage: TypeAlias = tuple[tuple[int, int], ...]
"""Which of a contracted axis has been added up: [first, end) each."""

INNER, FINAL = 0, 1
"""A product that is an operand of another (scores and weights), and the one that an output is made of."""


class SampleRole(IntEnum):
    """Where a value was seen: operand or accumulator of a multiplication, its result, or a store."""

    OPERAND = 0
    ACCUMULATOR = 1
    RESULT = 2
    STORE = 3


@dataclass(frozen=True, slots=True)
class ExpectedProduct:
    """A matrix product: axis `left_axis` of `left` is contracted with `right_axis` of `right`.

    `left` and `right` are numbers of arguments, or another expected product. `extent`: of the contracted axis.
    """

    left: int | ExpectedProduct
    left_axis: int
    right: int
    right_axis: int
    extent: int
    words: str


@dataclass(frozen=True, slots=True)
class ExpectedOutput:
    """One matrix of an output: all its elements come from one product."""

    role: str
    lead: tuple[int, ...]  # leading indices in the output tensor
    product: ExpectedProduct
    needed: tuple[int, ...]  # per row, how much of the contracted axis every element must have added up: [0, needed[i])
    # (rows, indices) which of that it must have, where masks leave holes; None where all
    kept: NDArray[np.bool_] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Observed:
    """Values of one line, of one kind; flat arrays in the order of execution."""

    place: Place
    role: SampleRole
    kind: int  # INNER or FINAL
    values: Doubles  # what was seen
    output: Groups  # number of the expected output
    # row, column: in the product as the operation has it
    row: Groups
    column: Groups
    matrix: Groups  # tag's matrix, which says what had been added up
    group: Groups  # the event; values of one multiplication share it
    block: Groups  # that ran it, as a linear index
    rounding: float  # unit roundoff of the type that holds them
    partial: bool  # some values of this line were left out


@dataclass(frozen=True, slots=True)
class StageReading:
    """A reading and how far it goes."""

    words: str  # "scale·Q·Kᵀ"
    fit: Fit
    of: str = "the output"  # words for the matrix that is read so: "scores"

    @property
    def fits(self) -> bool:
        """Whether every value fits."""
        return self.fit.departs == 0


@dataclass(frozen=True, slots=True)
class Judged:
    """A line's values with the reading that explains most of them."""

    seen: Observed
    best: StageReading

    @property
    def fits(self) -> bool:
        """Whether it is consistent."""
        return self.best.fits

    @property
    def departs_at(self) -> int:
        """The event of the first value that does not fit."""
        wrong = np.flatnonzero(~self.best.fit.right)
        return int(self.seen.group[wrong[0]]) if len(wrong) else 0


@dataclass(frozen=True, slots=True)
class StageCase:
    """What a case gives to the stages of its operation."""

    parameters: Mapping[str, float | int | bool | str]  # evaluated
    inputs: Mapping[str, NDArray[Any]]  # logical tensors by role
    element: ElementType  # of what is multiplied first
    argument: Callable[[int], Doubles]  # an argument's matrix by its number, (rows, columns)


@dataclass(frozen=True, slots=True)
class StageWords:
    """How an operation speaks of its stages; "" for what it does not know."""

    inner: str = ""  # its inner matrix, as operand: "the weights"
    inner_axes: str = "(row, column)"  # indices of that


class Stages(Protocol):
    """What an operation knows of the values on the way to its outputs, for one case."""

    words: StageWords
    exact: bool  # whether sums are integers
    hidden: float  # a value at least as low stands for one that masks leave out; -inf where none does

    def judge(
        self, expected: Sequence[ExpectedOutput], coverage: Callable[[int], Coverage], lines: Sequence[Observed]
    ) -> Iterator[Judged]:
        """The lines of a run, in the order of execution.

        Args:
            coverage: what a derived matrix has added up.
        """
        ...
