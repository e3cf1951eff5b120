"""Where registers are alive: the same slots as by the definition, whatever the control flow."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.emulator.control_flow import Block, frontier_order, linearise, split_blocks
from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.emulator.registers import allocate
from wmmadiag.place import Place

_NOWHERE = Place("k.ptx", 1)


@st.composite
def programs(draw: st.DrawFn) -> tuple[list[Decoded], dict[str, int]]:
    """Operations on a few registers, with branches to anywhere; guards keep what they do not write."""
    values = [Value(4, name=f"r{index}") for index in range(draw(st.integers(1, 6)))]
    guard = Value(0, name="p")
    pick = st.sampled_from(values)
    size = draw(st.integers(1, 14))
    nodes: list[Decoded] = []
    for _ in range(size):
        sources = tuple(draw(st.lists(pick, max_size=2)))
        guarded = guard if draw(st.booleans()) else None
        kind = draw(st.sampled_from(["lane", "lane", "store", "bra"]))
        if kind == "lane":
            node = Decoded("add.s32", _NOWHERE, 1, d=draw(pick), s=sources, guard=guarded, together=draw(st.booleans()))
        elif kind == "store":
            node = Decoded("st", _NOWHERE, 1, s=sources, guard=guarded)
        else:
            node = Decoded("bra", _NOWHERE, 1, target=f"L{draw(st.integers(0, size))}", guard=guarded)
        nodes.append(node)
    nodes.append(Decoded("exit", _NOWHERE, 1))
    return nodes, {f"L{index}": index for index in range(size + 1)}


def alive_before(nodes: Sequence[Decoded], following: Sequence[Sequence[int]]) -> list[set[Value]]:
    """Registers alive before each node, by the definition: read later with no write between."""
    alive: list[set[Value]] = [set() for _ in nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(nodes) - 1, -1, -1):
            after = set().union(*(alive[one] for one in following[index]))
            now = set(nodes[index].read()) | (after - set(nodes[index].written()))
            if now != alive[index]:
                alive[index], changed = now, True
    return alive


@settings(max_examples=300, deadline=None)
@given(programs())
def test_registers_alive_together_have_slots_of_their_own(program: tuple[list[Decoded], dict[str, int]]) -> None:
    nodes, labels = program
    blocks: list[Block] = split_blocks(nodes, labels)
    order = frontier_order(blocks)
    line, positions = linearise(blocks, order)
    slots, _ = allocate(blocks, order, line, positions)
    starts = {block.start: number for number, block in enumerate(blocks)}
    following: list[list[int]] = []
    for index, node in enumerate(line):
        ends = node.guard is None and node.op in ("exit", "bra")
        after = [] if ends else [index + 1]
        if node.target is not None:
            number = int(node.target[6:]) if node.target.startswith("block:") else starts[labels[node.target]]
            after.append(positions[number])
        following.append(after)
    alive = alive_before(line, following)
    for index, node in enumerate(line):
        wide = [value for value in alive[index] if value.bytes]
        assert len({slots[value] for value in wide}) == len(wide)
        after = set().union(*(alive[one] for one in following[index]))
        for written in node.written():
            assert slots[written] not in {slots[value] for value in after - {written} if value.bytes}
