"""Where a missing barrier must stand: between the two instructions of a race, where all who need it pass.

From the program alone. With every barrier of the block taken as a wall, the two accesses A and B can still reach each
other: from A to B in one pass of the loops that hold both, or round a loop from its end to its beginning. A barrier
must stand on every such way (a cut), at the loop depth that A and B share, and where all threads of the block (of the
warp, for `__syncwarp()`) pass together. Of such points the last before B is taken, or the end of the loop's body.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.checks.finding import Finding
from wmmadiag.checks.flow import Flow, Loop, SharedBy, flow_of
from wmmadiag.checks.source_lines import structure_of
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.place import Place, own_place
from wmmadiag.results.model import SuggestedLine

_WALLS = {
    "__syncthreads();": frozenset({"bar.sync", "bar.red"}),
    "__syncwarp();": frozenset({"bar.sync", "bar.red", "bar.warp.sync"}),
    "cp.async wait": frozenset(),
}
_PTX = {
    "__syncthreads();": ("bar.sync 0;",),
    "__syncwarp();": ("bar.warp.sync 0xffffffff;",),
    "cp.async wait": ("cp.async.wait_group 0;", "bar.sync 0;"),
}


@dataclass(frozen=True, slots=True)
class BarrierPlace:
    """A place for what is missing."""

    pc: int  # it stands before this operation
    ptx_line: int  # and before this line (1-based) of the PTX
    ptx: tuple[str, ...]  # the PTX instructions, one per line
    text: str  # the CUDA statement, "__syncthreads();"
    insert: SuggestedLine | None  # where in the source; None when the lines leave no place between them
    # after, before: the source lines of the accesses that it must part, in the order of the program; `before` may be
    # the smaller one when the way goes round a loop
    after: int
    before: int
    at_loop_end: bool = False  # it parts one iteration from the next
    some_exited: bool = False  # threads may have returned before they reach it

    def words(self) -> str:
        """ "put __syncthreads() after line 71, before line 74"."""
        call = self.text.rstrip(";")
        if self.at_loop_end:
            where = "at the end of the loop's body"
            where += (
                f", before line {self.insert.line}" if self.insert is not None and self.insert.line > self.after else ""
            )
            return f"put {call} {where}: after line {self.after}, before the next iteration's line {self.before}"
        if self.after == self.before:
            return f"put {call} between the two, which stand on one line"
        return f"put {call} after line {self.after}, before line {self.before}"


def missing_barriers(kernel: LoweredKernel, finding: Finding) -> tuple[BarrierPlace, ...]:
    """The places that need a barrier for the two accesses of a race to be ordered; most often one.

    Two, where nothing parts them in a loop: one between them, one at its end; and one for each copy that the compiler
    made of a line, for example by unrolling. None, where no barrier helps: the
    accesses belong to one instruction in one pass, to different blocks, or stand in code that only some threads reach.

    Args:
        kernel: the program that ran.
        finding: of the check `races`, with the pairs of its instructions.
    """
    if finding.check != "races" or finding.kind.startswith("blocks"):
        return ()
    text = "__syncwarp();" if finding.kind.startswith("lanes") else "__syncthreads();"
    found = {place.pc: place for pair in finding.pairs for place in places(kernel, *pair, text)}
    return tuple(sorted(found.values(), key=lambda place: (place.at_loop_end, place.pc)))


def places(kernel: LoweredKernel, first: int, second: int, text: str) -> tuple[BarrierPlace, ...]:
    """The places for `text` that part two instructions, whichever comes first."""
    flow = flow_of(kernel)
    walls = frozenset(
        pc
        for pc, node in enumerate(kernel.nodes)
        if node.op in _WALLS[text] and (node.op == "bar.warp.sync" or node.s[1] is None)
    )
    pairs = [(first, second), (second, first)] if first != second else [(first, second)]
    found: list[BarrierPlace] = []
    for search in (_forward, _round):
        for a, b in pairs:
            place = search(kernel, flow, walls, a, b, text) if search is _round or a != b else None
            if place is not None:
                found.append(place)
                walls |= {place.pc}
    return tuple(found)


def _forward(
    kernel: LoweredKernel, flow: Flow, walls: frozenset[int], a: int, b: int, text: str
) -> BarrierPlace | None:
    """A place on every way from a to b in one pass of the loops that hold both."""
    block_a, block_b = flow.block(a), flow.block(b)
    common = [loop for loop in flow.loops if {block_a, block_b} <= loop.body]
    back = frozenset((latch, loop.header) for loop in common for latch in loop.latches)
    if not _reaches(flow, a, b, walls, back):
        return None
    depth = common[0].body if common else None
    for relaxed in (False, True):
        for pc in _candidates(flow, a, b):
            block = flow.block(pc)
            if (
                _loop_body(flow, block) == depth
                and _together(flow, block, text, relaxed)
                and not _reaches(flow, a, b, walls | {pc}, back)
            ):
                return _place(kernel, pc, a, b, text, None, relaxed)
    return None


def _round(kernel: LoweredKernel, flow: Flow, walls: frozenset[int], a: int, b: int, text: str) -> BarrierPlace | None:
    """A place on every way from a, round the innermost loop that allows it, to b."""
    block_a, block_b = flow.block(a), flow.block(b)
    for loop in flow.loops:
        if not {block_a, block_b} <= loop.body:
            continue
        outer = frozenset(
            (latch, other.header) for other in flow.loops if loop.body < other.body for latch in other.latches
        )
        around = frozenset((latch, loop.header) for latch in loop.latches)

        def open_way(shut: frozenset[int], loop: Loop = loop, cut: frozenset[tuple[int, int]] = outer | around) -> bool:
            start = flow.starts[loop.header]
            ends = [flow.last(latch) for latch in loop.latches]
            into = start == b or (start not in shut and _reaches(flow, start, b, shut, cut))
            return into and any(end == a or (end not in shut and _reaches(flow, a, end, shut, cut)) for end in ends)

        if not open_way(walls):
            continue
        points = [flow.last(latch) for latch in loop.latches] if len(loop.latches) == 1 else []
        points += [b, flow.starts[loop.header]]
        for relaxed in (False, True):
            for pc in points:
                block = flow.block(pc)
                if (
                    _loop_body(flow, block) == loop.body
                    and _together(flow, block, text, relaxed)
                    and (pc == b or not open_way(walls | {pc}))
                ):
                    return _place(kernel, pc, a, b, text, loop, relaxed)
    return None


def _candidates(flow: Flow, a: int, b: int) -> Iterator[int]:
    """Points between a and b, from the last to the first: before b, at the ends of its dominators, then after a."""
    yield b
    block, block_a = flow.block(b), flow.block(a)
    while flow.dominator[block] not in (block, -1):
        block = flow.dominator[block]
        if flow.last(block) > a or block != block_a:
            yield flow.last(block)
    post = flow.post_dominator[block_a]
    seen = set()
    while post is not None and post not in seen:
        seen.add(post)
        yield flow.starts[post]
        post = flow.post_dominator[post]


def _loop_body(flow: Flow, block: int) -> frozenset[int] | None:
    return next((loop.body for loop in flow.loops if block in loop.body), None)


def _together(flow: Flow, block: int, text: str, relaxed: bool) -> bool:
    """Whether all who must meet reach a block together; `relaxed`: all that have not returned."""
    control = flow.control_after_exit if relaxed else flow.control
    return control[block] <= (SharedBy.WARP if text == "__syncwarp();" else SharedBy.BLOCK)


def _reaches(flow: Flow, start: int, goal: int, walls: frozenset[int], cut: frozenset[tuple[int, int]]) -> bool:
    """Whether there is a way from just after `start` to `goal` that passes no wall and no cut edge."""
    block = flow.block(start)
    stack = [(block, start + 1)]
    seen: set[int] = set()
    while stack:
        block, pc = stack.pop()
        end = flow.starts[block + 1]
        stop = min((wall for wall in walls if pc <= wall < end), default=end)
        if pc <= goal < end and goal < stop:
            return True
        if stop < end:
            continue
        for successor in flow.successors[block]:
            if (block, successor) not in cut and successor not in seen:
                seen.add(successor)
                stack.append((successor, flow.starts[successor]))
    return False


def _place(
    kernel: LoweredKernel, pc: int, a: int, b: int, text: str, loop: Loop | None, some_exited: bool
) -> BarrierPlace:
    node = kernel.nodes[pc]
    added = (node.target or "").startswith("block:")  # a jump of ours: it stands behind its line
    first, second = same_frame(kernel.place(a), kernel.place(b))
    insert, around = _source(kernel, first, second, text, loop)
    return BarrierPlace(
        pc, node.ptx_line + added, _PTX[text], text, insert, first.line, second.line,
        loop is not None or around, some_exited,
    )  # fmt: skip


def _source(
    kernel: LoweredKernel, first: Place, second: Place, text: str, loop: Loop | None
) -> tuple[SuggestedLine | None, bool]:
    """Where in the source, and whether that is at a loop's end."""
    source = structure_of(first.file) if first.file == second.file and first.line and second.line else None
    if source is None:
        return None, False
    if loop is None and first.line < second.line:
        line = source.between(first.line, second.line)
        return (SuggestedLine(first.file, line, "before", text) if line else None), False
    lines = [first.line, second.line]
    if loop is None and first.line == second.line:
        return None, False  # on one line; or unrolled, which the lines do not tell apart
    if loop is not None:
        lines += _lines_in(kernel, loop, first)
    line = source.loop_end(lines) or source.loop_end(lines[:2])
    if line:
        return SuggestedLine(first.file, line, "before", text), True
    return (SuggestedLine(first.file, second.line, "before", text) if second.line in source.starts else None), True


def _lines_in(kernel: LoweredKernel, loop: Loop, frame: Place) -> Iterator[int]:
    """Lines of a loop in the function, called from the same place, that `frame` belongs to."""
    flow = flow_of(kernel)
    for block in loop.body:
        for pc in range(flow.starts[block], flow.starts[block + 1]):
            for one in kernel.place(pc).frames():
                if one.inlined_at == frame.inlined_at and one.file == frame.file and one.line:
                    yield one.line


def same_frame(first: Place, second: Place) -> tuple[Place, Place]:
    """The lines of two places in the innermost call that they share: 71 and 74 of the kernel that calls both."""
    ones, others = (own_frames(place) for place in (first, second))
    for one, other in zip(ones, others, strict=False):
        if (one.file, one.line, one.column) != (other.file, other.line, other.column):
            return one, other
    shorter = min(len(ones), len(others)) - 1
    return ones[shorter], others[shorter]


def own_frames(place: Place) -> list[Place]:
    """The frames in the user's code, the outermost first."""
    return list(own_place(place).frames())[::-1]
