"""Launches that do again what one before them did: the same kernel and arguments, on memory that holds the same bytes.

What a launch does hangs on these alone (the emulator gives the same bits whenever it runs), so it need not run again:
what it changed is put there. A launch that printed or died is no such one.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wmmadiag.launch import DeviceMemory

Stretch: TypeAlias = "tuple[int, int, int]"
"""(address, bytes, how) of memory that a launch touched (footprint.py)."""
_TRIES = 3
_SMALL = 1 << 20
"""Bytes of memory that are looked at before each launch without a thought for the time: it takes 0.1 ms."""
_KEPT = 4
"""Effects of launches that are alike: of memory that holds this and that in turn."""
_MOST = 256 << 20
"""Bytes that all effects together keep."""


class Touched(ctypes.Structure):
    """`WmmadiagTouched` of native/memory_watch.cpp."""

    _fields_ = (("address", ctypes.c_uint64), ("view", ctypes.c_uint64), ("bytes", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Effect:
    """What a launch did to memory that held certain bytes."""

    before: Mapping[int, int]  # address → digest, of each allocation that it touched
    # address → digest and state afterwards, of those it changed: bytes, and behind them which are unwritten, if any
    changed: Mapping[int, tuple[int, bytes]]
    instructions: int  # of warps, that it took
    stretches: tuple[Stretch, ...]  # that it touched, where there are several streams

    @property
    def bytes(self) -> int:
        """How many it keeps."""
        return sum(len(image) for _, image in self.changed.values())


@dataclass(slots=True)
class Alike:
    """Launches that are alike in all but what memory holds."""

    count: int = 0  # how many there were
    tries: int = 0  # how often memory was looked at for one that ran all the same
    touched: tuple[int, ...] = ()  # addresses of the allocations that the last one touched
    # address → digest, of each allocation that the last one touched, where it was to do half of what it does
    halved: Mapping[int, int] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)  # the last ones


class Repeats:
    """The effects that are known; `count`: how many launches were answered from them."""

    def __init__(self, runtime: ctypes.CDLL) -> None:
        self.count = 0
        self._runtime = runtime
        self._content: Callable[[ctypes.c_uint64], int] = runtime.wmmadiag_content
        self._kept = 0
        self._holders: deque[Alike] = deque()  # whose effects were noted, the first one first
        self._rows: ctypes.Array[Touched] = (Touched * 256)()
        self._states: dict[int, tuple[int, int]] = {}  # address → where its state lies, and how many bytes that is

    def content(self, address: int) -> int:
        """A digest of what the allocation at an address holds; 0: there is none."""
        return self._content(ctypes.c_uint64(address))

    def of(self, alike: Alike) -> Effect | None:
        """The effect of the launch that comes, put into memory; None: it is not known."""
        for effect in reversed(alike.effects):
            if all(self.content(address) == digest for address, digest in effect.before.items()):
                for address, (digest, image) in effect.changed.items():
                    size = ctypes.c_uint64(len(image))
                    self._runtime.wmmadiag_restore(ctypes.c_uint64(address), image, size, ctypes.c_uint64(digest))
                self.count += 1
                alike.tries = 0
                return effect
        return None

    def before(self, alike: Alike, memory: Sequence[DeviceMemory]) -> Mapping[int, int]:
        """Address → digest of allocations before a launch; of none where looking costs more than it may bring."""
        if alike.count == 0:
            live = [one for one in memory if one.data.size]
            if sum(one.data.size for one in live) > _SMALL:
                return {}
            return {one.address: self.content(one.address) for one in live}
        if alike.tries >= _TRIES and alike.count & (alike.count - 1):
            self._forget(alike, len(alike.effects))  # it does something else each time: no more is looked at for it
            return {}
        alike.tries += 1
        return {address: self.content(address) for address in alike.touched}

    def touched(self) -> tuple[int, ...]:
        """Addresses of the allocations that the last launch touched."""
        table: Callable[..., int] = self._runtime.wmmadiag_watched
        count = table(self._rows, ctypes.c_uint64(len(self._rows)))
        if count > len(self._rows):
            self._rows = (Touched * (2 * count))()
            table(self._rows, ctypes.c_uint64(len(self._rows)))
        self._states |= {row.address: (row.view, row.bytes) for row in self._rows[:count]}
        return tuple(row.address for row in self._rows[:count])

    def note(
        self, alike: Alike, before: Mapping[int, int], touched: tuple[int, ...], instructions: int,
        stretches: tuple[Stretch, ...],
    ) -> None:  # fmt: skip
        """A launch has run.

        Args:
            before: address → digest of what was looked at.
            touched: addresses of what it touched.
        """
        alike.touched = touched
        if not touched or any(address not in before for address in touched):
            return
        after = {address: self.content(address) for address in touched}
        changed = [address for address in touched if after[address] != before[address]]
        self._forget(alike, len(alike.effects) - _KEPT + 1)
        size = sum(self._states[address][1] for address in changed)
        if size > _MOST:
            return
        while self._kept + size > _MOST:
            self._forget(self._holders.popleft(), 1)
        self._kept += size
        self._holders.append(alike)
        images = {address: (after[address], ctypes.string_at(*self._states[address])) for address in changed}
        alike.effects.append(Effect({one: before[one] for one in touched}, images, instructions, stretches))

    def _forget(self, alike: Alike, how_many: int) -> None:
        for _ in range(min(how_many, len(alike.effects))):
            self._kept -= alike.effects.pop(0).bytes
