"""Insert, strengthen or move a barrier, so that all threads reach it between a write and the read that needs it.

Bad:
    tile[threadIdx.x] = k[threadIdx.x];
    wmma::load_matrix_sync(b, tile, 16);     // other threads may not have written yet

Good:
    tile[threadIdx.x] = k[threadIdx.x];
    __syncthreads();
    wmma::load_matrix_sync(b, tile, 16);
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from wmmadiag.diagnose.edits.building import after, anchor, at_end, before, removed
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import SourceModel, Span

_KIND = "barriers"
_GRID = "cooperative_groups::this_grid().sync();"
_MISSING, _DIVERGENT, _ASYNC = "missing-barrier", "divergent-barrier", "async-copy-order"


@generator(_KIND, _MISSING, _DIVERGENT, _ASYNC)
def generate(view: View) -> Iterator[Edit]:
    """Barriers beside wanted statements, barriers that are there already, and early returns."""
    yield from _insert(view)
    yield from _existing(view)
    yield from _returns(view)
    yield from _whole_grid(view)


def _whole_grid(view: View) -> Iterator[Edit]:
    """A barrier of the block as one of the grid, in a source that has cooperative groups."""
    model = view.model
    if "cooperative_groups.h" not in model.text:
        return
    for barrier in model.barriers:
        if barrier.kind == "block" and barrier.form == "builtin" and view.wanted(barrier.start, barrier.end):
            statement = model.statements[barrier.statement]
            if statement.simple and divergent(view, barrier.statement, varying(view)) < 0:
                change = Change(statement.start, statement.end, _GRID)
                yield Edit(_KIND, _MISSING, barrier.line, "wait for the whole grid, not the block", (change,), 0.05)
    for index, statement in enumerate(model.statements):
        inner = model.statements[statement.parent].parent if statement.parent >= 0 else 0
        function = model.function_at(statement.start)
        if (
            inner >= 0
            or function is None
            or not function.kernel
            or not view.wanted(statement.start, statement.head_end)
        ):
            continue  # all threads of all blocks pass the kernel's own statements, and only these for certain
        place = before(model, index, _GRID) if statement.kind not in ("block", "label", "empty") else None
        if place is not None:
            yield Edit(
                _KIND, _MISSING, statement.line, f"wait for the whole grid before line {statement.line}", (place,), 0.09
            )


def varies(model: SourceModel, piece: Span) -> bool:
    """Whether an expression may differ between the threads of a block."""
    return _varies(model, piece, _varying(model))


def varying(view: View) -> frozenset[int]:
    """Where variables are declared that differ between the threads of a block: made from threadIdx, directly or not."""
    return _varying(view.model)


def _varying(model: SourceModel) -> frozenset[int]:
    found: set[int] = set()
    grew = True
    while grew:
        grew = False
        for variable in model.variables:
            if variable.initial is None or variable.name_at in found:
                continue
            if _varies(model, variable.initial, found):
                found.add(variable.name_at)
                grew = True
    return frozenset(found)


def _varies(model: SourceModel, piece: Span, known: Set[int]) -> bool:
    """Whether an expression holds threadIdx or a variable that differs between threads."""
    for index in range(piece.first, piece.last):
        token = model.tokens[index]
        if token.text == "threadIdx":
            return True
        if token.kind == "id" and model.tokens[index - 1].text not in (".", "->"):
            variable = model.variable(token.text, token.offset)
            if variable is not None and variable.name_at in known:
                return True
    return False


def divergent(view: View, index: int, names: frozenset[int]) -> int:
    """The outermost statement around one whose condition differs between threads, -1 if all threads pass."""
    model = view.model
    found = -1
    for at in model.enclosing(index):
        statement = model.statements[at]
        pieces = [p for p in (statement.init, statement.condition, statement.step) if p is not None]
        if any(_varies(model, p, names) for p in pieces):
            found = at
    return found


def _insert(view: View) -> Iterator[Edit]:
    model = view.model
    names = varying(view)
    seen: set[int] = set()
    for index, statement in enumerate(model.statements):
        if statement.kind in ("block", "label", "empty") or not view.wanted(statement.start, statement.head_end):
            continue
        if view.lines is None and not _touches_memory(model, index):
            continue
        outer = divergent(view, index, names)
        place = anchor(model, index) if outer < 0 else anchor(model, outer)
        if place < 0 or place in seen:
            continue
        seen.add(place)
        line, at_line = model.statements[place].line, statement.line
        loops = [at for at in model.enclosing(place) if model.statements[at].loop]
        for code, hypothesis, extra in (("__syncthreads();", _MISSING, 0.0), ("__syncwarp();", _MISSING, 0.14)):
            what = code[:-1]
            first = before(model, place, code)
            if first is not None and not _is_barrier(model, place - 1, place):
                yield Edit(_KIND, hypothesis, at_line, f"insert {what} before line {line}", (first,), 0.06 + extra)
            last = after(model, place, code)
            if last is not None and model.statements[place].kind != "return":
                end = model.statements[place].last_line
                yield Edit(_KIND, hypothesis, at_line, f"insert {what} after line {end}", (last,), 0.07 + extra)
            for depth, loop in enumerate(loops if outer < 0 or place == anchor(model, outer) else ()):
                if divergent(view, loop, names) >= 0:
                    break
                rank, where = 0.08 + extra + 0.01 * depth, f"the loop at line {model.statements[loop].line}"
                body = model.statements[loop].body
                at_last = at_end(model, body, code) if body >= 0 else None
                if at_last is not None:
                    summary = f"insert {what} at the end of {where}"
                    yield Edit(_KIND, hypothesis, at_line, summary, (at_last,), rank)
                past = after(model, loop, code) if anchor(model, loop) == loop else None
                if past is not None:
                    yield Edit(_KIND, hypothesis, at_line, f"insert {what} after {where}", (past,), rank + 0.005)
        if outer >= 0 and place != index and anchor(model, index) == index:
            inner = before(model, index, "__syncwarp();")
            if inner is not None:
                summary = f"insert __syncwarp() before line {statement.line}"
                yield Edit(_KIND, _MISSING, statement.line, summary, (inner,), 0.2)
            inner = after(model, index, "__syncwarp();")
            if inner is not None and statement.kind != "return":
                summary = f"insert __syncwarp() after line {statement.last_line}"
                yield Edit(_KIND, _MISSING, statement.line, summary, (inner,), 0.19)


def _touches_memory(model: SourceModel, index: int) -> bool:
    """With no line named: only beside statements that read or write shared memory or pass it on."""
    statement = model.statements[index]
    last = statement.last if statement.simple else statement.first
    shared = {v.name for v in model.arrays if v.shared}
    return any(model.tokens[i].text in shared for i in range(statement.first, last))


def _is_barrier(model: SourceModel, index: int, place: int) -> bool:
    if index < 0 or model.statements[index].parent != model.statements[place].parent:
        return False
    return any(b.statement == index and b.kind == "block" for b in model.barriers)


def _existing(view: View) -> Iterator[Edit]:
    model = view.model
    names = varying(view)
    for barrier in model.barriers:
        if barrier.kind not in ("block", "warp") or barrier.form not in ("builtin", "call"):
            continue
        statement = model.statements[barrier.statement]
        outer = divergent(view, barrier.statement, names)
        around = model.statements[outer] if outer >= 0 else statement
        near = view.wanted(barrier.start, barrier.end) or (outer >= 0 and view.wanted(around.start, around.head_end))
        if not near or not statement.simple:
            continue
        code = model.text[statement.start : statement.end]
        if barrier.kind == "warp":
            change = Change(barrier.start, barrier.end, "__syncthreads()")
            yield Edit(_KIND, _MISSING, barrier.line, "wait for the whole block, not the warp", (change,), 0.03)
            continue
        gone = removed(model, barrier.statement)
        if gone is None:
            continue
        for at in model.enclosing(barrier.statement):
            if model.statements[at].kind not in ("if", "for", "while") or anchor(model, at) != at:
                continue
            far = 0.0 if at == outer else 0.05 if outer >= 0 and at > outer else 0.2
            for make, where in ((after, "after"), (before, "before")):
                moved = make(model, at, code)
                if moved is not None and not gone.start <= moved.start < gone.end:
                    summary = (
                        f"move the barrier {where} the {model.statements[at].kind} at line {model.statements[at].line}"
                    )
                    yield Edit(
                        _KIND, _DIVERGENT, barrier.line, summary, (gone, moved), 0.04 + far + 0.02 * (where == "before")
                    )
        yield Edit(_KIND, _DIVERGENT, barrier.line, "remove the barrier", (gone,), 0.2)
        for position, neighbour in _siblings(model, barrier.statement):
            moved = (after if position > 0 else before)(model, neighbour, code)
            if moved is not None and not gone.start <= moved.start < gone.end:
                where = "after" if position > 0 else "before"
                summary = f"move the barrier {where} line {model.statements[neighbour].line}"
                yield Edit(_KIND, _MISSING, barrier.line, summary, (gone, moved), 0.12)


def _siblings(model: SourceModel, index: int) -> Iterator[tuple[int, int]]:
    """The statements next to one in its block, as (-1 or 1, index)."""
    parent = model.statements[index].parent
    beside = [at for at, s in enumerate(model.statements) if s.parent == parent]
    if index in beside:
        at = beside.index(index)
        if at > 0:
            yield -1, beside[at - 1]
        if at + 1 < len(beside):
            yield 1, beside[at + 1]


def _returns(view: View) -> Iterator[Edit]:
    """An early return that some threads take before a barrier: guard what follows, not the barrier."""
    model = view.model
    for index, statement in enumerate(model.statements):
        if statement.kind != "return" or statement.last - statement.first > 2:
            continue
        guard = next((at for at in model.enclosing(index) if model.statements[at].kind == "if"), -1)
        if guard < 0 or anchor(model, guard) != guard or model.statements[guard].orelse >= 0:
            continue
        near = view.wanted(statement.start, statement.end) or view.wanted(model.statements[guard].start, statement.end)
        later = [b for b in model.barriers if b.kind == "block" and b.start > statement.end]
        function = model.function_at(statement.start)
        later = [b for b in later if function is not None and b.start < function.end]
        near = near or any(view.wanted(b.start, b.end) for b in later)
        condition = model.statements[guard].condition
        if not near or condition is None or not later:
            continue
        gone = Change(model.statements[guard].start, model.statements[guard].end, "")
        line = statement.line
        yield Edit(_KIND, _DIVERGENT, line, "let no thread leave before the barrier", (gone,), 0.08)
        rest = [at for at, s in enumerate(model.statements)
                if s.parent == model.statements[guard].parent and s.start > statement.end]  # fmt: skip
        held = {b.statement for b in later}
        last = next((at for at in reversed(rest) if at in held or any(_holds(model, at, h) for h in held)), -1)
        tail = [at for at in rest if at > last and last >= 0]
        if tail:
            start, end = model.statements[tail[0]].start, model.statements[tail[-1]].end
            if not any(model.statements[at].kind == "declaration" for at in tail):
                opened, closed = Change(start, start, f"if (!({condition.text})) {{ "), Change(end, end, " }")
                summary = "let no thread leave before the barrier; guard what comes after it"
                yield Edit(_KIND, _DIVERGENT, line, summary, (gone, opened, closed), 0.05)
            else:
                moved = Change(start, start, model.text[gone.start : gone.end] + "\n" + model.indent(start))
                yield Edit(_KIND, _DIVERGENT, line, "leave after the last barrier", (gone, moved), 0.05)


def _holds(model: SourceModel, outer: int, index: int) -> bool:
    return model.statements[outer].start <= model.statements[index].start < model.statements[outer].end
