"""Stores to shared memory and the reads of what they stored, before and after a change.

What is stored again before anybody reads it was stored for nothing: a whole row that is cleared before most of it is
filled is right, and hides that whoever fills it should clear the rest. What is read again that was stored for an
earlier read is older than it was meant to be: it may do no harm, and hides that something else should stand there.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.diagnose.watched import touched_by
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.observer import AccessKind, MemorySpace
from wmmadiag.errors import WmmadiagError
from wmmadiag.subject.binding import BoundCase

_MOST = 100_000
"""Accesses to shared memory that are listened to: a longer run is judged by its beginning."""
_BLOCKS = 4
"""Blocks that are listened to."""
_WINDOW = 1 << 18
"""Bytes of a block's shared memory, at most."""
_BULK, _MORE = 256, 1.05
"""So many bytes, and so many times as many as before, are more than what another row or column brings along."""
_ODD = 32
"""Bytes that are read longer than they were stored for, from which on they are more than a number or two."""


@dataclass(slots=True)
class _SharedBytes:
    """What is known of each byte of a block's shared memory."""

    waiting: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(_WINDOW, np.bool_))  # stored, and not read yet
    # reads: accesses that read it since it was stored last; most: the most of these of one store; total: of all
    reads: NDArray[np.int32] = field(default_factory=lambda: np.zeros(_WINDOW, np.int32))
    most: NDArray[np.int32] = field(default_factory=lambda: np.zeros(_WINDOW, np.int32))
    total: NDArray[np.int32] = field(default_factory=lambda: np.zeros(_WINDOW, np.int32))


@dataclass(slots=True)
class SharedUse:
    """An observer of one launch: what becomes of what is stored in shared memory."""

    blocks: dict[int, _SharedBytes] = field(default_factory=lambda: defaultdict(_SharedBytes))
    lost: int = 0  # bytes that are stored and stored again, and not read in between
    count: int = 0

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        if space != MemorySpace.SHARED or where[0] >= _BLOCKS or self.count >= _MOST:
            return
        self.count += 1
        held = self.blocks[where[0]]
        places = np.add.outer(touched_by(active, addresses), np.arange(size, dtype=np.uint64))
        places = places[places < _WINDOW]
        stored = kind in (AccessKind.STORE, AccessKind.ASYNC_STORE)
        if stored:
            self.lost += int(held.waiting[places].sum())
            held.reads[places] = 0
        else:
            held.reads[places] += 1
            held.total[places] += 1
            held.most[places] = np.maximum(held.most[places], held.reads[places])
        held.waiting[places] = stored


def shared_use(case: BoundCase, kernel: EmulatedKernel) -> SharedUse:
    """What becomes of what a launch stores in shared memory.

    Args:
        case: that it runs, with fresh arrays.
    """
    seen = SharedUse()
    with contextlib.suppress(WmmadiagError):
        kernel.observed(case.launch, seen)
    return seen


def more_overwritten(before: SharedUse, after: SharedUse) -> int:
    """By how many bytes more is stored for nothing with a change; 0 where it is about as much."""
    return after.lost - before.lost if after.lost > _MORE * before.lost + _BULK else 0


def read_longer(before: SharedUse, after: SharedUse) -> int:
    """How many bytes are read more often for each store with a change, and in all no more often than before; 0 where
    these are few."""
    found = 0
    for block, new in after.blocks.items():
        old = before.blocks.get(block)
        if old is not None:
            found += int(((new.most > old.most) & (old.most > 0) & (new.total <= old.total)).sum())
    return found if found >= _ODD else 0
