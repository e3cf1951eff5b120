"""The order of blocks, its linear form, and register slots: properties on random graphs and programs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from wmmadiag.emulator.control_flow import Block, frontier_order, linearise, split_blocks
from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.emulator.registers import allocate, slot_bytes
from wmmadiag.place import Place

HERE = Place("x", 1)


def op(name: str, **fields) -> Decoded:
    return Decoded(name, HERE, 1, **fields)


@st.composite
def node_lists(draw, values: int = 0):
    """Nodes with labels, as selection leaves them: some operations, then an exit. With registers if `values`."""
    registers = [Value(draw(st.sampled_from([0, 2, 4, 4, 8, 16]))) for _ in range(values)]
    count = draw(st.integers(1, 30))
    labels = {f"L{i}": draw(st.integers(0, count)) for i in range(draw(st.integers(1, 6)))}
    name = st.sampled_from(sorted(labels))
    pick = st.sampled_from(registers) if registers else st.none()
    nodes = []
    for _ in range(count):
        kind = draw(st.integers(0, 9))
        guard = draw(pick) if values and draw(st.booleans()) else None
        if guard is None and not values and draw(st.booleans()):
            guard = Value(0)
        if kind == 0:
            nodes.append(op("bra", target=draw(name), guard=guard))
        elif kind == 1:
            nodes.append(op("bra", target=draw(name), guard=guard or Value(0)))
        elif kind == 2:
            nodes.append(
                op(
                    "brx.idx",
                    targets=tuple(draw(st.lists(name, min_size=1, max_size=4))),
                    guard=guard,
                    s=(draw(pick),) if values else (),
                )
            )
        elif kind == 3:
            nodes.append(op("exit", guard=guard))
        else:
            sources = tuple(draw(pick) for _ in range(draw(st.integers(0, 2)))) if values else ()
            together = draw(st.booleans())
            second = draw(pick) if values and not together and draw(st.booleans()) else None
            nodes.append(op("work", guard=guard, d=draw(pick), d2=second, s=sources, together=together))
    return [*nodes, op("exit")], labels, registers


def reachable(blocks: list[Block]) -> set[int]:
    seen, stack = set(), [0]
    while stack:
        block = stack.pop()
        if block not in seen:
            seen.add(block)
            stack += blocks[block].successors
    return seen


def loops(blocks: list[Block], inside: set[int]) -> list[set[int]]:
    """Strongly connected components of more than one block, by brute force."""

    def from_(start: int) -> set[int]:
        seen, stack = set(), [s for s in blocks[start].successors if s in inside]
        while stack:
            block = stack.pop()
            if block not in seen:
                seen.add(block)
                stack += [s for s in blocks[block].successors if s in inside]
        return seen

    reach = {block: from_(block) for block in inside}
    return [
        component
        for component in ({b for b in inside if b in reach[a] and a in reach[b]} for a in inside)
        if len(component) > 1
    ]


@settings(max_examples=300, deadline=None)
@given(node_lists())
def test_the_order(program):
    nodes, labels, _ = program
    blocks = split_blocks(nodes, labels)
    order = frontier_order(blocks)
    assert sorted(order) == sorted(reachable(blocks)) and order[0] == 0
    position = {block: i for i, block in enumerate(order)}
    components = loops(blocks, set(order))
    for component in components:
        places = [position[block] for block in component]
        assert max(places) - min(places) == len(places) - 1  # a loop's blocks stay together
    for block in order:
        for successor in blocks[block].successors:
            if not any({block, successor} <= component for component in components):
                assert position[block] < position[successor] or block == successor


@settings(max_examples=300, deadline=None)
@given(node_lists(), st.lists(st.integers(0, 99), min_size=40, max_size=40))
def test_the_linear_form_walks_like_the_original(program, choices):
    nodes, labels, _ = program
    blocks = split_blocks(nodes, labels)
    linear, positions = linearise(blocks, frontier_order(blocks))
    at_label = {block.start: number for number, block in enumerate(blocks)}

    def resolve(label: str) -> int:
        return positions[int(label[6:])] if label.startswith("block:") else positions[at_label[labels[label]]]

    original = walk(nodes, lambda label: labels[label], choices, set())
    added = {id(node) for node in linear} - {id(node) for node in nodes}
    assert walk(linear, resolve, choices, added) == original


def walk(nodes: list[Decoded], target, choices: list[int], added: set[int]) -> list[int]:
    """The nodes that a thread passes; a choice decides each guard and each switch."""
    passed, at, left = [], 0, list(choices)
    while left:
        node = nodes[at]
        if id(node) in added and node.op == "bra":
            at = target(node.target)
            continue
        passed.append(id(node))
        choice = left.pop()
        taken = node.guard is None or choice % 2 == 0
        if taken and node.op == "exit":
            break
        if taken and node.target is not None:
            at = target(node.target)
        elif taken and node.targets:
            at = target(node.targets[choice // 2 % len(node.targets)])
        else:
            at += 1
    return passed


@settings(max_examples=300, deadline=None)
@given(node_lists(values=6))
def test_registers_that_are_alive_together_share_no_slot(program):  # noqa: C901 - brute force
    """Brute force: at each node, what may still be read keeps its bytes when the node writes."""
    nodes, labels, _ = program
    blocks = split_blocks(nodes, labels)
    order = frontier_order(blocks)
    linear, positions = linearise(blocks, order)
    slots, size = allocate(blocks, order, linear, positions)
    at_label = {block.start: number for number, block in enumerate(blocks)}

    def resolve(label: str) -> int:
        return positions[int(label[6:])] if label.startswith("block:") else positions[at_label[labels[label]]]

    following: list[list[int]] = []
    for at, node in enumerate(linear):
        targets = [resolve(name) for name in ([node.target] if node.target else node.targets)]
        if node.guard is not None or not (targets or node.op == "exit"):
            targets.append(at + 1)
        following.append(targets)
    alive_after: list[set[Value]] = [set() for _ in linear]
    alive_before: list[set[Value]] = [set() for _ in linear]
    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(linear))):
            after = set().union(*(alive_before[t] for t in following[at] if t < len(linear)))
            before = set(linear[at].read()) | (after - set(linear[at].written()))
            if after != alive_after[at] or before != alive_before[at]:
                alive_after[at], alive_before[at], changed = after, before, True

    def overlap(a: Value, b: Value) -> bool:
        return a is not b and slots[a] < slots[b] + slot_bytes(b) and slots[b] < slots[a] + slot_bytes(a)

    for at, node in enumerate(linear):
        written = node.written()
        for value in written:
            assert slots[value] + slot_bytes(value) <= size
            for other in alive_after[at] | set(written):
                assert not overlap(value, other)
            if not node.together:  # its sources may be read after it began to write
                for other in node.read():
                    assert not overlap(value, other)
            else:  # the same array, or none of it
                for other in node.read():
                    assert not overlap(value, other) or (slots[value], slot_bytes(value)) == (
                        slots[other],
                        slot_bytes(other),
                    )
    separate, larger = allocate(blocks, order, linear, positions, share=False)
    assert larger >= size
    for a in separate:
        for b in separate:
            assert a is b or separate[a] >= separate[b] + slot_bytes(b) or separate[b] >= separate[a] + slot_bytes(a)
