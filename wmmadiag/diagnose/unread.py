"""Work that a kernel does for nothing: what a warp leaves in shared memory, and no thread of its block reads.

A kernel that is right with a change and still throws a warp's results away was meant otherwise: what should have been
read is likelier to be the mistake than what the change is about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from wmmadiag.diagnose.watched import SPACES, STORES, Event, Line, all_bytes, blocks_of, watched
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.observer import AccessKind
from wmmadiag.place import Place
from wmmadiag.subject.binding import BoundCase

_Events: TypeAlias = dict[Line, list[Event]]
_SHARED, _GENERIC = SPACES.index("shared"), SPACES.index("generic")


@dataclass(frozen=True, slots=True)
class Unread:
    """A line where a warp stores what nobody reads, in any block of any case."""

    place: Place
    warp: int

    def sentence(self) -> str:
        """What is seen, in one sentence."""
        return f"{self.place}: what warp {self.warp} stores there no thread reads, with the change as without it"


def unread(cases: Iterable[tuple[EmulatedKernel, BoundCase]]) -> Unread | None:
    """The first such line of a source; None where there is none in all of some cases, or reads are not all seen.

    Args:
        cases: what runs, and with what, arrays fresh; a template's cases may run an instantiation each.
    """
    left: dict[tuple[Line, int], Place] | None = None
    for kernel, case in cases:
        watch = watched(case, kernel, blocks_of(case.launch))
        read: set[tuple[Line, int]] = set()
        stored: dict[tuple[Line, int], Place] = {}
        for events in watch.events.values():
            one = _of_block(events)
            if one is None or watch.cut:
                return None
            stored |= {key: watch.places[key[0]] for key in one}
            read |= {key for key, alive in one.items() if alive}
        known = stored if left is None else {**stored, **left}
        left = {key: place for key, place in known.items() if key not in read and (left is None or key in left)}
        if not left:
            return None
    return min((Unread(place, key[1]) for key, place in (left or {}).items()), key=_first, default=None)


def _first(one: Unread) -> tuple[str, int, int]:
    return one.place.file, one.place.line, one.warp


def _of_block(events: _Events) -> dict[tuple[Line, int], bool] | None:
    """Line and warp of each store to shared memory: whether anything of it is read; None where that is not known."""
    every = [one for some in events.values() for one in some]
    if any(one[1] == _GENERIC for one in every):
        return None
    reads = [one for one in every if one[1] == _SHARED and one[2] not in STORES - {AccessKind.ATOMIC}]
    loaded = np.unique(all_bytes(reads))
    found: dict[tuple[Line, int], bool] = {}
    for line, some in events.items():
        for one in some:
            if one[1] == _SHARED and one[2] in STORES:
                key = line, one[0]
                found[key] = found.get(key, False) or bool(np.isin(all_bytes([one]), loaded).any())
    return found
