"""What a traced run says, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements of one output that a disagreement reaches."""

    role: str  # of the output
    # elements, of: how many, of how many
    elements: int
    of: int
    first: tuple[int, ...]  # index of the first, in the logical tensor
    where: NDArray[np.bool_] = field(repr=False, compare=False)  # exactly which, in the shape of the logical tensor

    @classmethod
    def of_mask(cls, role: str, where: NDArray[np.bool_]) -> Reach:
        """The reach that is exactly this mask, which is not empty."""
        index = np.argwhere(where)
        return cls(role, len(index), where.size, tuple(map(int, index[0])), where)


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One cause at one line."""

    # "leading-dimension", "transposed", "wrong-axis", "wrong-matrix", "shifted", "broken-operand", "uninitialised",
    # "accumulator", "row-statistic", "lost-sums", "incomplete", "repeated", "misplaced"; and where values depart
    # although their tags are right: "scale", "value", or what the operation's stages call it
    kind: str
    place: Place  # the user's line; `other`: a second one, such as the multiplication that a load feeds
    message: str  # one sentence
    operand: str = ""  # "A", "B", "C", or "" where it is none
    other: Place | None = None
    detail: tuple[str, ...] = ()  # further lines
    count: int = 1  # how often it was seen
    # block, warp: where first, None when that is not known
    block: int | None = None
    warp: int | None = None
    reach: tuple[Reach, ...] = ()  # outputs that it reaches
    hint: str = ""  # what would make it agree
    # the disagreement of whose values this one is a consequence; None for a cause. A consequence stays in the list only
    # where it reaches elements that the cause does not.
    because_of: Disagreement | None = None
    # along which axis an operand runs was a guess: the elements of the pair that was seen do meet as they must
    guessed: bool = False

    @property
    def masks(self) -> Mapping[str, NDArray[np.bool_]]:
        """By output role: exactly which elements it reaches."""
        return {reach.role: reach.where for reach in self.reach}

    def finding(self) -> Finding:
        """As a finding of the check "provenance"."""
        reaches = tuple(
            f"reaches {one.elements} of {one.of} elements of {one.role}, first {list(one.first)}" for one in self.reach
        )
        return Finding(
            "provenance", self.kind, Level.ERROR, self.message, self.place, self.other, self.count,
            (*self.detail, *reaches), self.hint,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class DepartingValue:
    """One value that is not what the stage's reading says."""

    index: tuple[int, ...]  # of its head or batch, then row and column
    # observed, expected: values
    observed: float
    expected: float
    block: int = 0  # linear index of the block that had it
    earlier: int = 0  # how many events with followed values the stage's line had before in that block


@dataclass(frozen=True, slots=True)
class Stage:
    """Intermediate values that one line multiplied, accumulated or stored, against the operation's own."""

    place: Place  # the user's line
    what: str  # words: "operand", "accumulator", "result" or "store", and of which matrix
    reading: str  # what the values are when read uniformly: "scale·Q·Kᵀ"; "" when no known reading fits
    # "fits"; "departs", backed by a wrong output; "unknown", when none fits and the output is right, or when the
    # departure is not backed
    status: Literal["fits", "departs", "unknown"]
    # checked, departing: how many values, and how many of them are not what the reading says
    checked: int
    departing: int
    first: DepartingValue | None = None  # the first one that is not, in the order of execution
    group: int = 0  # when it was first seen; stages are listed in this order
    partial: bool = False  # there were more values than were looked at


@dataclass(frozen=True, slots=True)
class OutputSummary:
    """How an output's elements are explained."""

    role: str  # of the output
    elements: int  # how many it has
    explained: int  # right product, right element, everything added up that must be
    unknown: int  # the tags do not say (several matrices mixed, or nothing of a matrix)
    wrong: int  # the rest


@dataclass(frozen=True, slots=True)
class ProvenanceRun:
    """One traced launch."""

    disagreements: tuple[Disagreement, ...]  # those that reach an output, the one with the widest reach first
    outputs: tuple[OutputSummary, ...]  # one per output that the card's operation says something about
    notes: tuple[str, ...] = field(default=())  # what could not be followed
    # intermediate values by line, in the order of execution; the first that departs is the root
    stages: tuple[Stage, ...] = field(default=())

    @property
    def explained(self) -> bool:
        """Whether every element of every output is what it must be."""
        return bool(self.outputs) and all(one.explained == one.elements for one in self.outputs)
