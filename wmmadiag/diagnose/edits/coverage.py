"""Let the warps there are compute all tiles: a loop around a body that handles one tile, or other counts.

Bad:
    int tile = threadIdx.x / 32;                  // 4 warps, 8 tiles
    compute(tile);

Good:
    for (int tile = threadIdx.x / 32; tile < 8; tile += blockDim.x / 32)
        compute(tile);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import fixed_shape, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import SourceModel, Statement, Variable

_KIND = "coverage"
_ALL = ("too-few-warps", "launch-coverage", "unwritten-output", "uninitialised-memory", "loop-extent", "write-conflict")


@generator(_KIND, *_ALL, "out-of-bounds", "fragment-footprint", "shared-memory-limit")
def generate(view: View) -> Iterator[Edit]:
    """Guards on a warp's index, then constants that count warps, tiles and rows, then array extents."""
    yield from _guards(view)
    yield from _constants(view)
    yield from _extents(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def warp_indices(model: SourceModel) -> list[Variable]:
    """Integers that are the thread's index over 32."""
    found = []
    for variable in model.variables:
        text = "" if variable.initial is None else re.sub(r"\s+", "", variable.initial.text)
        if re.fullmatch(r".*threadIdx\.[xy]\)?(?:/(?:32|\w*[wW]\w*)|>>5)", text) and variable.kind == "local":
            found.append(variable)
    return found


def _guards(view: View) -> Iterator[Edit]:
    """`if (warp < TILES) { … }` becomes a loop over the tiles; so does a body that uses the warp's index plainly."""
    model = view.model
    warps = {v.name: v for v in warp_indices(model)}
    for statement in model.statements:
        if statement.kind != "if" or statement.condition is None or statement.body < 0 or statement.orelse >= 0:
            continue
        match = re.fullmatch(r"\s*(\w+)\s*<\s*([^&|<>=?]+?)\s*", statement.condition.text)
        if match is None or match[1] not in warps or not view.wanted(statement.start, statement.end):
            continue
        near = 0.0 if view.wanted(statement.start, statement.head_end) else 0.06
        yield from _loop(view, statement, match[1], match[2], near)
    for name, variable in warps.items():
        if not view.line_wanted(variable.line) and view.lines is not None:
            uses = [t for t in model.tokens if t.text == name and view.wanted(t.offset)]
            if not uses:
                continue
        yield from _around_all(view, variable)


def _loop(view: View, statement: Statement, name: str, bound: str, near: float) -> Iterator[Edit]:
    model = view.model
    body = model.statements[statement.body]
    fresh = _free(model, "tile")
    head = f"for (int {fresh} = {name}; {fresh} < {bound}; {fresh} += blockDim.x / 32)"
    changes = [Change(statement.start, statement.head_end, head)]
    changes += _renamed(model, body.first, body.last, name, fresh)
    yield from _each(view, statement.line, f"loop over all {bound} tiles", tuple(changes), 0.06 + near)


def _free(model: SourceModel, name: str) -> str:
    used = {t.text for t in model.tokens}
    return next(n for n in (name, *(f"{name}{i}" for i in range(1000))) if n not in used)


def _renamed(model: SourceModel, first: int, last: int, old: str, new: str) -> list[Change]:
    return [
        Change(t.offset, t.end, new)
        for index in range(first, last)
        if (t := model.tokens[index]).text == old and model.tokens[index - 1].text not in (".", "->")
    ]


def _around_all(view: View, variable: Variable) -> Iterator[Edit]:
    """The statements after the warp's index, up to the next barrier, in a loop over tile counts."""
    model = view.model
    declared = model.statement_at(variable.start)
    if declared < 0 or variable.initial is None or variable.kind != "local":
        return
    parent = model.statements[declared].parent
    for run in _runs(model, parent, variable):
        first, last = model.statements[run[0]], model.statements[run[-1]]
        if not any(
            view.wanted(s.start, s.end) for s in (*(model.statements[i] for i in run), model.statements[declared])
        ):
            continue
        if any(model.statements[i].kind in ("declaration", "return") and _used_later(model, i, last.end) for i in run):
            continue
        fresh = _free(model, "tile")
        for bound, rank in _counts(view, variable):
            head = f"for (int {fresh} = {variable.name}; {fresh} < {bound}; {fresh} += blockDim.x / 32) {{ "
            changes = [Change(first.start, first.start, head)]
            changes += _renamed(model, first.first, last.last, variable.name, fresh)
            changes.append(Change(last.end, last.end, " }"))
            line = first.line if view.wanted(first.start, last.end) else variable.line
            yield from _each(view, line, f"loop over {bound} tiles", tuple(changes), 0.1 + rank)


def _runs(model: SourceModel, parent: int, variable: Variable) -> list[list[int]]:
    """Runs of statements of a block between barriers that use the warp's index, in any block where it is seen."""
    found: list[list[int]] = []
    barriers = {b.statement for b in model.barriers if b.kind == "block"}
    by_parent: dict[int, list[int]] = {}
    for index, statement in enumerate(model.statements):
        inside = variable.visible[0] <= statement.start < variable.visible[1]
        if inside and statement.parent >= 0 and model.statements[statement.parent].kind == "block":
            by_parent.setdefault(statement.parent, []).append(index)
    for group in by_parent.values():
        run: list[int] = []
        for index in [*group, -1]:
            holds = index >= 0 and any(_inside(model, index, b) for b in barriers)
            if index < 0 or holds:
                used = [i for i in run if _uses(model, i, variable.name)]
                if used:
                    found.append(run[run.index(used[0]) : run.index(used[-1]) + 1])
                    trailing = run[run.index(used[0]) :]
                    if trailing != found[-1]:
                        found.append(trailing)
                run = []
            else:
                run.append(index)
    del parent
    return found[:8]


def _inside(model: SourceModel, outer: int, index: int) -> bool:
    return index >= 0 and model.statements[outer].start <= model.statements[index].start < model.statements[outer].end


def _uses(model: SourceModel, index: int, name: str) -> bool:
    statement = model.statements[index]
    return any(model.tokens[i].text == name for i in range(statement.first, statement.last))


def _used_later(model: SourceModel, index: int, end: int) -> bool:
    statement = model.statements[index]
    declared = {v.name for v in model.variables if v.start == statement.start}
    function = model.function_at(statement.start)
    stop = function.end if function is not None else end
    return statement.kind == "return" or any(t.text in declared and end <= t.offset < stop for t in model.tokens)


def _counts(view: View, variable: Variable) -> list[tuple[str, float]]:
    """How many tiles there may be: constants over 16, and the row counts of arrays over 16."""
    model = view.model
    found: dict[str, float] = {}
    for name, value in model.constants.items():
        if name[:2] == "__" or (
            model.variable(name, variable.name_at) is None and any(v.name == name for v in model.variables)
        ):
            continue
        if value % 16 == 0 and 32 <= value <= 512:
            found[f"{name} / 16"] = 0.02
        if 2 <= value <= 32 and value == value // 1:
            found[name] = 0.03
    for array in model.arrays:
        if (
            array.shared
            and array.sizes
            and array.sizes[0] is not None
            and array.sizes[0] % 16 == 0
            and len(array.dims) > 1
        ):
            found.setdefault(f"{array.sizes[0] // 16}", 0.04)
    for other in view.integers(variable.name_at):
        if other.kind == "parameter":
            found.setdefault(f"({other.name} + 15) / 16", 0.05)
    return sorted(found.items(), key=lambda item: item[1])[:8]


def _constants(view: View) -> Iterator[Edit]:
    """A constant of the block's shape: twice, half, or another count."""
    model = view.model
    for variable in model.variables:
        initial = variable.initial
        if initial is None or not view.wanted(variable.start, variable.end) or not variable.const or variable.dims:
            continue
        value = view.value(initial)
        if value is None or value != value // 1 or not 1 <= value <= 4096:
            continue
        number = int(value)
        for other, rank in ((number * 2, 0.1), (number // 2, 0.12), (number * 4, 0.14), (number // 4, 0.16)):
            if other > 0:
                summary = f"{variable.name} = {other}"
                yield from _each(view, variable.line, summary, (replaced(initial, str(other)),), rank)


def _extents(view: View) -> Iterator[Edit]:
    """The extent of a shared array: more rows, or another constant."""
    model = view.model
    for array in model.arrays:
        if not array.shared or not view.wanted(array.start, array.end):
            continue
        dims = array.dims[:1] if fixed_shape(model, array) else array.dims
        for dim, size in zip(dims, array.sizes, strict=False):
            faults = (
                "out-of-bounds",
                "fragment-footprint",
                "too-few-warps",
                "shared-memory-limit",
                "uninitialised-memory",
            )
            text = f"2 * ({dim.text})"
            yield from view.offer(_KIND, faults, array.line, f"{array.name}[{text}]", (replaced(dim, text),), 0.12)
            for name, value in model.constants.items():
                visible = model.variable(name, array.start) is not None or not any(
                    v.name == name for v in model.variables
                )
                if name[:2] != "__" and value != size and 4 <= value <= 4096 and name != dim.text and visible:
                    yield from view.offer(
                        _KIND, faults, array.line, f"{array.name}[{name}]", (replaced(dim, name),), 0.16
                    )
