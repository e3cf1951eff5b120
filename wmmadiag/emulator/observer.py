"""What a run shows to whoever listens: memory accesses, barriers, and every instruction.

An observer (`EmulatorOptions.observer`) has those of these methods that it wants; the engine skips the others:

- `on_memory(where, space, kind, active, size, addresses)`: lanes of a warp are about to touch memory; `addresses` are
  32 uint64, those of inactive lanes undefined. Comes before bounds are checked: the last event before a fault is the
  access that faulted. A fragment load or store is one event whose "lanes" are the fragment's lines.
- `on_barrier(where, kind, barrier, active)`: lanes arrived at a barrier, or it let its waiters go; `BarrierKind` in
  observer.hpp.
- `on_instruction(where, active, registers)`: an instruction was executed by the active lanes; `registers` is the
  warp's register file after it. Lower with `share_registers=False` to tell all registers apart.

With an observer, blocks run in order on one thread. An exception that a method raises ends the run and comes out of
`launch`. A method gets raw integers and bytes, so that one that only counts pays for nothing else; the functions here
decode them. A place's program counter is a position in `LoweredKernel.nodes`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.decoded import Value
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.registers import LANES

WarpPlace = tuple[int, int, int]
"""(linear index of the block in the grid, warp in the block, program counter)."""


class MemorySpace(IntEnum):
    """`Space` in program.hpp. GENERIC: lanes of one access lie in different spaces; addresses are then generic."""

    GENERIC = 0
    GLOBAL = 1
    SHARED = 2
    LOCAL = 3


class AccessKind(IntEnum):
    """`AccessKind` in observer.hpp. ASYNC_LOAD when a cp.async is issued, ASYNC_STORE when its data lands."""

    LOAD = 0
    STORE = 1
    ATOMIC = 2
    ASYNC_LOAD = 3
    ASYNC_STORE = 4


def lanes_of(mask: int) -> NDArray[np.int64]:
    """The lanes of a mask, ascending, int64 (n,)."""
    return np.flatnonzero(np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little"))


def register_values(kernel: LoweredKernel, value: Value, registers: bytes) -> NDArray[Any]:
    """A virtual register of all lanes in a register file: unsigned (32,), bool (32,) for a predicate.

    A 128-bit register is uint64 (32, 2), low half first.

    Raises:
        KeyError: the kernel does not keep this register.
    """
    slot = kernel.slots[value]
    if value.bytes == 0:
        mask = np.frombuffer(registers, np.uint8, 4, slot)
        return np.unpackbits(mask, bitorder="little").astype(bool)
    if value.bytes == 16:
        return np.frombuffer(registers, "<u8", 2 * LANES, slot).reshape(LANES, 2)
    return np.frombuffer(registers, f"<u{value.bytes}", LANES, slot)
