"""Races of a grid with those that it launches: as none can be waited for, nothing orders what it does later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.observer import AccessKind, WarpPlace
from wmmadiag.launch import DeviceMemory
from wmmadiag.place import own_place
from wmmadiag.programs.footprint import READ, WRITE, Footprint
from wmmadiag.programs.nested import QUEUE, turn_at
from wmmadiag.results.model import ReportedFinding

_MOST_KEPT = 64 << 20
"""Bytes of memory that are compared with what they were at the first launch; where there are more, nothing is said."""
_MOST_FOLLOWED = 300_000
"""Accesses of warps in all of a program's grids that are followed, and pages that are copied for it."""
_PAGE = 4096

_Bytes: TypeAlias = "dict[int, NDArray[np.int64]]"
_WORDS = {
    "read-write": "{child} writes {memory}, which {parent} reads after it has launched it, and nothing orders the two",
    "write-read": "{child} reads {memory}, which {parent} writes after it has launched it, and nothing orders the two",
    "write-write": "{child} and {parent}, after it has launched it, change {memory}, and nothing orders the two",
}


@dataclass
class Grid(Footprint):
    """An observer of a grid that launches others: its accesses in order, and memory as it was at the first launch."""

    timed: bool = True
    name: str = ""
    kernel: LoweredKernel | None = None
    pages: int = 0  # of memory that was copied
    _before: dict[int, NDArray[np.uint8]] | None = None
    _changed: dict[int, NDArray[np.bool_]] = field(default_factory=dict)

    def on_memory(self, where: WarpPlace, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """Note an access; at the first to what is launched, all memory."""
        if self._before is None and kind == AccessKind.STORE:
            lane = 8 * ((active & -active).bit_length() - 1)
            if self._holds_launches(int.from_bytes(addresses[lane : lane + 8], "little")):
                whole = [one for one in self._live if not one.name.startswith(QUEUE)]
                self.complete &= sum(one.data.size for one in whole) <= _MOST_KEPT
                self._before = {one.address: one.data.copy() for one in whole} if self.complete else {}
        super().on_memory(where, space, kind, active, size, addresses)

    def _holds_launches(self, address: int) -> bool:
        queues = (one for one in self._live if one.name.startswith(QUEUE))
        return any(one.address <= address < one.address + one.data.size for one in queues)

    def end(self) -> None:
        """The grid is done: what it has changed since its first launch is what memory holds now."""
        before, self._before = self._before or {}, {}
        self.pages = sum(one.size for one in before.values()) // _PAGE
        for one in self._live:
            if one.address in before and self.marks(one.address, WRITE) is not None:
                self._changed[one.address] = before[one.address] != one.data

    def time_of(self, number: int) -> int:
        """After how many accesses the launch in a place of the queue was made."""
        for one in self._live:
            if one.name.startswith(QUEUE) and (marks := self.marks(one.address, WRITE)) is not None:
                return int(marks[turn_at(number)])
        return 1 << 31

    def later(self, time: int, touch: int) -> _Bytes:
        """Offsets of bytes that were read, or changed, after a time, by allocations."""
        found = {}
        for one in self._live:
            marks = self.marks(one.address, touch)
            if marks is None or one.name.startswith(QUEUE):
                continue
            after = marks > time
            if touch == WRITE:
                after &= self._changed.get(one.address, False)
            if after.any():
                found[one.address] = np.flatnonzero(after)
        return found


@dataclass(frozen=True, slots=True)
class Later:
    """What a grid does after one launch, as it matters to what was launched."""

    grid: Grid
    reads: _Bytes
    writes: _Bytes

    @classmethod
    def of(cls, grid: Grid, number: int) -> Later | None:
        """After the launch in a place of the queue; None where there is nothing."""
        if not grid.complete:
            return None
        time = grid.time_of(number)
        made = cls(grid, grid.later(time, READ), grid.later(time, WRITE))
        return made if made.reads or made.writes else None


@dataclass
class NestedRaces:
    """What the grids around the one that runs do after they launched it."""

    around: tuple[Later, ...] = ()
    _followed: int = 0  # accesses and pages of all grids

    def observer(self, memory: Sequence[DeviceMemory], name: str, kernel: LoweredKernel) -> Grid | None:
        """For a grid that launches others or was launched; None once there have been too many accesses."""
        return Grid(memory, name=name, kernel=kernel) if self._followed < _MOST_FOLLOWED else None

    def before(self, memory: Sequence[DeviceMemory]) -> Mapping[int, NDArray[np.uint8]]:
        """Memory that may be raced for, as it is."""
        wanted = {address for one in self.around for address in (*one.reads, *one.writes)}
        return {one.address: one.data.copy() for one in memory if one.address in wanted}

    def found(
        self, grid: Grid, memory: Sequence[DeviceMemory], before: Mapping[int, NDArray[np.uint8]]
    ) -> Iterator[ReportedFinding]:
        """Races of a grid that is done with those around it.

        Args:
            memory: as it is now.
            before: as `before` gave it.
        """
        grid.end()
        self._followed += len(grid.counters) + grid.pages
        rows = {one.address: one for one in memory}
        for parent in self.around if grid.complete else ():
            told = set()
            for kind, theirs, their_touch, touch in (
                ("read-write", parent.reads, READ, WRITE),
                ("write-write", parent.writes, WRITE, WRITE),
                ("write-read", parent.writes, WRITE, READ),
            ):
                for address, offsets in theirs.items():
                    marks = grid.marks(address, touch)
                    if marks is None or address in told or address not in rows:
                        continue
                    raced = offsets[marks[offsets] != 0]
                    if touch == WRITE:
                        raced = raced[before[address][raced] != rows[address].data[raced]]
                    if raced.size:
                        told.add(address)
                        yield _finding(kind, parent.grid, their_touch, grid, touch, rows[address], raced)


def _finding(
    kind: str, parent: Grid, their_touch: int, child: Grid, touch: int, row: DeviceMemory, raced: NDArray[np.int64]
) -> ReportedFinding:
    first = int(raced[0])
    lines = [_line(one, row.address, what, first) for one, what in ((child, touch), (parent, their_touch))]
    return ReportedFinding(
        check="streams",
        kind=f"nested-{kind}",
        level="error",
        message=_WORDS[kind].format(child=child.name, parent=parent.name, memory=row.name),
        place=lines[0],
        other=lines[1],
        detail=(f"first seen at element {first // row.item} of {row.data.size // row.item}",),
        hint="do it before the launch, or in a grid that is launched behind it, or into cudaStreamTailLaunch",
    )


def _line(grid: Grid, address: int, touch: int, offset: int) -> str:
    """The source line of the last access to a byte."""
    marks = grid.marks(address, touch)
    if marks is None or grid.kernel is None:
        return ""
    return str(own_place(grid.kernel.place(grid.counters[int(marks[offset]) - 1])))
