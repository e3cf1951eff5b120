"""Zero an accumulator once, in the right place; add to what is there instead of overwriting it.

Bad:
    for (int k = 0; k < K; k += 16) {
        wmma::fill_fragment(acc, 0.0f);      // only the last slice survives
        wmma::mma_sync(acc, a, b, acc);
    }

Good:
    wmma::fill_fragment(acc, 0.0f);
    for (int k = 0; k < K; k += 16) {
        wmma::mma_sync(acc, a, b, acc);
    }
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.edits.building import after, anchor, at_start, before, means_the_same, removed, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Call, SourceModel, Span, Variable

_KIND = "accumulators"
_RESET, _INIT, _OVER = "accumulator-reset", "accumulator-init", "tile-overwritten"


@generator(_KIND, _RESET, _INIT, _OVER, "loop-extent")
def generate(view: View) -> Iterator[Edit]:
    """Fills moved out of and into loops, missing fills, plain sums, and stores that overwrite."""
    yield from _fills(view)
    yield from _missing_fills(view)
    yield from _overwriting_stores(view)
    yield from _plain_sums(view)
    yield from _scalar_starts(view)


def _root(model: SourceModel, piece: Span) -> str:
    return model.tokens[piece.first].text if piece else ""


def _loops_around(model: SourceModel, index: int) -> list[int]:
    return [at for at in model.enclosing(index) if model.statements[at].loop]


def _nest(model: SourceModel, index: int) -> int:
    """The outermost of the loops that do nothing but repeat a statement, or the statement itself."""
    found = index
    while True:
        if model.statements[index].kind == "for" and anchor(model, index) == index:
            found = index
        parent = model.statements[index].parent
        if parent < 0:
            return found
        above = model.statements[parent]
        alone = above.kind == "block" and sum(s.parent == parent for s in model.statements) == 1 and above.parent >= 0
        if not (alone or (above.kind == "for" and above.body == index)):
            return found
        index = parent


def _near(view: View, call: Call) -> bool:
    """Whether a call, or the head of a loop around it, is on a wanted line."""
    if view.wanted(call.start, call.end):
        return True
    loops = (view.model.statements[at] for at in _loops_around(view.model, _statement(view.model, call)))
    return any(view.wanted(loop.start, loop.head_end) for loop in loops)


def _statement(model: SourceModel, call: Call) -> int:
    return model.statement_at(call.start)


def _fills(view: View) -> Iterator[Edit]:
    model = view.model
    for call in model.wmma_calls:
        if call.name != "fill_fragment" or not call.arguments:
            continue
        index = _statement(model, call)
        name = _root(model, call.arguments[0])
        multiplies = [
            c for c in model.wmma_calls if c.name == "mma_sync" and c.arguments and _root(model, c.arguments[0]) == name
        ]
        near = _near(view, call) or any(view.wanted(c.start, c.end) for c in multiplies)
        if not near or index < 0 or not model.statements[index].simple:
            continue
        unit = _nest(model, index)
        if unit != index:
            nest = model.statements[unit]
            whole = Change(nest.start, nest.end, "")
            for depth, loop in enumerate(_loops_around(model, unit)):
                moved = before(model, loop, model.text[nest.start : nest.end])
                declared = model.fragment(name, call.start)
                if moved is None or (declared is not None and declared.start > model.statements[loop].start):
                    break
                summary = f"zero {name} before the loop at line {model.statements[loop].line}"
                yield Edit(_KIND, _RESET, call.line, summary, (whole, moved), 0.035 + 0.06 * depth)
        code = model.text[model.statements[index].start : model.statements[index].end]
        gone = removed(model, index)
        for depth, loop in enumerate(_loops_around(model, index)):
            if not means_the_same(model, call.arguments[0], model.statements[loop].start):
                break
            moved = before(model, loop, code)
            if moved is not None and gone is not None:
                summary = f"zero {name} before the loop at line {model.statements[loop].line}"
                declared = model.fragment(name, call.start)
                if declared is not None and declared.start > model.statements[loop].start:
                    break
                yield Edit(_KIND, _RESET, call.line, summary, (gone, moved), 0.04 + 0.06 * depth)
        for multiply in multiplies:
            loops = _loops_around(model, _statement(model, multiply))
            for loop in reversed(loops):  # into each loop that holds the multiply and not the fill
                if loop in _loops_around(model, index) or model.statements[loop].start < call.start:
                    continue
                body = model.statements[loop].body
                moved = at_start(model, body, code) if body >= 0 else None
                if moved is not None and not means_the_same(model, call.arguments[0], moved.start):
                    continue
                if moved is not None and gone is not None:
                    summary = f"zero {name} in each pass of the loop at line {model.statements[loop].line}"
                    yield Edit(_KIND, _INIT, call.line, summary, (gone, moved), 0.06)
                    yield Edit(_KIND, _INIT, call.line, summary.replace("in each", "again in each"), (moved,), 0.12)
        value = call.arguments[1] if len(call.arguments) > 1 else None
        if value is not None and view.value(value) != 0:
            summary = f"fill {name} with zero"
            yield Edit(_KIND, _INIT, call.line, summary, (replaced(value, "0.0f"),), 0.08)


def _names(model: SourceModel, piece: Span) -> set[str]:
    return {t.text for t in model.tokens[piece.first : piece.last] if t.kind == "id"}


def _declared_in(model: SourceModel, index: int) -> set[str]:
    statement = model.statements[index]
    return {v.name for v in model.variables if statement.start <= v.name_at < statement.end}


def _missing_fills(view: View) -> Iterator[Edit]:
    """An accumulator that is multiplied into and never filled (or: filled elsewhere only)."""
    model = view.model
    for call in model.wmma_calls:
        if call.name != "mma_sync" or len(call.arguments) < 4:
            continue
        piece = call.arguments[0]
        name = _root(model, piece)
        fragment = model.fragment(name, call.start)
        if fragment is None:
            continue
        if not (_near(view, call) or view.wanted(fragment.start, fragment.end)):
            continue
        filled = [
            c for c in model.wmma_calls
            if c.name in ("fill_fragment", "load_matrix_sync") and c.arguments and _root(model, c.arguments[0]) == name
            and fragment.visible[0] <= c.start < fragment.visible[1]
        ]  # fmt: skip
        index = _statement(model, call)
        prefix = model.text[call.start : call.name_at]
        zero = "0.0f" if fragment.element != "int" else "0"
        if fragment.element in ("half", "__half"):
            zero = "__float2half(0.0f)"
        rank = 0.05 if not filled or _reused(model, call, name, filled) else 0.3
        used = _names(model, piece)
        places = [loop for loop in _loops_around(model, index) if not used & _declared_in(model, loop)]
        fill = f"{prefix}fill_fragment({piece.text}, {zero});"
        for depth, loop in enumerate(places):
            if model.statements[loop].start < fragment.start:
                break
            change = before(model, loop, fill)
            if change is not None:
                summary = f"zero {name} before the loop at line {model.statements[loop].line}"
                yield Edit(_KIND, _INIT, call.line, summary, (change,), rank + 0.03 * depth)
        declared = model.statement_at(fragment.start)
        if not fragment.dims and declared >= 0:
            change = after(model, declared, fill)
            if change is not None:
                yield Edit(_KIND, _INIT, fragment.line, f"zero {name} where it is declared", (change,), rank + 0.02)
        change = before(model, index, fill) if anchor(model, index) == index else None
        if change is not None:
            yield Edit(_KIND, _INIT, call.line, f"zero {name} before the multiply", (change,), rank + 0.1)


def _overwriting_stores(view: View) -> Iterator[Edit]:
    """A tile that is stored once per pass of an outer loop: load it first, and let the multiply add to it."""
    model = view.model
    for call in model.wmma_calls:
        if call.name != "store_matrix_sync" or len(call.arguments) < 4:
            continue
        pointer, piece, ldm, layout = call.arguments[:4]
        name = _root(model, piece)
        prefix = model.text[call.start : call.name_at]
        load = f"{prefix}load_matrix_sync({piece.text}, {pointer.text}, {ldm.text}, {layout.text});"
        fills = [
            c for c in model.wmma_calls
            if c.name == "fill_fragment" and c.start < call.start and c.arguments
            and _root(model, c.arguments[0]) == name
        ]  # fmt: skip
        near = [c for c in (call, *fills) if view.wanted(c.start, c.end)]
        if not near:
            continue
        fills = [c for c in fills if means_the_same(model, pointer, c.start) and means_the_same(model, ldm, c.start)]
        if fills:
            fill = fills[-1]
            change = Change(fill.start, fill.end, load[:-1])
            summary = f"load the running {name} in place of zeroing it"
            yield Edit(_KIND, _OVER, call.line, summary, (change,), 0.05)
        multiplies = [
            c for c in model.wmma_calls
            if c.name == "mma_sync" and c.arguments and _root(model, c.arguments[0]) == name and c.start < call.start
        ]  # fmt: skip
        if multiplies and not fills:
            index = _statement(model, multiplies[-1])
            store_loops = set(_loops_around(model, _statement(model, call)))
            target = index
            for loop in _loops_around(model, index):
                if loop not in store_loops:
                    target = loop
            insertion = before(model, target, load)
            if insertion is not None and means_the_same(model, pointer, insertion.start):
                summary = f"load the running {name} before the multiply"
                yield Edit(_KIND, _OVER, call.line, summary, (insertion,), 0.08)
        loops = _loops_around(model, _statement(model, call))
        index = _statement(model, call)
        code = model.text[model.statements[index].start : model.statements[index].end]
        gone = removed(model, index)
        for loop in loops[:2]:  # store after the loop, once
            if _names(model, pointer) & _declared_in(model, loop) or name in _declared_in(model, loop):
                break
            moved = after(model, loop, code)
            if moved is not None and gone is not None:
                summary = f"store {name} after the loop at line {model.statements[loop].line}"
                yield Edit(_KIND, _OVER, call.line, summary, (gone, moved), 0.16)


_NUMBERS = frozenset({"float", "double", "half", "int", "auto", "__half"})


def _plain_sums(view: View) -> Iterator[Edit]:
    """`=` for `+=` and the reverse."""
    model = view.model
    for one in model.assignments:
        if not view.wanted(one.target.start, one.value.end):
            continue
        target = model.variable(_root(model, one.target), one.target.start)
        if target is not None and target.pointer and one.target.last - one.target.first == 1:
            continue
        if target is not None and target.element.rstrip("1234") != target.element and target.element not in _NUMBERS:
            continue  # a vector type
        in_loop = bool(_loops_around(model, one.statement))
        product = any(model.tokens[i].text == "*" for i in range(one.value.first, one.value.last))
        if one.operator.text == "=":
            rank = 0.14 if in_loop and product else 0.28
            summary = f"add to {one.target.text} in place of overwriting it"
            yield Edit(_KIND, _OVER, one.line, summary, (replaced(one.operator, "+="),), rank)
        elif one.operator.text == "+=":
            summary = f"set {one.target.text} in place of adding to it"
            yield Edit(_KIND, _INIT, one.line, summary, (replaced(one.operator, "="),), 0.25)


def _scalar_starts(view: View) -> Iterator[Edit]:
    """A running sum declared outside the loop that it belongs to, or without a start value."""
    model = view.model
    for variable in model.variables:
        if variable.kind != "local" or variable.pointer or variable.shared or variable.const:
            continue
        if variable.element not in _NUMBERS:
            continue
        index = model.statement_at(variable.start)
        if index < 0 or model.statements[index].kind != "declaration":
            continue
        sums = [a for a in model.assignments if a.operator.text == "+=" and _root(model, a.target) == variable.name
                and variable.visible[0] <= a.target.start < variable.visible[1]]  # fmt: skip
        near = view.wanted(variable.start, variable.end) or any(view.wanted(a.target.start, a.value.end) for a in sums)
        if not near:
            continue
        if variable.dims:
            if variable.initial is None and sums and view.wanted(variable.start, variable.end):
                at = model.text.find(";", variable.start, variable.end)
                if at > 0 and _only(model, variable):
                    change = Change(at, at, " = {}")
                    yield Edit(_KIND, _INIT, variable.line, f"zero {variable.name}", (change,), 0.06)
            continue
        if variable.initial is None and sums:
            at = variable.name_at + len(variable.name)
            yield Edit(_KIND, _INIT, variable.line, f"start {variable.name} at zero", (Change(at, at, " = 0"),), 0.06)
        for one in sums:
            outer = [at for at in model.enclosing(index) if model.statements[at].loop]
            loops = [at for at in _loops_around(model, one.statement) if at not in outer]
            for loop in loops[1:]:  # the innermost loop is the sum itself
                body = model.statements[loop].body
                change_in = at_start(model, body, f"{variable.name} = 0;") if body >= 0 else None
                if change_in is not None:
                    summary = (
                        f"start {variable.name} at zero in each pass of the loop at line {model.statements[loop].line}"
                    )
                    yield Edit(_KIND, _INIT, one.line, summary, (change_in,), 0.12)


def _only(model: SourceModel, variable: Variable) -> bool:
    """Whether a declaration declares this variable alone."""
    return sum(v.start == variable.start for v in model.variables) == 1


def _reused(model: SourceModel, call: Call, name: str, filled: Sequence[Call]) -> bool:
    """Whether an earlier loop's sum is in the same accumulator, and nothing fills that between the two."""
    loops = _loops_around(model, _statement(model, call))
    if not loops:
        return False
    here = model.statements[loops[0]].start
    earlier = [
        one.start
        for one in model.wmma_calls
        if one.name == "mma_sync" and one.arguments and one.start < here and _root(model, one.arguments[0]) == name
    ]
    return bool(earlier) and not any(max(earlier) < one.start < call.start for one in filled)
