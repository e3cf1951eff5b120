"""How much of what a kernel does a change alters: the least intrusive of several that mend is likeliest what was meant.

A tile of another size, or padding left out, may mend a kernel whose mistake is a single index; it also changes nearly
every access of a program that was otherwise as its author wanted it.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from wmmadiag.diagnose.watched import SPACES, STORES, Event, touched_by, watched
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.extents import Extent
from wmmadiag.subject.binding import BoundCase

Bind: TypeAlias = Callable[[], BoundCase]
_Touch: TypeAlias = tuple[int, int, int, bool, int, tuple[tuple[str, int], ...]]


def altered(broken: tuple[EmulatedKernel, Bind], mended: tuple[EmulatedKernel, Bind], blocks: Sequence[int]) -> float:
    """Share of a kernel's memory accesses that a changed version of it no longer makes; 0 to 1.

    An access is the elements that a warp touches at once; where an array lies does not matter, nor which line touches
    it.

    Args:
        broken, mended: each kernel, and what makes the case that it runs, with fresh arrays.
        blocks: linear indices of those that are looked into.
    """
    before, after = (_touches(*one, blocks) for one in (broken, mended))
    return (before - after).total() / before.total() if before else 0.0


def _touches(kernel: EmulatedKernel, bind: Bind, blocks: Sequence[int]) -> Counter[_Touch]:
    case = bind()
    named = _Named(kernel.named_memory(case.launch))
    watch = watched(case, kernel, blocks)
    found: Counter[_Touch] = Counter()
    known: dict[Event, _Touch] = {}
    for block, lines in watch.events.items():
        for events in lines.values():
            for event in events:
                if event not in known:
                    warp, space, kind, active, size, addresses = event
                    touched = touched_by(active, addresses).tolist()
                    known[event] = (
                        0,
                        warp,
                        space,
                        kind in STORES,
                        size,
                        tuple(named.of(space, one) for one in touched),
                    )
                found[(block, *known[event][1:])] += 1
    return found


class _Named:
    """Addresses as an array's name and the distance from its beginning."""

    def __init__(self, extents: Sequence[Extent]) -> None:
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
