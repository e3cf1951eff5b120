"""Whether a change moves one end of what meets in shared memory, where the other end is written in several places.

Who stores and who reads need only agree. Where one line alone is at one end and several are at the other, to change
all of these the same way is a change of several places, which is tried by chance alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.csource.tree import Source
from wmmadiag.diagnose.watched import SPACES, STORES, Event, Line, LineShift, all_bytes, both_texts, fresh
from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.observer import AccessKind
from wmmadiag.errors import WmmadiagError
from wmmadiag.place import own_place
from wmmadiag.subject.bench import CaseRun
from wmmadiag.subject.compiling import Texts

_SHARED = SPACES.index("shared")
_SEVERAL = 2

Bytes = NDArray[np.uint64]


@dataclass(slots=True)
class _Ends:
    """Accesses to the first block's shared memory, by line: copies count where they land."""

    kernel: EmulatedKernel
    reads: dict[Line, list[Event]] = field(default_factory=dict)
    stores: dict[Line, list[Event]] = field(default_factory=dict)

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        block, warp, pc = where
        if block or space != _SHARED or kind == AccessKind.ASYNC_LOAD:
            return
        place = own_place(self.kernel.kernel.place(pc))
        held = self.stores if kind in STORES else self.reads
        held.setdefault((place.file, place.line), []).append((warp, space, kind, active, size, addresses))

    def on_barrier(self, where: Any, kind: int, barrier: int, _active: int) -> None:
        """Barriers say nothing of this."""

    def touched(self) -> tuple[Mapping[Line, Bytes], Mapping[Line, Bytes]]:
        """The bytes that each line reads, and those that it stores."""
        reads, stores = (
            {line: np.unique(all_bytes(some)) for line, some in end.items()} for end in (self.reads, self.stores)
        )
        return reads, stores


def other_end_in_several(
    first: CaseRun, mended: CaseRun, sources: Mapping[str, Source], texts: Texts
) -> Sequence[Line]:
    """The lines at the other end of what a change moves, where it moves one line alone and that is alone at its end.

    Args:
        texts: with the change.
    """
    one, two = first.emulated, mended.emulated
    if one is None or two is None or first.bound is None or mended.bound is None:
        return ()
    before, after = _Ends(one), _Ends(two)
    for ends, case in ((before, first.bound), (after, mended.bound)):
        with contextlib.suppress(WmmadiagError):  # what it did before it died is kept
            ends.kernel.observed(fresh(case).launch, ends)
    shift = LineShift(both_texts(sources, texts))
    was, now = before.touched(), after.touched()
    moved = [(end, line) for end in (0, 1) for line in now[end] if _moved(was[end], now[end], line, shift)]
    if len(moved) != 1:
        return ()
    ((end, line),) = moved
    mine = now[end][line]
    beside = [other for other, touched in now[end].items() if other != line and np.isin(touched, mine).any()]
    opposite = [other for other, touched in now[1 - end].items() if np.isin(touched, mine).any()]
    lines = [back for other in opposite if (back := shift.back(other)) is not None]
    return () if beside or len(lines) < _SEVERAL else sorted(lines)


def _moved(was: Mapping[Line, Bytes], now: Mapping[Line, Bytes], line: Line, shift: LineShift) -> bool:
    back = shift.back(line)
    return back is not None and back in was and not np.array_equal(was[back], now[line])
