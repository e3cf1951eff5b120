"""A program's control flow: dominators, loops, and which code all threads of a block (or warp) pass together.

Uniformity is a data-flow analysis (Coutinho et al., "Divergence analysis and optimizations", PACT 2011): thread
indices differ, what is computed from them differs, and so does what is written in code that only some threads reach.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from wmmadiag.emulator.control_flow import ENDS
from wmmadiag.emulator.decoded import SPACES, Decoded, Value
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.ptx.meaning import meaning


class SharedBy(IntEnum):
    """Among which threads a value, or the way to a block, is the same.

    INDEX: the linear thread index, give or take multiples of 32: its upper bits are the same in a warp.
    """

    BLOCK = 0
    WARP = 1
    INDEX = 2
    LANE = 3


@dataclass(frozen=True, slots=True)
class Flow:
    """Control flow over basic blocks."""

    starts: tuple[int, ...]  # first program counter of each block, ascending; and, last, the number of operations
    successors: tuple[tuple[int, ...], ...]  # of each block
    loops: tuple[frozenset[int], ...]  # the blocks of each natural loop, whose header dominates them
    control: tuple[SharedBy, ...]  # among which threads each block is reached together
    control_after_exit: tuple[
        SharedBy, ...
    ]  # the same, not counting branches that take threads to the end of the kernel
    dependences: tuple[frozenset[int], ...]  # per block, the blocks whose branch decides whether it is reached
    branch: tuple[SharedBy, ...]  # among which threads the branch at the end of each block goes the same way

    def block(self, pc: int) -> int:
        """The block that holds a program counter."""
        return bisect_right(self.starts, pc, 0, len(self.starts) - 1) - 1

    def last(self, block: int) -> int:
        """The program counter of a block's last operation."""
        return self.starts[block + 1] - 1

    def parting(self, block: int) -> int | None:
        """The block whose branch keeps some threads of the block away from `block`, the nearest such one; or None."""
        seen, queue = {block}, [block]
        while queue:
            current = queue.pop(0)
            for above in sorted(self.dependences[current], reverse=True):
                if self.branch[above] > SharedBy.BLOCK:
                    return above
                if above not in seen:
                    seen.add(above)
                    queue.append(above)
        return None


_last: list[tuple[LoweredKernel, Flow]] = []


def flow_of(kernel: LoweredKernel) -> Flow:
    """The control flow of a kernel; that of the last few kernels is kept."""
    for seen, flow in _last:
        if seen is kernel:
            return flow
    flow = _flow(kernel)
    _last.insert(0, (kernel, flow))
    del _last[4:]
    return flow


def _flow(kernel: LoweredKernel) -> Flow:
    nodes, branches = kernel.nodes, kernel.branches
    leaders = {0}
    for pc, node in enumerate(nodes):
        if pc in branches or _ends(node):
            leaders |= {pc + 1, *branches.get(pc, ())}
    starts = (*sorted(leader for leader in leaders if leader < len(nodes)), len(nodes))
    at = {start: number for number, start in enumerate(starts)}
    successors = []
    for number in range(len(starts) - 1):
        pc = starts[number + 1] - 1
        following = [at[target] for target in branches.get(pc, ())]
        if not (_ends(nodes[pc]) or (pc in branches and nodes[pc].guard is None)) and number + 2 < len(starts):
            following.append(number + 1)
        successors.append(tuple(dict.fromkeys(following)))
    count = len(successors)
    trapped = {b for b in range(count) if nodes[starts[b + 1] - 1].op == "trap"}
    dominator = _dominators(count, {0}, successors)
    kept = [tuple(s for s in row if s not in trapped) for row in successors]  # a trap ends all threads
    predecessors: list[tuple[int, ...]] = [()] * count
    for block, row in enumerate(kept):
        for successor in row:
            predecessors[successor] += (block,)
    ends = {b for b in range(count) if not kept[b] and b not in trapped}
    post = _dominators(count + 1, {count}, [*predecessors, tuple(ends)])
    post_dominator = tuple(p if p != count and post[b] >= 0 else None for b, p in enumerate(post[:count]))
    dependences = _control_dependences(kept, post_dominator)
    only_exit = {
        b for b in ends if all(n.op in ("exit", "nop") for n in nodes[starts[b] : starts[b + 1]])
    }  # fmt: skip
    early = {b for b in range(count) if only_exit & set(kept[b])}
    control, levels = _uniformity(nodes, starts, dependences)
    after_exit = _reached(
        len(starts) - 1,
        dependences,
        lambda b: SharedBy.BLOCK if b in early else _branch_level(nodes, starts, levels, b),
    )
    return Flow(
        starts, tuple(successors), _loops(successors, dominator), control, after_exit,
        tuple(map(frozenset, dependences)), tuple(_branch_level(nodes, starts, levels, b) for b in range(count)),
    )  # fmt: skip


def _ends(node: Decoded) -> bool:
    return node.op in ENDS and node.guard is None


def _dominators(count: int, roots: set[int], successors: Sequence[Sequence[int]]) -> list[int]:
    """Immediate dominators (Cooper, Harvey and Kennedy 2001); -1 for what the roots do not reach."""
    order: list[int] = []
    seen = set(roots)
    stack = [(root, iter(successors[root])) for root in roots]
    while stack:
        node, following = stack[-1]
        for successor in following:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            stack.pop()
            order.append(node)
    rank = {node: index for index, node in enumerate(order)}
    predecessors: dict[int, list[int]] = {node: [] for node in order}
    for node in order:
        for successor in successors[node]:
            predecessors[successor].append(node)
    result = [-1] * count
    for root in roots:
        result[root] = root
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            if node in roots:
                continue
            known = [p for p in predecessors[node] if result[p] >= 0]
            if not known:
                continue
            new = known[0]
            for other in known[1:]:
                a, b = new, other
                while a != b:
                    while rank[a] < rank[b]:
                        a = result[a]
                    while rank[b] < rank[a]:
                        b = result[b]
                new = a
            changed |= result[node] != new
            result[node] = new
    return result


def _control_dependences(successors: Sequence[Sequence[int]], post_dominator: Sequence[int | None]) -> list[set[int]]:
    """Per block, the blocks whose branch decides whether it is reached (Ferrante, Ottenstein and Warren 1987)."""
    result: list[set[int]] = [set() for _ in successors]
    for block, row in enumerate(successors):
        if len(row) < 2:
            continue
        for successor in row:
            walk: int | None = successor
            while walk is not None and walk != post_dominator[block]:
                result[walk].add(block)
                walk = post_dominator[walk]
    return result


def _loops(successors: Sequence[Sequence[int]], dominator: Sequence[int]) -> tuple[frozenset[int], ...]:
    predecessors: dict[int, list[int]] = {}
    for block, row in enumerate(successors):
        for successor in row:
            predecessors.setdefault(successor, []).append(block)
    latches: dict[int, list[int]] = {}
    for block, row in enumerate(successors):
        for successor in row:
            if dominator[block] >= 0 and dominates(dominator, successor, block):
                latches.setdefault(successor, []).append(block)
    loops = []
    for header, ends in latches.items():
        body, stack = {header}, list(ends)
        while stack:
            block = stack.pop()
            if block not in body and dominator[block] >= 0:
                body.add(block)
                stack += predecessors.get(block, ())
        loops.append(frozenset(body))
    return tuple(loops)


def dominates(dominator: Sequence[int], above: int, below: int) -> bool:
    """Whether every way to block `below` passes `above`."""
    while below != above and dominator[below] != below:
        below = dominator[below]
    return below == above


def _branch_level(
    nodes: Sequence[Decoded], starts: Sequence[int], levels: Mapping[Value, SharedBy], block: int
) -> SharedBy:
    last = nodes[starts[block + 1] - 1]
    deciding = [v for v in (last.guard, *last.s) if v is not None]
    return max((_level(levels, v) for v in deciding), default=SharedBy.BLOCK)


def _reached(
    count: int, dependences: Sequence[Iterable[int]], branch: Callable[[int], SharedBy]
) -> tuple[SharedBy, ...]:
    control = [SharedBy.BLOCK] * count
    changed = True
    while changed:
        changed = False
        for block in range(count):
            new = max((max(branch(d), control[d]) for d in dependences[block]), default=SharedBy.BLOCK)
            if new > control[block]:
                control[block], changed = new, True
    return tuple(control)


def _uniformity(
    nodes: Sequence[Decoded], starts: Sequence[int], dependences: Sequence[set[int]]
) -> tuple[tuple[SharedBy, ...], dict[Value, SharedBy]]:
    levels: dict[Value, SharedBy] = {}
    count = len(starts) - 1
    control: tuple[SharedBy, ...] = (SharedBy.BLOCK,) * count
    while True:
        changed = False
        for block in range(count):
            for node in nodes[starts[block] : starts[block + 1]]:
                level = max(_result(node, levels), control[block])
                for value in node.written():
                    if level > levels.get(value, SharedBy.BLOCK):
                        levels[value], changed = level, True
        new = _reached(count, dependences, lambda b: _branch_level(nodes, starts, levels, b))
        if not changed and new == control:
            return control, levels
        control = new


_INDEX_PRESETS = {"%tid.x", "%tid.y", "%tid.z"}
_LANE_PRESETS = {"%laneid", "%lanemask_eq", "%lanemask_le", "%lanemask_lt", "%lanemask_ge", "%lanemask_gt"}
_OWN = {"atom", "match", "elect", "activemask", "ldmatrix", "wmma.load", "clock", "vprintf", "stmatrix"}
"""Operations whose result is each lane's own, whatever goes in."""


def _level(levels: Mapping[Value, SharedBy], value: Value) -> SharedBy:
    if value.constant is not None:
        return SharedBy.BLOCK
    if value.preset is not None:
        if value.name in _INDEX_PRESETS:
            return SharedBy.INDEX
        return (
            SharedBy.LANE
            if value.name in _LANE_PRESETS
            else SharedBy.WARP
            if value.name == "%warpid"
            else SharedBy.BLOCK
        )
    return levels.get(value, SharedBy.BLOCK)


def _result(node: Decoded, levels: Mapping[Value, SharedBy]) -> SharedBy:
    """The level of what an operation writes."""
    name = node.op.partition(".")[0]
    sources = [_level(levels, v) for v in node.read()]
    level = max(sources, default=SharedBy.BLOCK)
    if node.op in _OWN or node.tensor is not None or (node.op == "ld" and node.space == SPACES["local"]):
        return SharedBy.LANE
    if node.op == "bar.red":
        return SharedBy.BLOCK
    if node.op in ("vote", "redux"):
        return SharedBy.WARP
    if node.op == "shfl":
        broadcast = (
            meaning(node.text).attributes["mode"] == "idx"
            and node.s[1] is not None
            and _level(levels, node.s[1]) <= SharedBy.WARP
        )
        return SharedBy.WARP if broadcast else level
    if level is not SharedBy.INDEX:
        return level
    constants = [v.constant for v in node.s if v is not None and v.constant is not None]
    if name in ("mov", "cvt", "add", "sub", "mad"):
        return SharedBy.INDEX
    if name == "mul" and "wide" not in node.op:
        return SharedBy.INDEX  # tid.y · blockDim.x; a multiple of tid.x is taken for one, too
    if name == "shr" and constants and constants[0] >= 5:
        return SharedBy.WARP
    if name in ("div", "and") and constants and constants[0] % 32 == 0:
        return SharedBy.WARP
    if name == "setp" and constants:  # t < 32, t > 31
        compared = {"lt": 0, "ge": 0, "lo": 0, "hs": 0, "gt": 31, "le": 31, "hi": 31, "ls": 31}
        if compared.get(meaning(node.text).attributes["compare"]) == constants[0] % 32:
            return SharedBy.WARP
    return SharedBy.LANE
