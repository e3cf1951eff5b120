"""What a changed kernel does more than it needs to: it was meant otherwise, though it is right.

A loop in half its steps reads everything twice, and hides that a half of what was read is not added up; an array that
is cleared over twice its length takes its neighbour along, which nobody clears.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.watched import SPACES, STORES, Event, LineShift, Watch, all_bytes, all_touched, key_of
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.observer import AccessKind
from wmmadiag.place import Place

_SPACES = tuple(SPACES.index(name) for name in ("global", "shared"))
_MORE = 1.05
"""Times as often, from which on something is read more often."""
_BULK = 256
"""Bytes of shared memory that are more than a few numbers for all threads."""
_LOOKS = 512
"""Addresses of a line that are looked up."""


def repeats(before: Watch, after: Watch) -> str:
    """The space of which a changed kernel reads nothing new, and what it reads more often; "" for none.

    What is written in between is another value: in shared memory reads are counted for each byte that is stored.
    """
    for space in _SPACES:
        (old, reads, stores), (new, more, further) = (_counted(one, space) for one in (before, after))
        if not reads or more <= _MORE * reads or not np.isin(new, old, assume_unique=True).all():
            continue
        if space == _SPACES[0] or more * max(1, stores) > _MORE * reads * max(1, further):
            return SPACES[space]
    return ""


def _counted(watch: Watch, space: int) -> tuple[NDArray[np.uint64], int, int]:
    """Which (block, byte) are read, how many bytes in all, and how many are stored."""
    read, total, stored = [np.empty(0, np.uint64)], 0, 0
    for block, lines in watch.events.items():
        events = [one for some in lines.values() for one in some if one[1] == space]
        reads = [one for one in events if one[2] not in STORES - {AccessKind.ATOMIC}]
        stored += sum(_lanes(one) * one[4] for one in events if one[2] in STORES)
        total += sum(_lanes(one) * one[4] for one in reads)
        places = all_bytes(reads)
        placed = watch.placed(places) if space == _SPACES[0] else places
        read.append(np.unique(placed) + np.uint64(block << 48))
    return np.unique(np.concatenate(read)), total, stored


def _lanes(event: Event) -> int:
    return event[3].bit_count()


def twice(after: Watch) -> Place | None:
    """A line that fills shared memory of which each byte is stored by two warps or more: one would do; None for none.

    A few bytes, such as one number for all, are stored so on purpose.
    """
    for held in after.events.values():
        for line, events in held.items():
            stores = [one for one in events if one[1] == _SPACES[1] and one[2] == AccessKind.STORE]
            by_warp = {warp: np.unique(all_bytes([one for one in stores if one[0] == warp]))
                       for warp in {one[0] for one in stores}}  # fmt: skip
            if len(by_warp) > 1:
                places, counts = np.unique(np.concatenate(list(by_warp.values())), return_counts=True)
                if len(places) >= _BULK and counts.min() > 1:
                    return after.places[line]
    return None


def overlaps(before: Watch, after: Watch) -> int:
    """How many bytes of global memory two blocks or more store, and did not before."""
    return len(np.setdiff1d(_stored_by_several(after), _stored_by_several(before), assume_unique=True))


def _stored_by_several(watch: Watch) -> NDArray[np.uint64]:
    """The bytes of global memory that more than one block stores."""
    stored = [np.empty(0, np.uint64)]
    for lines in watch.events.values():
        events = [one for some in lines.values() for one in some if one[1] == _SPACES[0] and one[2] == AccessKind.STORE]
        stored.append(np.unique(watch.placed(all_bytes(events))))
    places, counts = np.unique(np.concatenate(stored), return_counts=True)
    return places[counts > 1]


def strays(
    before: Watch, after: Watch, lines: LineShift, extents: tuple[Sequence[MemoryExtent], Sequence[MemoryExtent]]
) -> tuple[Place, str] | None:
    """A line that goes on into another array than those it kept to before: where, and which one."""
    for line in sorted({line for held in after.events.values() for line in held}):
        back = lines.back(line)
        if back is None:
            continue
        old, new = (
            _arrays([event for held in watch.events.values() for event in held.get(at, ())], known)
            for watch, at, known in ((before, back, extents[0]), (after, line, extents[1]))
        )
        further = sorted(new - old)
        if old and old < new:
            return after.places[line], further[0]
    return None


def rearranged(before: Watch, after: Watch, lines: LineShift) -> Place | None:
    """A line that fills shared memory from the same elements in another order, and all that differs; None for none.

    Which element lies where in shared memory is between two ends: who reads it there could be what is wrong as well.
    """
    found: Place | None = None
    for block, held in after.events.items():
        old = before.events.get(block, {})
        backs = {line: lines.back(line) for line in held}
        if set(backs.values()) != set(old):
            return None
        for line, back in backs.items():
            if back is None or _same(old[back], held[line]):
                continue
            (reads, stores), (further, kept) = _filling(old[back]), _filling(held[line])
            if not len(reads) or not np.array_equal(reads, further) or stores is None or stores != kept:
                return None
            found = after.places[line]
    return found


def _same(one: Sequence[Event], other: Sequence[Event]) -> bool:
    return [key_of(event[1:]) for event in one] == [key_of(event[1:]) for event in other]


def _filling(events: Sequence[Event]) -> tuple[NDArray[np.uint64], list[object] | None]:
    """Which bytes of global memory are read, and the stores to shared memory; None where none of them is there."""
    reads = [one for one in events if one[1] == _SPACES[0] and one[2] not in STORES]
    stores = [key_of(one[1:]) for one in events if one[1] == _SPACES[1] and one[2] in STORES]
    copies = any(one[2] == AccessKind.ASYNC_LOAD for one in reads)
    only = len(reads) + len(stores) == len(events)
    return np.unique(all_bytes(reads)), list(stores) if only and (stores or copies) else None


def _arrays(events: Sequence[Event], extents: Sequence[MemoryExtent]) -> set[str]:
    """The names of the arrays that some accesses touch."""
    found: set[str] = set()
    for space in _SPACES:
        known = sorted((one for one in extents if one.space == SPACES[space] and one.size), key=lambda one: one.start)
        touched = [one for one in events if one[1] == space] if known else []
        if touched:
            places = np.unique(all_touched(touched))
            places = np.unique(np.append(places[:: max(1, len(places) // _LOOKS)], places[-1]))
            at = np.searchsorted(np.array([one.start for one in known], np.uint64), places, side="right") - 1
            pairs = zip(at.tolist(), places.tolist(), strict=True)
            found |= {known[number].array(place) for number, place in pairs if number >= 0}
    return found
