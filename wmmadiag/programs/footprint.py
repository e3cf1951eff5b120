"""Which bytes of device memory a launch reads and writes: what can race with work in another stream."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.observer import AccessKind, MemorySpace, WarpPlace
from wmmadiag.launch import DeviceMemory

READ, WRITE, ATOMIC = range(3)
"""`Touch` of native/ordering.hpp."""
_TOUCHES: dict[int, int] = {
    AccessKind.LOAD: READ, AccessKind.STORE: WRITE, AccessKind.ATOMIC: ATOMIC,
    AccessKind.ASYNC_LOAD: READ, AccessKind.ASYNC_STORE: WRITE,
}  # fmt: skip
_MOST = 1_000_000
"""Accesses of warps; of a launch with more nothing is said."""
_KEPT = 100_000
"""So many different ones are known again when they are met again."""
_ALL_LANES = 0xFFFFFFFF
_IN_ROW = np.arange(32, dtype=np.uint64)


@dataclass
class Footprint:
    """An observer of one launch."""

    memory: Sequence[DeviceMemory]  # of the device
    # whether the value of the load at a program counter is offered to a compare-and-swap of its place, as a guess
    guesses: Callable[[int], bool] | None = None
    complete: bool = True  # whether all accesses were noted
    _marks: dict[tuple[int, int], NDArray[np.bool_]] = field(default_factory=dict)
    _count: int = 0
    _seen: set[tuple[int, int, int, bytes]] = field(default_factory=set)
    _loads: dict[int, int] = field(default_factory=dict)  # how each load touches memory, by its program counter

    def __post_init__(self) -> None:
        self._live = sorted((one for one in self.memory if one.data.size), key=lambda one: one.address)
        self._starts = [one.address for one in self._live]

    def on_memory(self, where: WarpPlace, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """Note an access of a warp."""
        if space not in (MemorySpace.GLOBAL, MemorySpace.GENERIC) or not self.complete:
            return
        self._count += 1
        if self._count > _MOST:
            self.complete = False
            return
        touch = self._touch(kind, where)
        access = (touch, active, size, addresses)
        if access in self._seen:
            return
        if len(self._seen) < _KEPT:
            self._seen.add(access)
        first = int.from_bytes(addresses[:8], "little")
        if active == _ALL_LANES and addresses == (_IN_ROW * size + first).tobytes():
            at = bisect.bisect_right(self._starts, first) - 1
            if at >= 0 and (start := first - self._starts[at]) + 32 * size <= self._live[at].data.size:
                self._marks_of(at, touch)[start : start + 32 * size] = True
                return
        lanes = np.frombuffer(addresses, np.uint64).astype(np.int64)
        if active != _ALL_LANES:
            lanes = lanes[[lane for lane in range(32) if active >> lane & 1]]
        low, high = int(lanes.min()), int(lanes.max()) + size
        at = bisect.bisect_right(self._starts, low) - 1
        if at >= 0 and high <= self._starts[at] + self._live[at].data.size:
            self._mark(at, touch, lanes - self._starts[at], size)
            return
        for lane in lanes:
            at = bisect.bisect_right(self._starts, int(lane)) - 1
            if at >= 0 and lane + size <= self._starts[at] + self._live[at].data.size:
                self._mark(at, touch, np.array([lane - self._starts[at]]), size)

    def _touch(self, kind: int, where: WarpPlace) -> int:
        touch = _TOUCHES[kind]
        if touch != READ or self.guesses is None:
            return touch
        pc = where[2]
        if pc not in self._loads:
            self._loads[pc] = ATOMIC if self.guesses(pc) else READ
        return self._loads[pc]

    def _marks_of(self, at: int, touch: int) -> NDArray[np.bool_]:
        key = (at, touch)
        marks = self._marks.get(key)
        if marks is None:
            marks = self._marks[key] = np.zeros(self._live[at].data.size, np.bool_)
        return marks

    def _mark(self, at: int, touch: int, offsets: NDArray[np.int64], size: int) -> None:
        marks = self._marks_of(at, touch)
        if int(offsets[-1] - offsets[0]) == size * (len(offsets) - 1) and np.all(np.diff(offsets) == size):
            marks[int(offsets[0]) : int(offsets[-1]) + size] = True
        else:
            marks[(offsets[:, None] + np.arange(size)).reshape(-1)] = True

    def stretches(self) -> Iterator[tuple[int, int, int]]:
        """(address, bytes, touch) of all memory of the program's that was touched."""
        for (at, touch), marks in self._marks.items():
            edges = np.flatnonzero(np.diff(marks.astype(np.int8), prepend=0, append=0))
            for begin, end in edges.reshape(-1, 2):
                yield self._starts[at] + int(begin), int(end - begin), touch
