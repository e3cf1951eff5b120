"""Slots in the warp's register file: virtual registers that are never alive together share one.

Kernels have thousands of virtual registers of 128 bytes each; sharing keeps the file of a warp in the L1 cache.
Liveness is per lane, as the engine writes active lanes only, so divergence does not matter to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

import numpy as np

from wmmadiag.emulator.control_flow import Block
from wmmadiag.emulator.decoded import Decoded, Value

LANES = 32
MASK_BYTES = 4
_LINE = 64


def slot_bytes(value: Value) -> int:
    """Bytes of the slot that holds a value of all lanes."""
    return value.bytes * LANES if value.bytes else MASK_BYTES


def allocate(
    blocks: Sequence[Block],
    order: Sequence[int],
    nodes: Sequence[Decoded],
    positions: dict[int, int],
    *,
    share: bool = True,
) -> tuple[dict[Value, int], int]:
    """Slot of each virtual register, and the size of the register file in bytes.

    Args:
        blocks, order: the control-flow graph.
        nodes, positions: its linear form (`control_flow.linearise`).
        share: False gives each register a slot of its own, for debuggers.
    """
    intervals = _intervals(blocks, order, nodes, positions)
    slots: dict[Value, int] = {}
    free: dict[int, list[int]] = {}
    busy: list[tuple[int, int, int]] = []  # (end, slot, bytes)
    # Masks first, tightly; then everything else on cache lines.
    masks = sum(slot_bytes(value) for value in intervals if value.bytes == 0)
    next_mask, next_slot = 0, -(-masks // _LINE) * _LINE
    for value, (start, end) in sorted(intervals.items(), key=lambda item: item[1]):
        size = slot_bytes(value)
        if value.bytes == 0:
            slots[value], next_mask = next_mask, next_mask + size
            continue
        while busy and busy[0][0] < start:
            _, slot, freed = heapq.heappop(busy)
            heapq.heappush(free.setdefault(freed, []), slot)
        if share and free.get(size):
            slot = heapq.heappop(free[size])
        else:
            slot, next_slot = next_slot, next_slot + size
        slots[value] = slot
        heapq.heappush(busy, (end, slot, size))
    return slots, next_slot


def _intervals(
    blocks: Sequence[Block], order: Sequence[int], nodes: Sequence[Decoded], positions: dict[int, int]
) -> dict[Value, tuple[int, int]]:
    """First and last position of each virtual register, in half instructions: 2 i reads, 2 i + 1 writes."""
    number: dict[Value, int] = {}
    first: list[int] = []
    last: list[int] = []
    exposed: dict[int, set[int]] = {}  # what a block reads before it writes it
    defined: dict[int, set[int]] = {}
    for block in order:
        reads, writes = exposed.setdefault(block, set()), defined.setdefault(block, set())
        for index, node in enumerate(blocks[block].nodes, positions[block]):
            for value in node.read():
                if value.constant is not None:
                    continue
                known = number.get(value)
                if known is None:
                    known = number[value] = len(first)
                    first.append(2 * index)
                    last.append(2 * index)
                else:
                    last[known] = 2 * index
                if known not in writes:
                    reads.add(known)
            for value in node.written():
                known = number.get(value)
                if known is None:
                    known = number[value] = len(first)
                    first.append(2 * index + 1 if node.together else 2 * index)
                    last.append(2 * index + 1)
                else:
                    last[known] = 2 * index + 1
                writes.add(known)
    at_entry = _stretch(blocks, order, nodes, positions, exposed, defined, first, last)
    # What is alive at the entry was never written: it keeps the poison, so it shares with nobody before it.
    for value, known in number.items():
        if value.preset is not None or known in at_entry:
            first[known] = -1
        if value.preset is not None:
            last[known] = 2 * len(nodes)
    return {value: (first[known], last[known]) for value, known in number.items()}


def _stretch(
    blocks: Sequence[Block],
    order: Sequence[int],
    nodes: Sequence[Decoded],
    positions: dict[int, int],
    exposed: dict[int, set[int]],
    defined: dict[int, set[int]],
    first: list[int],
    last: list[int],
) -> set[int]:
    """Widen `first` and `last` over the blocks that a register is alive across; returns what is alive at the entry.

    Only registers that some block reads without having written them are alive across blocks: of a kernel's thousands
    these are few, and the sets that travel along the edges are of those alone.
    """
    across = sorted(set().union(*exposed.values()))
    bit = {known: index for index, known in enumerate(across)}
    use = {block: _mask(map(bit.__getitem__, exposed[block]), len(across)) for block in order}
    define = {block: _mask((bit[one] for one in defined[block] if one in bit), len(across)) for block in order}
    live_in, live_out = _liveness(blocks, order, use, define)
    ends = [*(positions[block] for block in order[1:]), len(nodes)]
    points: list[tuple[int, int]] = []  # in the order of the program
    for block, end in zip(order, ends, strict=True):
        points += [(live_in[block], 2 * positions[block]), (live_out[block], 2 * end)]
    seen = 0
    for alive, position in points:
        for index in _bits(alive & ~seen):
            first[across[index]] = min(first[across[index]], position)
        seen |= alive
    seen = 0
    for alive, position in reversed(points):
        for index in _bits(alive & ~seen):
            last[across[index]] = max(last[across[index]], position)
        seen |= alive
    return {across[index] for index in _bits(live_in[order[0]])} if order else set()


def _mask(indices: Iterable[int], size: int) -> int:
    data = bytearray(size // 8 + 1)
    for index in indices:
        data[index >> 3] |= 1 << (index & 7)
    return int.from_bytes(data, "little")


def _bits(mask: int) -> list[int]:
    """The positions of the ones of a mask."""
    if not mask:
        return []
    data = np.frombuffer(mask.to_bytes(mask.bit_length() // 8 + 1, "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist()
    return found


def _liveness(
    blocks: Sequence[Block], order: Sequence[int], use: dict[int, int], define: dict[int, int]
) -> tuple[dict[int, int], dict[int, int]]:
    live_in = dict.fromkeys(order, 0)
    live_out = dict.fromkeys(order, 0)
    changed = True
    while changed:
        changed = False
        for block in reversed(order):
            out = 0
            for successor in blocks[block].successors:
                out |= live_in[successor]
            into = use[block] | (out & ~define[block])
            if out != live_out[block] or into != live_in[block]:
                live_out[block], live_in[block], changed = out, into, True
    return live_in, live_out
