"""What the engine's observer reports, as data; the counterpart of `Provenance::findings` in native/provenance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.provenance.tags import DecodedTag, decode

_NO_PC = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class DerivedProduct:
    """A matrix that multiplications made, and how much of the contracted axis it has added up."""

    # number, base: in tags; `base` is the same for all partial sums of one product
    number: int
    base: int
    # left, right: matrices; `left_axis`, `right_axis`: which of their axes is contracted
    left: int
    left_axis: int
    right: int
    right_axis: int
    corrected: bool  # residuals of split operands were added as well
    repeated: bool  # some index was added more than once
    coverage: tuple[tuple[int, int], ...]  # [first, end) of the contracted axis, ascending

    def covers(self, end: int) -> bool:
        """Whether all of [0, end) has been added."""
        return end <= 0 or any(a <= 0 and end <= b for a, b in self.coverage)


class RecordKind(IntEnum):
    """`RecordKind` of provenance.hpp."""

    UNWRITTEN = 0
    OPERAND_A = 1
    OPERAND_B = 2
    CONTRACTION = 3
    ACCUMULATOR = 4
    STATISTIC = 5


class EventKind(IntEnum):
    """`EventKind` of provenance.hpp."""

    OVERWRITTEN = 0
    RESTARTED = 1
    STRIDE = 2
    FOREIGN_SUM = 3


@dataclass(frozen=True, slots=True)
class TagRecord:
    """A disagreement at an instruction; values that it spoilt carry its number.

    `line`, `column`, `k`: of the multiplication, where first seen; `first`, `second`: the tags that disagreed.
    """

    kind: RecordKind
    pc: int
    a_pc: int | None
    b_pc: int | None
    first: DecodedTag
    second: DecodedTag
    line: int
    column: int
    k: int
    count: int
    block: int
    warp: int
    lane: int
    space: str
    address: int


@dataclass(frozen=True, slots=True)
class Event:
    """Something that harms only if the sum or fragment is not made good later."""

    kind: EventKind
    pc: int
    matrix: int
    a: int
    b: int
    first: DecodedTag
    count: int
    block: int
    warp: int


@dataclass(frozen=True, slots=True)
class OperandUse:
    """What one multiplication (by program counter) made of one product."""

    pc: int
    product: int
    a_pc: int | None
    b_pc: int | None
    count: int


@dataclass(frozen=True, slots=True)
class TaggedRun:
    """Everything that one run reported.

    `samples`: how many values were sampled, and whether some were left out.
    """

    derived: Mapping[int, DerivedProduct]
    records: Mapping[int, TagRecord]
    events: tuple[Event, ...]
    uses: tuple[OperandUse, ...]
    unexplained: Mapping[int, int]
    samples: tuple[int, bool] = (0, False)

    def coverage(self, number: int) -> tuple[tuple[int, int], ...]:
        """What a derived matrix has added up of its contracted axis."""
        return self.derived[number].coverage


def read_raw(findings: Iterable[Mapping[str, Any]]) -> TaggedRun:
    """Decode `EmulatedKernel.raw_findings` of the check "provenance"."""
    derived: dict[int, DerivedProduct] = {}
    records: dict[int, TagRecord] = {}
    events: list[Event] = []
    uses: list[OperandUse] = []
    unexplained: dict[int, int] = {}
    samples = (0, False)
    for raw in findings:
        if raw["check"] != "provenance":
            continue
        v, pc = raw["values"], raw["pc"]
        where = raw["block"], raw["warp"]
        if raw["kind"] == "matrix":
            coverage = tuple(zip(v[8::2], v[9::2], strict=True))
            derived[v[0]] = DerivedProduct(v[0], v[1], v[2], v[3], v[4], v[5], bool(v[6]), bool(v[7]), coverage)
        elif raw["kind"] == "record":
            records[v[0]] = TagRecord(
                RecordKind(v[1]), pc, _pc(v[2]), _pc(v[3]), decode(v[4]), decode(v[5]), v[6], v[7], v[8],
                raw["count"], *where, raw["lane"], raw["space"], raw["address"],
            )  # fmt: skip
        elif raw["kind"] == "event":
            events.append(Event(EventKind(v[0]), pc, v[1], v[2], v[3], decode(v[4]), raw["count"], *where))
        elif raw["kind"] == "use":
            uses.append(OperandUse(pc, v[0], _pc(v[8]), _pc(v[9]), raw["count"]))
        elif raw["kind"] == "samples":
            samples = (v[0], bool(v[1]))
        else:
            unexplained[pc] = raw["count"]
    return TaggedRun(derived, records, tuple(events), tuple(uses), unexplained, samples)


def _pc(value: int) -> int | None:
    return None if value == _NO_PC else int(value)


_DTYPE = np.dtype(
    [("pc", "<u4"), ("group", "<u4"), ("tag", "<u8"), ("bits", "<u8"), ("where", "<u4"), ("block", "<u4")]
)
_CAPACITY = 1 << 19
_MOST = 1 << 15


class SampleSpace:
    """Memory for the engine's samples.

    Args:
        capacity: samples of a run.
        most: samples of one instruction in one role.
    """

    def __init__(self, capacity: int = _CAPACITY, most: int = _MOST) -> None:
        self.capacity, self.most = capacity, most
        self._array: NDArray[Any] = np.empty(capacity, _DTYPE)

    @property
    def address(self) -> int:
        """Of the first sample, for the engine."""
        return int(self._array.ctypes.data)

    def taken(self, count: int) -> NDArray[Any]:
        """The first `count` samples, in the order of execution."""
        return self._array[:count]
