"""What is stored in shared memory and stored again before anybody reads it: the first store was for nothing.

A whole row that is cleared before most of it is filled is right, and hides that whoever fills it should clear the rest.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

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
_Run: TypeAlias = tuple[BoundCase, EmulatedKernel]


@dataclass(slots=True)
class _Waiting:
    """Which bytes of shared memory hold what nobody has read yet."""

    waiting: dict[int, NDArray[np.bool_]] = field(default_factory=dict)  # by block
    lost: int = 0
    count: int = 0

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        if space != MemorySpace.SHARED or where[0] >= _BLOCKS or self.count >= _MOST:
            return
        self.count += 1
        held = self.waiting.setdefault(where[0], np.zeros(_WINDOW, np.bool_))
        places = np.add.outer(touched_by(active, addresses), np.arange(size, dtype=np.uint64))
        places = places[places < _WINDOW]
        stored = kind in (AccessKind.STORE, AccessKind.ASYNC_STORE)
        self.lost += int(held[places].sum()) if stored else 0
        held[places] = stored


def overwritten(case: BoundCase, kernel: EmulatedKernel) -> int:
    """How many bytes of shared memory are stored and stored again, and not read in between.

    Args:
        case: that it runs, with fresh arrays.
    """
    seen = _Waiting()
    options = replace(kernel.options, threads=1, checks=(), check_table=(), observer=seen)
    with contextlib.suppress(WmmadiagError):
        EmulatedKernel(kernel.kernel, options).launch(case.launch)
    return seen.lost


def more_overwritten(before: _Run, after: _Run) -> int:
    """By how many bytes there is more of that with a change; 0 where it is about as much.

    Args:
        before: a case with fresh arrays, and the kernel as it stands; after: the same of the changed one.
    """
    old, new = overwritten(*before), overwritten(*after)
    return new - old if new > _MORE * old + _BULK else 0
