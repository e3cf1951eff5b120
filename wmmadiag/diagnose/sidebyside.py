"""Two versions of a kernel, run on the same inputs: the first access that is not the same in both.

That access is what a change of the source *does*, in words that need to know nothing of the change: "warp 1 reads
K[0..15, 0..15] where the changed kernel reads K[16..31, 0..15]".
"""

from __future__ import annotations

import bisect
import contextlib
import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.extents import Extent
from wmmadiag.emulator.observer import AccessKind, lanes_of
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase
from wmmadiag.subject.check import own_place

_SPACES = ("generic", "global", "shared", "local")
_LOCAL = 3
_STORES = frozenset({AccessKind.STORE, AccessKind.ATOMIC, AccessKind.ASYNC_STORE})
_MOST = 400_000
"""Memory events of one launch that are listened to: a longer one is compared by its beginning."""

Line: TypeAlias = tuple[str, int]
_Event: TypeAlias = tuple[int, int, int, int, int, bytes]
"""(warp, space, kind, active lanes, bytes per lane, addresses)."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs first differ.

    Attributes:
        what: "access" (the same line touches other elements), "executed" (it runs in one of them only, or not as
            often), "barrier" (a line waits more or less often).
        place: the user's line, in the first version.
        block, warp: where; -1 where that does not matter.
        before, after: what the first and the second version do there; "" for nothing.
        space: of the memory, "" for none.
        store: whether it writes.
    """

    what: str
    place: Place
    block: int
    warp: int
    before: str
    after: str
    space: str = ""
    store: bool = False

    def sentence(self) -> str:
        """One sentence: what the first version does, and what the second does in its place."""
        who = f"warp {self.warp} of block {self.block}" if self.warp >= 0 else "the kernel"
        if self.what == "access":
            verb = "writes" if self.store else "reads"
            return f"{who} {verb} {self.before} where the changed kernel {verb} {self.after}"
        if self.what == "executed":
            if not self.before:
                return f"{who} does not {'write' if self.store else 'read'} {self.after} here; the changed kernel does"
            if not self.after:
                return f"{who} {'writes' if self.store else 'reads'} {self.before} here; the changed kernel does not"
            return f"{who} comes here {self.before}; in the changed kernel {self.after}"
        if self.what == "barrier":
            return f"{who} waits {self.before} here; in the changed kernel {self.after}"
        return "the same elements are read and written, with other values"


@dataclass(slots=True)
class _Watch:
    """Memory and barriers of some blocks, by the user's line."""

    kernel: EmulatedKernel
    blocks: frozenset[int]
    lines: dict[int, tuple[Place, Line]] = field(default_factory=dict)
    events: dict[int, dict[Line, list[_Event]]] = field(default_factory=dict)
    order: dict[int, list[Line]] = field(default_factory=dict)
    barriers: dict[int, dict[Line, list[tuple[int, int]]]] = field(default_factory=dict)
    places: dict[Line, Place] = field(default_factory=dict)
    count: int = 0

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """As `wmmadiag.emulator.observer.Observer`."""
        block, warp, pc = where
        if block not in self.blocks or kind == AccessKind.ASYNC_STORE or space == _LOCAL or self._constant(pc):
            return
        self.count += 1
        if self.count > _MOST:
            return
        self._at(block, pc, self.events).append((warp, space, kind, active, size, addresses))

    def on_barrier(self, where: Any, kind: int, barrier: int, _active: int) -> None:
        """As `wmmadiag.emulator.observer.Observer`."""
        block, warp, pc = where
        if block in self.blocks and kind != 2:
            self._at(block, pc, self.barriers).append((warp, barrier))

    def _constant(self, pc: int) -> bool:
        """Whether an instruction reads a parameter or a constant, which no other reads in another way."""
        node = self.kernel.kernel.nodes[pc]
        return not self._line(pc)[1][1] or (
            node.op == "ld" and node.s[0] is not None and node.s[0].constant is not None
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


def first_difference(
    bind: Callable[[], BoundCase],
    broken: EmulatedKernel,
    mended: EmulatedKernel,
    texts: Mapping[str, tuple[str, str]],
    blocks: Sequence[int],
) -> Difference | None:
    """The first access in which two versions of a kernel differ, in one of some blocks.

    Args:
        bind: the case with fresh arrays.
        broken, mended: both versions.
        texts: file → its text in the first and in the second version, of files that differ.
        blocks: linear indices of the blocks to look into, such as those that stored wrong elements.

    Returns:
        None where neither accesses nor barriers differ, and data alone may.
    """
    one, two = _watched(bind(), broken, blocks), _watched(bind(), mended, blocks)
    shift = _Lines(texts)
    extents = [*broken.named_memory(bind().launch), *mended.named_memory(bind().launch)]
    for block in blocks:
        for line in one.order.get(block, ()):
            found = _at_line(one, two, block, line, shift, extents)
            if found is not None:
                return found
        for line in two.order.get(block, ()):
            back = shift.back(line)
            if back is None or (back not in one.events.get(block, {}) and back not in one.barriers.get(block, {})):
                place = replace(two.places[line], line=(back or shift.nearest(line))[1], column=0)
                return _only_in_second(two, block, line, place, extents)
    return None


def _watched(case: BoundCase, kernel: EmulatedKernel, blocks: Sequence[int]) -> _Watch:
    watch = _Watch(kernel, frozenset(blocks))
    options = replace(kernel.options, threads=1, checks=(), check_table=(), observer=watch)
    with contextlib.suppress(WmmadiagError):  # what it did before it died is compared
        EmulatedKernel(kernel.kernel, options).launch(case.launch)
    return watch


def _at_line(
    one: _Watch, two: _Watch, block: int, line: Line, shift: _Lines, extents: Sequence[Extent]
) -> Difference | None:
    there = shift.forth(line)
    mine, theirs = one.events.get(block, {}).get(line, []), two.events.get(block, {}).get(there, []) if there else []
    place = one.places[line]
    if mine or theirs:
        found = _accesses(mine, theirs, block, place, extents)
        if found is not None:
            return found
    waits, further = one.barriers.get(block, {}).get(line, []), two.barriers.get(block, {}).get(there or line, [])
    if there is not None and sorted(waits) != sorted(further):
        return Difference("barrier", place, block, -1, _times(len(waits)), _times(len(further)))
    return None


def _accesses(
    mine: Sequence[_Event], theirs: Sequence[_Event], block: int, place: Place, extents: Sequence[Extent]
) -> Difference | None:
    """The first event of a warp that differs between two lists of one line."""
    warps = dict.fromkeys([event[0] for event in (*mine, *theirs)])
    for warp in warps:
        ours = [event[1:] for event in mine if event[0] == warp]
        other = [event[1:] for event in theirs if event[0] == warp]
        if sorted(map(_key, ours)) == sorted(map(_key, other)):
            continue
        for number in range(max(len(ours), len(other))):
            if number < min(len(ours), len(other)) and _key(ours[number]) == _key(other[number]):
                continue
            first = ours[number] if number < len(ours) else None
            second = other[number] if number < len(other) else None
            event = first or second
            assert event is not None
            what = "access" if first is not None and second is not None else "executed"
            return Difference(
                what,
                place,
                block,
                warp,
                _named(first, extents) if first is not None else "",
                _named(second, extents) if second is not None else "",
                _SPACES[event[0]],
                event[1] in _STORES,
            )
    return None


def _only_in_second(two: _Watch, block: int, line: Line, place: Place, extents: Sequence[Extent]) -> Difference:
    events = two.events.get(block, {}).get(line, [])
    if not events:
        waits = two.barriers.get(block, {}).get(line, [])
        return Difference("barrier", place, block, -1, _times(0), _times(len(waits)))
    warp, *rest = events[0]
    event = tuple(rest)
    return Difference(
        "executed", place, block, warp, "", _named(event, extents), _SPACES[events[0][1]], events[0][2] in _STORES
    )


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")


def _key(event: tuple[Any, ...]) -> tuple[int, int, int, tuple[int, ...]]:
    space, kind, active, size, addresses = event
    return space, kind, size, tuple(_touched(active, addresses).tolist())


def _touched(active: int, addresses: bytes) -> NDArray[np.uint64]:
    every = np.frombuffer(addresses, "<u8")
    return every[lanes_of(active)]


def _named(event: tuple[Any, ...], extents: Sequence[Extent]) -> str:
    """The elements that an access of a warp touches, as the user wrote the array: `sK[0..15][0..63]`."""
    space, _, active, size, addresses = event
    touched = _touched(active, addresses)
    if not len(touched):
        return "nothing"
    names: list[str] = []
    known = [one for one in extents if one.space == _SPACES[space]]
    for extent in known:
        inside = touched[(touched >= extent.start) & (touched < extent.start + max(extent.size, 1))]
        if len(inside):
            names.append(_range_of(extent, inside.astype(np.int64), size))
    if not names:
        return f"{_SPACES[space]} memory from byte {int(touched.min()):,} on"
    return " and ".join(dict.fromkeys(names))


def _range_of(extent: Extent, addresses: NDArray[np.int64], size: int) -> str:
    part = extent.part(int(addresses[0]))
    if part is None or part.item == 0 or not part.shape:
        first, last = extent.element(int(addresses.min()), size), extent.element(int(addresses.max()), size)
        return first if first == last else f"{first} to {last}"
    per = max(1, size // part.item)
    found = [part.index(int(a) - extent.start + step * part.item) for a in addresses for step in (0, per - 1)]
    index = np.array([one for one in found if one is not None])
    if not len(index):
        return extent.element(int(addresses[0]), size)
    low, high = index.min(axis=0), index.max(axis=0)
    words = [str(a) if a == b else f"{a}..{b}" for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    return f"{part.name}[{(',' if extent.comma else '][').join(words)}]"


class _Lines:
    """Which line of one version is which line of the other."""

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
