"""What a version of a kernel does to memory and at barriers, by the user's line; and which line is which in another."""

from __future__ import annotations

import bisect
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.csource.tree import Source
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.observer import AccessKind, lanes_of
from wmmadiag.errors import KernelFault, WmmadiagError
from wmmadiag.launch import Launch
from wmmadiag.place import Place, own_place
from wmmadiag.subject.binding import BoundCase, bind
from wmmadiag.subject.compiling import Texts

SPACES = ("generic", "global", "shared", "local")
"""By the number that a memory event has."""
STORES = frozenset({AccessKind.STORE, AccessKind.ATOMIC, AccessKind.ASYNC_STORE})
_SHARED, _LOCAL = 2, 3
BLOCKS = 24
"""Blocks in which two versions of a kernel are compared access by access."""
_MOST = 400_000
"""Memory events of one launch that are listened to: a longer one is compared by its beginning."""

Line: TypeAlias = tuple[str, int]
Event: TypeAlias = tuple[int, int, int, int, int, bytes]
"""(warp, space, kind, active lanes, bytes per lane, addresses)."""


@dataclass(slots=True)
class Watch:
    """Memory and barriers of some blocks, by the user's line."""

    kernel: EmulatedKernel
    blocks: frozenset[int]
    lines: dict[int, tuple[Place, Line]] = field(default_factory=dict)
    events: dict[int, dict[Line, list[Event]]] = field(default_factory=dict)
    order: dict[int, list[Line]] = field(default_factory=dict)
    barriers: dict[int, dict[Line, list[tuple[int, int]]]] = field(default_factory=dict)
    places: dict[Line, Place] = field(default_factory=dict)
    count: int = 0
    arrays: tuple[int, ...] = ()  # where those in global memory begin
    died: bool = False  # whether an access ended the run: what it did is the beginning of what it would have done

    @property
    def cut(self) -> bool:
        """Whether there were more events than are listened to."""
        return self.count > _MOST

    def placed(self, addresses: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Addresses of global memory as the number of an array and the distance from its beginning, below 2⁴⁸: what is
        the same of two runs, whose arrays lie at other places."""
        starts = np.array(self.arrays, np.uint64)
        order = np.argsort(starts)
        at = np.searchsorted(starts[order], addresses, side="right") - 1
        if not len(starts) or not len(at) or at.min() < 0:
            return addresses
        found: NDArray[np.uint64] = (order[at].astype(np.uint64) << np.uint64(40)) + (addresses - starts[order[at]])
        return found

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        block, warp, pc = where
        if block not in self.blocks or kind == AccessKind.ASYNC_STORE or space == _LOCAL or self._constant(pc, space):
            return
        self.count += 1
        if self.count > _MOST:
            return
        self._at(block, pc, self.events).append((warp, space, kind, active, size, addresses))

    def on_barrier(self, where: Any, kind: int, barrier: int, _active: int) -> None:
        """See `wmmadiag.emulator.observer`."""
        block, warp, pc = where
        if block in self.blocks and kind != 2:
            self._at(block, pc, self.barriers).append((warp, barrier))

    def _constant(self, pc: int, space: int) -> bool:
        """Whether an instruction reads a parameter or a constant, which no other reads in another way.

        An array in shared memory has an address that is known as well, and is written.
        """
        node = self.kernel.kernel.nodes[pc]
        return not self._line(pc)[1][1] or (
            space != _SHARED and node.op == "ld" and node.s[0] is not None and node.s[0].constant is not None
        )

    def _line(self, pc: int) -> tuple[Place, Line]:
        if pc not in self.lines:
            place = own_place(self.kernel.kernel.place(pc))
            self.lines[pc] = place, (place.file, place.line)
            self.places.setdefault((place.file, place.line), place)
        return self.lines[pc]

    def _at(self, block: int, pc: int, held: dict[int, dict[Line, list[Any]]]) -> list[Any]:
        line = self._line(pc)[1]
        known = held.setdefault(block, {})
        if line not in known:
            known[line] = []
            self.order.setdefault(block, []).append(line)
        return known[line]


def blocks_of(launch: Launch) -> range:
    """The linear indices of the blocks of a launch that are listened to."""
    return range(min(BLOCKS, math.prod(launch.grid)))


def fresh(old: BoundCase) -> BoundCase:
    """A case with arrays as they were before it ran."""
    return bind(old.card, old.case, old.variant, seed=old.seed, inputs=old.distribution)


def watched(case: BoundCase, kernel: EmulatedKernel, blocks: Sequence[int]) -> Watch:
    """Run a case, and listen to some of its blocks; what it did before it died is kept."""
    arrays = tuple(one.start for one in kernel.memory(case.launch)[1] if one.space == "global" and one.size)
    watch = Watch(kernel, frozenset(blocks), arrays=arrays)
    try:
        kernel.observed(case.launch, watch)
    except KernelFault as fault:
        watch.died = fault.address is not None
    except WmmadiagError:
        pass
    return watch


def key_of(event: tuple[Any, ...]) -> tuple[int, int, int, tuple[int, ...]]:
    """What is the same of two accesses that do the same; of an event without its warp."""
    space, kind, active, size, addresses = event
    return space, kind, size, tuple(touched_by(active, addresses).tolist())


def touched_by(active: int, addresses: bytes) -> NDArray[np.uint64]:
    """The addresses of the lanes that take part."""
    every = np.frombuffer(addresses, "<u8")
    return every[_lanes(active)]


@lru_cache(maxsize=1024)
def _lanes(active: int) -> NDArray[np.int64]:
    return lanes_of(active)


def all_touched(events: Sequence[Event]) -> NDArray[np.uint64]:
    """The addresses of the lanes that take part in some accesses, one after the other."""
    every = np.frombuffer(b"".join(one[5] for one in events), "<u8").reshape(len(events), -1)
    active = np.array([one[3] for one in events], np.uint32)[:, None] >> np.arange(every.shape[1], dtype=np.uint32)
    touched: NDArray[np.uint64] = every[(active & 1).astype(bool)]
    return touched


def all_bytes(events: Sequence[Event]) -> NDArray[np.uint64]:
    """The bytes that some accesses touch: those of equal size together."""
    found = [np.empty(0, np.uint64)]
    for size in sorted({one[4] for one in events}):
        touched = all_touched([one for one in events if one[4] == size])
        found.append(np.add.outer(touched, np.arange(size, dtype=np.uint64)).reshape(-1))
    return np.concatenate(found)


def both_texts(sources: Mapping[str, Source], texts: Texts) -> dict[str, tuple[str, str]]:
    """The files that a change alters, each as it stands and changed; `texts`: with the change."""
    pairs = {
        file: (source.data.decode("utf-8", "replace"), texts.get(Path(file).resolve(), ""))
        for file, source in sources.items()
    }
    return {file: pair for file, pair in pairs.items() if pair[1] and pair[0] != pair[1]}


class LineShift:
    """Which line of one version is which line of the other.

    Args:
        texts: file → its text in the first and in the second version, of files that differ.
    """

    def __init__(self, texts: Mapping[str, tuple[str, str]]) -> None:
        self._forth: dict[str, dict[int, int]] = {}
        self._back: dict[str, dict[int, int]] = {}
        for file, (old, new) in texts.items():
            matcher = difflib.SequenceMatcher(None, old.split("\n"), new.split("\n"), autojunk=False)
            forth = self._forth.setdefault(file, {})
            for tag, i1, i2, j1, j2 in matcher.get_opcodes():
                if tag in ("equal", "replace"):
                    forth.update({i + 1: j1 + min(i - i1, j2 - j1 - 1) + 1 for i in range(i1, i2)})
            self._back[file] = {}
            for i, j in forth.items():
                self._back[file].setdefault(j, i)

    def forth(self, line: Line) -> Line | None:
        """The line of the second version, or None for one that it lacks."""
        known = self._forth.get(line[0])
        if known is None:
            return line
        return (line[0], known[line[1]]) if line[1] in known else None

    def back(self, line: Line) -> Line | None:
        """The line of the first version, or None for one that it lacks."""
        known = self._back.get(line[0])
        if known is None:
            return line
        return (line[0], known[line[1]]) if line[1] in known else None

    def nearest(self, line: Line) -> Line:
        """The line of the first version before which a line of the second stands."""
        known = sorted(self._back.get(line[0], {}).items())
        at = bisect.bisect_right([j for j, _ in known], line[1])
        return line[0], known[min(at, len(known) - 1)][1] if known else line[1]
