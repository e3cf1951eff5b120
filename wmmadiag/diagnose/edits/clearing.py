"""Give memory and values that a condition leaves out their neutral value: zero where nothing is loaded or masked.

Bad:
    if (row < n) tile[r][c] = src[row * D + c];        // the tail keeps what was there

Good:
    if (row < n) tile[r][c] = src[row * D + c];
    else tile[r][c] = __float2half(0.0f);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import after, mentions
from wmmadiag.diagnose.edits.conditions import conditions, parts
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Assignment, SourceModel, Span, Variable

_KIND = "clearing"
_TAIL = ("stale-tile", "tail-masking", "partial-fill", "uninitialised-memory")
_MASK = ("tail-masking", "masked-row", "causal-mask", "normalisation")
_INIT = ("accumulator-init", "uninitialised-memory", "accumulator-reset", "row-statistic")
_LOWEST = ("-INFINITY", "-FLT_MAX", "-HUGE_VALF", "-CUDART_INF_F")
_EXPONENTIALS = frozenset({"expf", "__expf", "exp2f", "exp", "exp2", "hexp", "__exp2f", "ex2"})


@generator(_KIND, *_TAIL, *_MASK[1:], "accumulator-init", "accumulator-reset", "row-statistic")
def generate(view: View) -> Iterator[Edit]:
    """Else branches, masked exponentials, initialisers, and zero stores beside the stores of a sibling."""
    yield from _else(view)
    yield from _masked(view)
    yield from _initialised(view)
    yield from _cleared_beside(view)


def zero_of(model: SourceModel, target: Span) -> str:
    """A zero for what a target names."""
    name = next((t for t in model.tokens[target.first : target.last] if t.kind == "id"), None)
    if "reinterpret_cast" in target.text or target.text.startswith("*("):
        words = [t.text for t in model.tokens[target.first : target.last]]
        vector = next((w for w in words if w in _VECTORS), "")
        return f"make_{vector}({', '.join('0' * _VECTORS[vector])})" if vector else "{}"
    variable = model.variable(name.text, name.offset) if name is not None else None
    element = variable.element if variable is not None else ""
    if element in ("half", "__half"):
        return "__float2half(0.0f)"
    if element in ("__nv_bfloat16", "nv_bfloat16"):
        return "__float2bfloat16(0.0f)"
    if element in ("float", "double"):
        return "0.0f"
    return "0" if not element or "char" in element or "int" in element else f"{element}(0)"


_VECTORS = {"uint4": 4, "int4": 4, "float4": 4, "uint2": 2, "int2": 2, "float2": 2}


def _assigned(model: SourceModel, index: int) -> Assignment | None:
    """The plain assignment that a statement is, or that a block holds as its only statement."""
    statement = model.statements[index]
    if statement.kind == "block":
        inner = [i for i, s in enumerate(model.statements) if s.parent == index]
        return _assigned(model, inner[0]) if len(inner) == 1 else None
    return next((a for a in model.assignments if a.statement == index and a.operator.text == "="), None)


def _else(view: View) -> Iterator[Edit]:
    model = view.model
    for statement in model.statements:
        if statement.kind != "if" or statement.orelse >= 0 or statement.body < 0:
            continue
        if not view.wanted(statement.start, statement.end):
            continue
        one = _assigned(model, statement.body)
        if one is not None and not one.target.text.isidentifier():
            zero = zero_of(model, one.target)
            code = f"{one.target.text} = {zero};"
            change = Change(statement.end, statement.end, f" else {code}")
            yield from view.offer(_KIND, _TAIL, statement.line, f"else {code}", (change,), 0.04)
        yield from _else_of_copy(view, statement.line, statement.body, statement.end)


def _else_of_copy(view: View, line: int, body: int, end: int) -> Iterator[Edit]:
    """A conditional 16-byte copy by a call: what is not copied is cleared."""
    model = view.model
    while model.statements[body].kind == "block":
        inner = [i for i, s in enumerate(model.statements) if s.parent == body]
        if len(inner) != 1:
            return
        body = inner[0]
    statement = model.statements[body]
    call = next((c for c in model.calls if c.start == statement.start), None)
    if call is None or len(call.arguments) < 2:
        return
    target = call.arguments[0]
    name = next((t for t in model.tokens[target.first : target.last] if t.kind == "id"), None)
    array = model.variable(name.text, name.offset) if name is not None else None
    if array is None or not (array.dims or array.pointer):
        return
    for vector, zeros in (("uint4", "0, 0, 0, 0"), ("uint2", "0, 0")):
        code = f"*reinterpret_cast<{vector}*>({target.text}) = make_{vector}({zeros});"
        change = Change(end, end, f" else {code}")
        rank = 0.05 if vector == "uint4" else 0.12
        yield from view.offer(_KIND, _TAIL, line, f"else clear {target.text}", (change,), rank)


def _masked(view: View) -> Iterator[Edit]:
    """`exp(x - m)` that must be zero where the score is masked or the key past the end."""
    model = view.model
    for call in model.calls:
        if call.name not in _EXPONENTIALS or not call.arguments or not view.wanted(call.start, call.end):
            continue
        whole = model.text[call.start : call.end]
        for text in _known_conditions(view, call.start):
            change = Change(call.start, call.end, f"(({text}) ? {whole} : 0.0f)")
            yield from view.offer(_KIND, _MASK, call.line, f"zero except where {text}", (change,), 0.06)
        argument = call.arguments[0]
        first = model.tokens[argument.first]
        variable = model.variable(first.text, first.offset)
        if variable is None or variable.element not in ("float", "auto"):
            continue
        minus = next((i for i in range(argument.first, argument.last) if model.tokens[i].text == "-"), argument.last)
        score = model.span(argument.first, minus)
        for value, rank in _mask_values(model):
            change = Change(call.start, call.end, f"({score.text} == {value} ? 0.0f : {whole})")
            summary = f"zero where {score.text} is {value}"
            yield from view.offer(_KIND, ("masked-row", "tail-masking"), call.line, summary, (change,), rank)


def _known_conditions(view: View, offset: int) -> list[str]:
    """Conditions of the same function whose names are known here, and that name a loop's variable or a local."""
    model = view.model
    function = model.function_at(offset)
    found: dict[str, None] = {}
    for piece in conditions(model):
        if function is None or not function.start <= piece.start < function.end:
            continue
        for operand in (piece, *(span for span, _ in parts(model, piece))):
            names = {t.text for t in model.tokens[operand.first : operand.last] if t.kind == "id"}
            known = all(model.variable(n, offset) is not None or n in model.constants for n in names)
            if known and "?" not in operand.text and any(mark in operand.text for mark in "<>="):
                found.setdefault(operand.text)
    return [*found][:6]


def _mask_values(model: SourceModel) -> list[tuple[str, float]]:
    """What this source masks with: names of hugely negative constants, and literals."""
    named = [(name, 0.045) for name, value in model.constants.items() if value < -1000]
    for variable in model.variables:
        initial = variable.initial.text if variable.initial is not None else ""
        masks = initial in _LOWEST or initial.startswith("-1e")
        if variable.const and masks and variable.kind in ("global", "local"):
            named.append((variable.name, 0.04))
    used = {p.text for t in model.ternaries for p in (t.yes, t.no)} | {a.value.text for a in model.assignments}
    return named[:3] + [(text, 0.05) for text in sorted(used) if text in _LOWEST or text.startswith("-1e")][:3]


def _initialised(view: View) -> Iterator[Edit]:
    """A local that is only added to: start it at zero; a reset that stands in the loop goes to the declaration."""
    model = view.model
    for variable in model.variables:
        if variable.kind != "local" or variable.shared or variable.initial is not None or variable.reference:
            continue
        if variable.pointer or not _number_type(variable):
            continue
        end = _declarator_end(model, variable)
        updates = [a for a in model.assignments if model.tokens[a.target.first].text == variable.name]
        updates = [a for a in updates if variable.visible[0] <= a.target.start < variable.visible[1]]
        touched = view.wanted(variable.start, variable.end)
        touched = touched or any(view.wanted(a.target.start, a.value.end) for a in updates)
        if not touched:
            continue
        value = " = {}" if variable.dims else " = 0"
        change = Change(end, end, value)
        yield from view.offer(_KIND, _INIT, variable.line, f"start {variable.name} at zero", (change,), 0.06)
        for one in updates:
            statement = model.statements[one.statement]
            if one.operator.text == "=" and one.value.text.rstrip("f").rstrip("0") in ("", ".", "0."):
                gone = Change(statement.start, statement.end, ";" if statement.parent < 0 else "")
                summary = f"start {variable.name} at zero, once"
                faults = ("accumulator-reset", "normalisation", "row-statistic")
                yield from view.offer(_KIND, faults, one.line, summary, (change, gone), 0.03)


def _number_type(variable: Variable) -> bool:
    words = set(variable.element.split())
    return bool(words) and words <= {"float", "double", "int", "half", "__half", "unsigned", "uint32_t", "half2"}


def _declarator_end(model: SourceModel, variable: Variable) -> int:
    if variable.dims:
        last = variable.dims[-1].last
        return model.tokens[last].end
    return variable.name_at + len(variable.name)


def _cleared_beside(view: View) -> Iterator[Edit]:
    """A shared array that is accumulated into and never cleared: clear it where a sibling array is filled."""
    model = view.model
    if view.lines is None:
        return
    written = {model.tokens[a.target.first].text for a in model.assignments}
    for array in model.arrays:
        names = {array.name}
        for one in model.assignments:
            if one.operator.text != "=" or "[" not in one.target.text or names & {one.target.text}:
                continue
            tokens = model.tokens[one.target.first : one.target.last]
            mine = [i for i, t in enumerate(tokens) if t.text == "["]
            if not mine or (model.function_at(one.line) is None and model.function_at(one.target.start) is None):
                continue
            base = tokens[mine[0] - 1]
            source = model.variable(base.text, base.offset)
            if source is None or source.name == array.name or len(source.dims) != len(array.dims):
                continue
            if array.element not in ("float", "half", "__half") or array.name not in written:
                continue
            index = model.text[tokens[mine[0]].offset : one.target.end]
            at = model.token_at(array.name_at)
            code = f"{array.name}{index} = {zero_of(model, model.span(at, at + 1))};"
            change = after(model, one.statement, code)
            if change is not None:
                summary = f"clear {array.name} where {source.name} is filled"
                yield from view.offer(_KIND, _INIT, one.line, summary, (change,), 0.1)
    yield from _cleared_members(view)


def _cleared_members(view: View) -> Iterator[Edit]:
    """The same for members of a struct of arrays: `smem.o[r][d] = 0` beside `smem.q[r][d] = …`."""
    model = view.model
    bases = {s.base.text: s for s in model.subscripts if "." in s.base.text}
    for name, accumulated in bases.items():
        updates = [s for s in model.subscripts if s.base.text == name and view.wanted(s.start, s.end)]
        if not updates:
            continue
        for one in model.assignments:
            if one.operator.text != "=" or "[" not in one.target.text or "." not in one.target.text:
                continue
            base, _, index = one.target.text.partition("[")
            if base == name or one.target.text.count("[") != len(accumulated.indices):
                continue
            code = f"{name}[{index} = 0.0f;"
            change = after(model, one.statement, code)
            if change is not None and not mentions(model, one.value, name):
                summary = f"clear {name} where {base} is filled"
                yield from view.offer(_KIND, _INIT, updates[0].line, summary, (change,), 0.07)
