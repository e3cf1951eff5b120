"""How much of what a kernel does a change alters: the least intrusive of several that mend is likeliest what was meant.

A tile of another size, or padding left out, may mend a kernel whose mistake is a single index; it also changes nearly
every access of a program that was otherwise as its author wanted it.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from wmmadiag.diagnose.watched import SPACES, STORES, Event, blocks_of, touched_by, watched
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.subject.binding import BoundCase

Touch: TypeAlias = tuple[int, int, int, bool, int, tuple[tuple[str, int], ...]]
"""(block, warp, space, whether it writes, bytes per lane, array and distance of each lane)."""


def touches(case: BoundCase, kernel: EmulatedKernel) -> Counter[Touch]:
    """How often a kernel touches what in memory: the elements that a warp reads or writes at once.

    Where an array lies does not matter, nor which line touches it.

    Args:
        case: that it runs, with fresh arrays.
    """
    named = _Named(kernel.named_memory(case.launch))
    watch = watched(case, kernel, blocks_of(case.launch))
    found: Counter[Touch] = Counter()
    known: dict[Event, Touch] = {}
    for block, lines in watch.events.items():
        for events in lines.values():
            for event in events:
                if event not in known:
                    warp, space, kind, active, size, addresses = event
                    touched = touched_by(active, addresses).tolist()
                    places = tuple(named.of(space, one) for one in touched)
                    known[event] = (block, warp, space, kind in STORES, size, places)
                found[(block, *known[event][1:])] += 1
    return found


def altered(before: Counter[Touch], after: Counter[Touch]) -> float:
    """Share of a kernel's memory accesses that a changed version of it no longer makes; 0 to 1."""
    return (before - after).total() / before.total() if before else 0.0


class _Named:
    """Addresses as an array's name and the distance from its beginning."""

    def __init__(self, extents: Sequence[MemoryExtent]) -> None:
        self._extents = {
            number: sorted((one for one in extents if one.space == space), key=lambda one: one.start)
            for number, space in enumerate(SPACES)
        }
        self._starts = {number: [one.start for one in known] for number, known in self._extents.items()}

    def of(self, space: int, address: int) -> tuple[str, int]:
        """(name, bytes from its beginning); ("", address) outside all."""
        known, at = self._extents[space], bisect.bisect_right(self._starts[space], address) - 1
        if at < 0 or address >= known[at].start + max(1, known[at].size):
            return "", address
        return known[at].name, address - known[at].start
