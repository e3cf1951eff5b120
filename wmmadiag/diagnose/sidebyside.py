"""Two versions of a kernel, run on the same inputs: the first access that is not the same in both.

That access is what a change of the source *does*, in words that need to know nothing of the change: "warp 1 reads
K[0..15, 0..15] where the changed kernel reads K[16..31, 0..15]".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.changes import Change
from wmmadiag.diagnose.watched import SPACES, STORES, Event, Line, LineShift, Watch, key_of, touched_by, watched
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase

_Both: TypeAlias = tuple[Sequence[MemoryExtent], Sequence[MemoryExtent]]
"""Named memory of the first and of the second version."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two runs first differ."""

    # "access" (the same line touches other elements), "executed" (it runs in one of them only, or not as often),
    # "barrier" (a line waits more or less often)
    what: str
    place: Place  # the user's line, in the first version
    # block, warp: where; -1 where that does not matter
    block: int
    warp: int
    # before, after: what the first and the second version do there; "" for nothing
    before: str
    after: str
    space: str = ""  # of the memory, "" for none
    store: bool = False  # whether it writes
    stores_after: bool | None = None  # whether the second version does, of an "access"; None: as the first

    def sentence(self) -> str:
        """One sentence: what the first version does, and what the second does in its place."""
        who = f"warp {self.warp} of block {self.block}" if self.warp >= 0 else "the kernel"
        if self.what == "access":
            verb, then = ("writes" if one else "reads" for one in (self.store, self._stores_after))
            return f"{who} {verb} {self.before} where the changed kernel {then} {self.after}"
        if self.what == "executed":
            if not self.before:
                return f"{who} does not {'write' if self.store else 'read'} {self.after} here; the changed kernel does"
            if not self.after:
                return f"{who} {'writes' if self.store else 'reads'} {self.before} here; the changed kernel does not"
            return f"{who} comes here {self.before}; in the changed kernel {self.after}"
        if self.what == "barrier":
            return f"{who} waits {self.before} here; in the changed kernel {self.after}"
        return "the same elements are read and written, with other values"

    @property
    def missed(self) -> bool:
        """Whether the first version makes no access here, and the second one does."""
        return self.what == "executed" and not self.before

    @property
    def _stores_after(self) -> bool:
        return self.store if self.stores_after is None else self.stores_after


def of_two_ends(change: Change, difference: Difference | None) -> bool:
    """Whether a change of several pieces moves what is in shared memory: those who write it and those who read it would
    agree just as well if the other end were changed."""
    moves = difference is not None and difference.what == "access" and difference.space == "shared"
    return moves and len(change.edits) > 1


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
    one, two = watched(bind(), broken, blocks), watched(bind(), mended, blocks)
    shift = LineShift(texts)
    extents = broken.named_memory(bind().launch), mended.named_memory(bind().launch)
    for block in blocks:
        for line in one.order.get(block, ()):
            found = _at_line(one, two, block, line, shift, extents)
            if found is not None:
                return found
        for line in () if one.died else two.order.get(block, ()):
            back = shift.back(line)
            if back is None or (back not in one.events.get(block, {}) and back not in one.barriers.get(block, {})):
                place = replace(two.places[line], line=(back or shift.nearest(line))[1], column=0)
                return _only_in_second(two, block, line, place, extents[1])
    return None


def _at_line(one: Watch, two: Watch, block: int, line: Line, shift: LineShift, extents: _Both) -> Difference | None:
    there = shift.forth(line)
    mine, theirs = one.events.get(block, {}).get(line, []), two.events.get(block, {}).get(there, []) if there else []
    place = one.places[line]
    if mine or theirs:
        found = _accesses(mine, theirs, block, place, extents, died=one.died)
        if found is not None:
            return found
    if one.died:
        return None  # it would have waited more often
    waits, further = one.barriers.get(block, {}).get(line, []), two.barriers.get(block, {}).get(there or line, [])
    if there is not None and sorted(waits) != sorted(further):
        return Difference("barrier", place, block, -1, _times(len(waits)), _times(len(further)))
    return None


def _accesses(
    mine: Sequence[Event], theirs: Sequence[Event], block: int, place: Place, extents: _Both, *, died: bool = False
) -> Difference | None:
    """The first event of a warp that differs between two lists of one line.

    Args:
        died: whether an access ended the first run, after which it would have made others.
    """
    warps = dict.fromkeys([event[0] for event in (*mine, *theirs)])
    for warp in warps:
        ours = [event[1:] for event in mine if event[0] == warp]
        other = [event[1:] for event in theirs if event[0] == warp]
        if sorted(map(key_of, ours)) == sorted(map(key_of, other)):
            continue
        for number in range(max(len(ours), len(other))):
            if number < min(len(ours), len(other)) and _same(ours[number], other[number], extents):
                continue
            first = ours[number] if number < len(ours) else None
            if first is None and died:
                break
            second = other[number] if number < len(other) else None
            event = first or second
            assert event is not None
            what = "access" if first is not None and second is not None else "executed"
            before, after = (
                _named(one, of) if one is not None else "" for one, of in zip((first, second), extents, strict=True)
            )
            if before == after and first is not None and second is not None:
                before, after = _by_a_lane(first, second, extents) or (before, after)
            return Difference(
                what,
                place,
                block,
                warp,
                before,
                after,
                SPACES[event[0]],
                event[1] in STORES,
                second[1] in STORES if second is not None else None,
            )
    return None


def _same(one: tuple[Any, ...], other: tuple[Any, ...], extents: _Both) -> bool:
    """Whether two accesses of a warp do the same, be it that a version has its shared arrays at other places."""
    if key_of(one) == key_of(other):
        return True
    alike = one[:2] == other[:2] and one[3] == other[3] and SPACES[one[0]] == "shared"
    return alike and _located(one, extents[0]) == _located(other, extents[1])


def _located(event: tuple[Any, ...], extents: Sequence[MemoryExtent]) -> list[tuple[str, int]]:
    """In which array, and how far from its beginning, each lane is."""
    known = sorted((one for one in extents if one.space == SPACES[event[0]] and one.size), key=lambda one: one.start)
    touched = touched_by(event[2], event[4]).astype(np.int64)
    at = np.searchsorted(np.array([one.start for one in known]), touched, side="right") - 1
    places = [(known[number] if number >= 0 else None, int(place)) for number, place in zip(at, touched, strict=True)]
    return [(of.name, place - of.start) if of is not None else ("", place) for of, place in places]


def _by_a_lane(first: tuple[Any, ...], second: tuple[Any, ...], extents: _Both) -> tuple[str, str] | None:
    """What the first lane does that does something else, where a warp does the same with its lanes exchanged."""
    mine, theirs = (np.frombuffer(one[4], "<u8") for one in (first, second))
    for lane in map(int, np.flatnonzero(mine != theirs)) if first[2] == second[2] else ():
        if first[2] >> lane & 1:
            alone = [(*one[:2], 1 << lane, *one[3:]) for one in (first, second)]
            before, after = (_named(one, of) for one, of in zip(alone, extents, strict=True))
            return f"{before} by lane {lane}", f"{after} by it"
    return None


def _only_in_second(two: Watch, block: int, line: Line, place: Place, extents: Sequence[MemoryExtent]) -> Difference:
    events = two.events.get(block, {}).get(line, [])
    if not events:
        waits = two.barriers.get(block, {}).get(line, [])
        return Difference("barrier", place, block, -1, _times(0), _times(len(waits)))
    warp, *rest = events[0]
    event = tuple(rest)
    return Difference(
        "executed", place, block, warp, "", _named(event, extents), SPACES[events[0][1]], events[0][2] in STORES
    )


def _times(count: int) -> str:
    return {0: "not at all", 1: "once"}.get(count, f"{count} times")


def _named(event: tuple[Any, ...], extents: Sequence[MemoryExtent]) -> str:
    """The elements that an access of a warp touches, as the user wrote the array: `sK[0..15][0..63]`."""
    space, _, active, size, addresses = event
    touched = touched_by(active, addresses)
    if not len(touched):
        return "nothing"
    names: list[str] = []
    known = [one for one in extents if one.space == SPACES[space]]
    for extent in known:
        inside = touched[(touched >= extent.start) & (touched < extent.start + max(extent.size, 1))]
        if len(inside):
            names.append(_range_of(extent, inside.astype(np.int64), size))
    if not names:
        return f"{SPACES[space]} memory from byte {int(touched.min()):,} on"
    return " and ".join(dict.fromkeys(names))


def _range_of(extent: MemoryExtent, addresses: NDArray[np.int64], size: int) -> str:
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
