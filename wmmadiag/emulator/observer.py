"""What a run shows to whoever listens: memory accesses, barriers, tensor-core operations, and every instruction.

The engine calls the methods that an observer has and skips those it lacks, so an observer defines what it wants:

    class Stores:
        def on_memory(self, where, space, kind, active, size, addresses):
            event = memory_event(where, space, kind, active, size, addresses)
            ...

    load(ptx, options=EmulatorOptions(observer=Stores()))

With an observer, blocks run in order on one thread. An exception that a method raises ends the run and comes out of
`launch`. A method gets raw integers and bytes, so that one that only counts pays for nothing else; the functions here
decode them. A place's program counter is a position in `LoweredKernel.nodes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.decoded import Value
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.registers import LANES

Where = tuple[int, int, int]
"""(linear index of the block in the grid, warp in the block, program counter)."""


class Observer(Protocol):
    """The methods that an observer may have; each is optional."""

    def on_memory(self, where: Where, space: int, kind: int, active: int, size: int, addresses: bytes) -> None:
        """Lanes of a warp are about to touch memory; decode with `memory_event`.

        `addresses`: 32 uint64, those of inactive lanes undefined. Comes before bounds are checked: the last event
        before a fault is the access that faulted. A fragment load or store is one event whose "lanes" are the
        fragment's lines.
        """
        ...

    def on_barrier(self, where: Where, kind: int, barrier: int, active: int) -> None:
        """Lanes arrived at a barrier, or it let its waiters go; decode with `barrier_event`."""
        ...

    def on_tensor(self, where: Where, a: bytes, b: bytes, c: bytes, d: bytes, column_order: Sequence[int]) -> None:
        """A multiplication was executed; decode with `tensor_event`."""
        ...

    def on_instruction(self, where: Where, active: int, registers: bytes) -> None:
        """An instruction was executed by the `active` lanes; `registers` is the warp's register file after it.

        Decode registers with `register_values`. Lower with `share_registers=False` to tell all of them apart.
        """
        ...


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


class BarrierKind(IntEnum):
    """`BarrierKind` in observer.hpp. RELEASE: the barrier of the block let its waiters go; WARP: bar.warp.sync."""

    ARRIVE = 0
    WAIT = 1
    RELEASE = 2
    WARP = 3


class EventPlace(NamedTuple):
    """Where an event happened: linear block index, warp in the block, position in `LoweredKernel.nodes`."""

    block: int
    warp: int
    pc: int


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One access by a warp."""

    where: EventPlace
    space: MemorySpace
    kind: AccessKind
    lanes: NDArray[np.int64]  # the active lanes, ascending, int64 (n,). For a fragment load or store: its lines.
    addresses: NDArray[np.uint64]  # of those lanes, uint64 (n,): device addresses, or offsets in shared or local memory
    size: int  # bytes that each lane touches


@dataclass(frozen=True, slots=True)
class BarrierEvent:
    """Arrival at a barrier, or its release (whose warp and pc say nothing). `lanes`: the active lanes, int64 (n,)."""

    where: EventPlace
    kind: BarrierKind
    barrier: int
    lanes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TensorEvent:
    """One multiplication, of `tiles` independent matrices.

    Operands are the raw bits, unsigned integers as wide as an element; narrower ones than a byte stay packed, as bytes.
    """

    where: EventPlace
    a: NDArray[Any]  # (tiles, m, k), rows of A
    b: NDArray[Any]  # (tiles, n, k), columns of B, in their natural order
    # c, d: (tiles, m, n)
    c: NDArray[Any]
    d: NDArray[Any]


def lanes_of(mask: int) -> NDArray[np.int64]:
    """The lanes of a mask, ascending, int64 (n,)."""
    return np.flatnonzero(np.unpackbits(np.array([mask], "<u4").view(np.uint8), bitorder="little"))


def memory_event(where: Where, space: int, kind: int, active: int, size: int, addresses: bytes) -> MemoryEvent:
    """Decode what `on_memory` gets."""
    lanes = lanes_of(active)
    return MemoryEvent(
        EventPlace(*where),
        MemorySpace(space),
        AccessKind(kind),
        lanes,
        np.frombuffer(addresses, "<u8")[lanes],
        size,
    )


def barrier_event(where: Where, kind: int, barrier: int, active: int) -> BarrierEvent:
    """Decode what `on_barrier` gets."""
    return BarrierEvent(EventPlace(*where), BarrierKind(kind), barrier, lanes_of(active))


def tensor_event(
    kernel: LoweredKernel, where: Where, a: bytes, b: bytes, c: bytes, d: bytes, column_order: Sequence[int]
) -> TensorEvent:
    """Decode what `on_tensor` gets.

    Raises:
        ValueError: the place is no multiplication of this kernel.
    """
    spec = kernel.nodes[where[2]].tensor
    rule: Any = spec.rule if spec is not None else None
    if spec is None or rule is None:
        raise ValueError(f"operation {where[2]} is no multiplication")

    def matrix(data: bytes, lines: int, width: int) -> NDArray[Any]:
        size = len(data) // (spec.tiles * lines * width)
        flat = np.frombuffer(data, f"<u{size}") if size else np.frombuffer(data, np.uint8)
        return flat.reshape(spec.tiles, lines, -1)

    natural = list(column_order) or slice(None)
    return TensorEvent(
        EventPlace(*where),
        matrix(a, rule.m, rule.k),
        matrix(b, rule.n, rule.k)[:, natural],
        matrix(c, rule.m, rule.n)[:, :, natural],
        matrix(d, rule.m, rule.n)[:, :, natural],
    )


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
