"""Basic blocks, and the order in which the engine's thread frontiers need them.

The engine always runs the lanes with the smallest position. In an order where every block comes before those that
follow it, and every loop's blocks stay together, that is the group furthest behind, so diverged lanes meet as early as
they can: after an if at its join, after a loop at its exit. The order is a weak topological order (Bourdoncle 1993).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmmadiag.emulator.decoded import Decoded
from wmmadiag.place import Place
from wmmadiag.ptx.components import components

ENDS = frozenset({"exit", "trap"})
"""Operations after which, unguarded, nothing follows."""


@dataclass(slots=True)
class Block:
    """A basic block: `successors` are block indices, fall-through last."""

    start: int
    nodes: list[Decoded]
    successors: tuple[int, ...] = ()


def split_blocks(nodes: Sequence[Decoded], labels: dict[str, int]) -> list[Block]:
    """Blocks of a node list; `labels` maps each label to the index of the node it stands before.

    The list must not fall off its end.
    """
    leaders = {0, *labels.values()}
    for index, node in enumerate(nodes):
        if node.target is not None or node.targets or (node.op in ENDS and node.guard is None):
            leaders.add(index + 1)
    starts = sorted(leader for leader in leaders if leader < len(nodes))
    at = {start: number for number, start in enumerate(starts)}
    blocks = []
    for number, start in enumerate(starts):
        end = starts[number + 1] if number + 1 < len(starts) else len(nodes)
        body = list(nodes[start:end])
        last = body[-1]
        targets = [at[labels[name]] for name in ([last.target] if last.target else last.targets)]
        ends = last.guard is None and (last.op in ENDS or bool(targets))
        following = [] if ends or end >= len(nodes) else [at[end]]
        blocks.append(
            Block(start, body, tuple(dict.fromkeys(t for t in targets if t not in following)) + tuple(following))
        )
    return blocks


def frontier_order(blocks: Sequence[Block]) -> list[int]:
    """Block numbers in weak topological order, ties by original position; unreachable blocks are left out."""
    reachable: set[int] = set()
    stack = [0]
    while stack:
        block = stack.pop()
        if block not in reachable:
            reachable.add(block)
            stack.extend(blocks[block].successors)
    return _order(sorted(reachable), {b: [s for s in blocks[b].successors if s in reachable] for b in reachable}, 0)


def _order(members: list[int], edges: dict[int, list[int]], entry: int) -> list[int]:
    """Topological order of the strongly connected components, each with its own order inside."""
    result: list[int] = []
    for component in _components(members, edges, entry):
        if len(component) == 1:
            result += component
            continue
        inside = set(component)
        outside_targets = {s for b in members if b not in inside for s in edges[b] if s in inside}
        heads = outside_targets or ({entry} & inside) or {min(component)}
        head = min(heads)
        rest = {b: [s for s in edges[b] if s in inside and s != head] for b in component}
        result += _order(sorted(component), rest, head)
    return result


def _components(members: list[int], edges: dict[int, list[int]], entry: int) -> list[list[int]]:
    """Strongly connected components in topological order, ties by smallest block number."""
    component_of = components({block: edges[block] for block in members})
    groups: dict[int, list[int]] = {}
    for block in members:
        groups.setdefault(component_of[block], []).append(block)
    waiting = dict.fromkeys(groups, 0)
    targets: dict[int, set[int]] = {c: set() for c in groups}
    for block in members:
        for successor in edges[block]:
            a, b = component_of[block], component_of[successor]
            if a != b and b not in targets[a]:
                targets[a].add(b)
                waiting[b] += 1
    ready = [c for c, n in waiting.items() if n == 0]
    result = []
    while ready:
        # The original position is the compiler's idea of a good order; the entry always comes first.
        ready.sort(key=lambda c: (entry not in groups[c], groups[c][0]), reverse=True)
        component = ready.pop()
        result.append(groups[component])
        for target in targets[component]:
            waiting[target] -= 1
            if waiting[target] == 0:
                ready.append(target)
    return result


def linearise(blocks: Sequence[Block], order: Sequence[int]) -> tuple[list[Decoded], dict[int, int]]:
    """Nodes in that order, with branches where a fall-through no longer follows; block number → first position.

    A branch that was added goes to label "block:N"; `positions` resolves both kinds.
    """
    nodes: list[Decoded] = []
    positions: dict[int, int] = {}
    for place_in_order, number in enumerate(order):
        block = blocks[number]
        positions[number] = len(nodes)
        nodes += block.nodes
        last = block.nodes[-1]
        falls_through = last.guard is not None or not (last.op in ENDS or last.target or last.targets)
        following = order[place_in_order + 1] if place_in_order + 1 < len(order) else None
        if falls_through and block.successors and block.successors[-1] != following:
            nodes.append(jump(f"block:{block.successors[-1]}", last.place, last.ptx_line))
    if nodes[-1].op not in ENDS:  # a program that goes round for ever; the engine wants an end all the same
        nodes.append(Decoded("exit", nodes[-1].place, nodes[-1].ptx_line, text="exit"))
    return nodes, positions


def jump(target: str, place: Place, ptx_line: int) -> Decoded:
    """An unconditional branch."""
    return Decoded("bra", place, ptx_line, target=target, text="bra")
