"""The instructions and memory accesses of the block that stored some bytes last, as an observer of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_SPACES = ("generic", "global", "shared", "local")
STORES = (1, 2, 4)
"""Kinds of access that write: store, atomic, async_store (`AccessKind` in observer.hpp)."""


@dataclass(slots=True)
class WatchedAccess:
    """One memory event: per lane (or line of a fragment) an address."""

    space: str
    kind: int
    active: int
    size: int
    addresses: Any


@dataclass(slots=True)
class WatchedStep:
    """One instruction of a warp: where, its active lanes, and what memory it touched."""

    warp: int
    pc: int
    active: int
    accesses: list[WatchedAccess]


class BlockRecorder:
    """Keeps the instructions of the last block that stored the watched bytes."""

    def __init__(self, address: int) -> None:
        self._address = address
        self._block = -1
        self._steps: list[WatchedStep] = []
        self._pending: list[WatchedAccess] = []
        self._hit = False
        self.found: list[WatchedStep] | None = None
        self.blocks = 0

    def close(self) -> None:
        """The current block has ended."""
        if self._hit:
            self.found = self._steps
            self.blocks += 1
        self._steps, self._hit = [], False

    def on_memory(self, where: Any, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        access = WatchedAccess(_SPACES[space], kind, active, size, np.frombuffer(addresses, "<u8"))
        if kind == 4:  # lands at a later instruction than the one that it belongs to
            self._turn(where[0])
            self._steps.append(WatchedStep(where[1], where[2], active, [access]))
            return
        self._pending.append(access)
        if space == 1 and kind in STORES:
            near = (access.addresses <= self._address) & (self._address < access.addresses + np.uint64(size))
            if any(near[lane] and active >> lane & 1 for lane in range(32)):
                self._turn(where[0])
                self._hit = True

    def on_instruction(self, where: Any, active: int, _registers: bytes) -> None:
        """See `wmmadiag.emulator.observer`."""
        self._turn(where[0])
        self._steps.append(WatchedStep(where[1], where[2], active, self._pending))
        self._pending = []

    def _turn(self, block: int) -> None:
        if block != self._block:
            self.close()
            self._block = block
