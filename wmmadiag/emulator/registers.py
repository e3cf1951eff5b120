"""Slots in the warp's register file: virtual registers that are never alive together share one.

Kernels have thousands of virtual registers of 128 bytes each; sharing keeps the file of a warp in the L1 cache.
Liveness is per lane, as the engine writes active lanes only, so divergence does not matter to it.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

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
    values: list[Value] = []

    def bit(value: Value) -> int:
        if value not in number:
            number[value] = len(values)
            values.append(value)
        return 1 << number[value]

    use: dict[int, int] = {}
    define: dict[int, int] = {}
    for block in order:
        used = defined = 0
        for node in blocks[block].nodes:
            for value in node.read():
                if value.constant is None:
                    used |= bit(value) & ~defined
            for value in node.written():
                defined |= bit(value)
        use[block], define[block] = used, defined
    live_in, live_out = _liveness(blocks, order, use, define)

    first: list[int] = [1 << 60] * len(values)
    last: list[int] = [-1] * len(values)

    def touch(value_number: int, position: int) -> None:
        first[value_number] = min(first[value_number], position)
        last[value_number] = max(last[value_number], position)

    ends = {block: positions[order[i + 1]] if i + 1 < len(order) else len(nodes) for i, block in enumerate(order)}
    for block in order:
        for alive, position in ((live_in[block], 2 * positions[block]), (live_out[block], 2 * ends[block])):
            while alive:
                low = alive & -alive
                touch(low.bit_length() - 1, position)
                alive ^= low
    for position, node in enumerate(nodes):
        for value in node.read():
            if value.constant is None:
                touch(number[value], 2 * position)
        written = 2 * position + 1 if node.together else 2 * position
        for value in node.written():
            touch(number[value], written)
            touch(number[value], 2 * position + 1)
    # What is alive at the entry was never written: it keeps the poison, so it shares with nobody before it.
    for value in values:
        if value.preset is not None or (order and live_in[order[0]] >> number[value] & 1):
            first[number[value]] = -1
        if value.preset is not None:
            last[number[value]] = 2 * len(nodes)
    return {value: (first[i], last[i]) for i, value in enumerate(values)}


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
