"""Blocks that store nothing once a change is made, because others do their work: that hides how they share it.

Where one block computes everything, nothing that blocks tell each other can be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.watched import SPACES, STORES, Event, Watch, all_bytes
from wmmadiag.emulator.observer import AccessKind

_GLOBAL = SPACES.index("global")
_ARRAY = np.uint64(40)
"""Bits of a place, see `Watch.placed`, below the array's number."""
_MOST_OF_IT = 0.5
"""Share of what only idle blocks read, that others read now."""


def idle_blocks(before: Watch, after: Watch) -> int:
    """How many blocks store to no array any more, where others read most of what only they read before; 0 for none.

    Arrays that the kernel stores to tell nothing: blocks that do not share their work need not tell each other of it.
    """
    stored = _bytes(before, _stores)
    idle = stored.keys() - _bytes(after, _stores).keys()
    if not idle:
        return 0
    old, new = _bytes(before, _reads), _bytes(after, _reads)
    kept = _together(read for block, read in old.items() if block not in idle)
    lost = np.setdiff1d(_together(old[block] for block in idle & old.keys()), kept, assume_unique=True)
    lost = lost[~np.isin(lost >> _ARRAY, _together(stored.values()) >> _ARRAY)]
    others = _together(read for block, read in new.items() if block not in idle)
    taken = np.intersect1d(lost, others, assume_unique=True)
    return len(idle) if len(lost) and len(taken) >= _MOST_OF_IT * len(lost) else 0


def _bytes(watch: Watch, chosen: Callable[[Event], bool]) -> dict[int, NDArray[np.uint64]]:
    """The bytes of global memory that some accesses of each block touch; without blocks that touch none so."""
    events = {
        block: [one for some in lines.values() for one in some if one[1] == _GLOBAL and chosen(one)]
        for block, lines in watch.events.items()
    }
    return {block: np.unique(watch.placed(all_bytes(some))) for block, some in events.items() if some}


def _stores(event: Event) -> bool:
    return event[2] in STORES


def _reads(event: Event) -> bool:
    return event[2] not in STORES - {AccessKind.ATOMIC}


def _together(some: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    return np.unique(np.concatenate([np.empty(0, np.uint64), *some]))
