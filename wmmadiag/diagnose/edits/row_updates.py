"""Repeat for a row's other elements what is done for one: rescale the output tile, join the lanes' partial sums.

Bad:
    mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, 1));
    for (int c = lane & 1; c < N; c += 2) sum += p[c];      // each lane keeps the sum of its half

Good:
    ...
    sum += __shfl_xor_sync(~0u, sum, 1);
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import after, anchor
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.running_softmax import rescales
from wmmadiag.diagnose.source.model import Statement, Variable

_KIND = "row-updates"
_REDUCED = ("reduction", "normalisation", "row-statistic")
_NAME = re.compile(r"[A-Za-z_]\w*")


@generator(_KIND, *_REDUCED, "rescale-missing", "exp-base", "local-array")
def generate(view: View) -> Iterator[Edit]:
    """Missing steps of a reduction, missing rescaling of a row, the neighbour of an element, arrays of one warp."""
    if view.lines is None:
        return
    yield from _lanes_joined(view)
    yield from _rows_rescaled(view)
    yield from _neighbours(view)
    yield from _base(view)
    yield from _shared_instead(view)


def _lanes_joined(view: View) -> Iterator[Edit]:
    """The offsets with which another variable is reduced, for a sum that is not."""
    model = view.model
    shuffles = [c for c in model.calls if c.name == "__shfl_xor_sync" and len(c.arguments) >= 3]
    joined = {c.arguments[1].text for c in shuffles}
    offsets = sorted({c.arguments[2].text for c in shuffles if c.arguments[2].text.isdigit()}, key=int)
    if not offsets:
        return
    mask = shuffles[0].arguments[0].text
    for variable in model.variables:
        if variable.element != "float" or variable.dims or variable.pointer or variable.name in joined:
            continue
        places = [a.statement for a in model.assignments if a.target.text == variable.name]
        places += [model.statement_at(variable.start)] if variable.initial is not None else []
        for place in places:
            while place >= 0:
                statement = model.statements[place]
                change = None
                if anchor(model, place) == place and variable.visible[0] <= statement.end < variable.visible[1]:
                    code = " ".join(
                        f"{variable.name} += __shfl_xor_sync({mask}, {variable.name}, {o});" for o in offsets
                    )
                    change = after(model, place, code)
                if change is not None and _close(view, statement):
                    summary = f"add up {variable.name} over the lanes that share a row"
                    line = statement.line if view.line_wanted(statement.line) else min(view.lines or {statement.line})
                    yield from view.offer(_KIND, _REDUCED, line, summary, (change,), 0.05)
                place = statement.parent


def _close(view: View, statement: Statement) -> bool:
    return any(statement.line - 6 <= line <= statement.last_line + 6 for line in view.lines or ())


def _rows_rescaled(view: View) -> Iterator[Edit]:
    """Multiply a row by the factor by which the maximum grew, with the loop that runs over such a row elsewhere."""
    model = view.model
    for index, statement in enumerate(model.statements):
        one = next((a for a in model.assignments if a.statement == index), None)
        if one is None or anchor(model, index) != index or not view.wanted(statement.start, statement.end):
            continue
        for factor, extra in rescales(view, statement.end - 1)[:2]:
            if not factor.isidentifier():
                continue
            for loop in model.loops:
                head = model.statements[loop]
                if head.kind != "for" or not head.init:
                    continue
                own = {t.text for t in model.tokens[head.init.first : head.init.last] if t.kind == "id"}
                for element in model.subscripts:
                    if not head.head_end <= element.start < head.end or element.end > head.end:
                        continue
                    text = model.text[element.start : element.end]
                    code = f"{model.text[head.start : head.head_end]} {text} *= {factor};"
                    names = set(_NAME.findall(model.text[head.start : head.head_end] + text)) - own
                    known = all(
                        model.variable(n, statement.end - 1) is not None or n in model.constants
                        for n in names & _declared(view)
                    )
                    array = model.variable(element.name, element.start)
                    if not known or (array is not None and array.element not in ("float", "auto")):
                        continue
                    change = after(model, index, code)
                    if change is not None:
                        summary = f"rescale {text} along the row by {factor}"
                        rank = 0.08 + extra + min(abs(head.line - statement.line), 60) * 0.0005
                        yield from view.offer(_KIND, ("rescale-missing",), one.line, summary, (change,), rank)


def _declared(view: View) -> set[str]:
    return {variable.name for variable in view.model.variables}


def _neighbours(view: View) -> Iterator[Edit]:
    """`x[2 * h] *= f` without its neighbour `x[2 * h + 1] *= f`."""
    model = view.model
    for one in model.assignments:
        if one.operator.text not in ("*=", "/=", "+=") or not view.wanted(one.target.start, one.value.end):
            continue
        close = model.tokens[one.target.last - 1]
        if close.text != "]":
            continue
        statement = model.statements[one.statement]
        text = model.text[one.target.start : close.offset] + " + 1" + model.text[close.offset : statement.end]
        whole = model.text[statement.start : statement.end]
        if anchor(model, one.statement) == one.statement:
            change: Change | None = after(model, one.statement, text)
        else:
            change = Change(statement.start, statement.end, "{ " + whole + " " + text + " }")
        if change is not None:
            faults = ("rescale-missing", "normalisation")
            yield from view.offer(_KIND, faults, one.line, "the next element, too", (change,), 0.07)


def _base(view: View) -> Iterator[Edit]:
    """A scale that goes into exp2 must hold log2(e)."""
    model = view.model
    if not any(call.name in ("exp2f", "exp2", "ex2", "h2exp2") for call in model.calls):
        return
    for variable in model.variables:
        if variable.element == "float" and variable.initial is not None and view.wanted(variable.start, variable.end):
            change = Change(variable.initial.end, variable.initial.end, " * 1.44269504088896f")
            yield from view.offer(_KIND, ("exp-base",), variable.line, "times log2(e)", (change,), 0.04)


def _shared_instead(view: View) -> Iterator[Edit]:
    """WMMA loads and stores work on shared or global memory: a tile per warp in place of a thread's own array."""
    model = view.model
    for variable in model.variables:
        local = variable.kind == "local" and not variable.shared and variable.initial is None
        if not local or len(variable.dims) != 1 or not _stored_to(view, variable):
            continue
        extent, name = variable.dims[0].text, variable.name
        qualified = f"__shared__ __align__(32) {variable.element}"
        stores = [c for c in model.wmma_calls if c.arguments and c.arguments[0].text == name]
        sync = tuple(
            c for call in stores if (c := after(model, model.statement_at(call.start), "__syncwarp();")) is not None
        )
        warp = "(threadIdx.x + threadIdx.y * blockDim.x) / 32"
        for warps, rank in (("", 0.06), ("8", 0.05), ("4", 0.055), ("16", 0.07)):
            code = f"{qualified} {name}[{extent}];"
            if warps:
                code = f"{qualified} {name}_of[{warps}][{extent}]; {variable.element}* {name} = {name}_of[{warp}];"
            line = variable.line if view.line_wanted(variable.line) else min(view.lines or {variable.line})
            changes = (Change(variable.start, variable.end, code), *sync)
            yield from view.offer(_KIND, ("local-array",), line, "a shared tile per warp", changes, rank)


def _stored_to(view: View, variable: Variable) -> bool:
    return any(
        call.name in ("store_matrix_sync", "load_matrix_sync")
        and any(argument.text == variable.name for argument in call.arguments)
        for call in view.model.wmma_calls
    )
