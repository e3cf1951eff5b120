"""Pass the pitch that the array really has, as leading dimension of a WMMA access or as stride in an index.

Bad:
    __shared__ half tile[16][72];
    wmma::load_matrix_sync(a, &tile[0][0], 64);

Good:
    __shared__ half tile[16][72];
    wmma::load_matrix_sync(a, &tile[0][0], 72);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import bracketed, replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import base_of, factors, memory_arguments, origin, pitches, terms
from wmmadiag.diagnose.source.model import Span, Variable

_KIND = "leading-dimension"
_MOST = 14
_STRIDES = ("tensor-strides", "leading-dimension")


@generator(_KIND, "leading-dimension", "tensor-strides")
def generate(view: View) -> Iterator[Edit]:
    """Leading dimensions of WMMA loads and stores, those that callers pass on, then strides in index expressions."""
    yield from _calls(view)
    yield from _passed(view)
    yield from _indices(view)


def _calls(view: View) -> Iterator[Edit]:
    model = view.model
    for call in model.wmma_calls:
        pointer, ldm = memory_arguments(call.name, call.arguments)
        if pointer is None or ldm is None or not view.wanted(call.start, call.end):
            continue
        for one in pitches(view, base_of(model, pointer), call.start, ldm.text)[:_MOST]:
            summary = f"pass {one.text} as the leading dimension ({one.why})"
            yield Edit(_KIND, "leading-dimension", ldm.line, summary, (replaced(ldm, one.text),), min(one.rank, 1.0))


def _passed(view: View) -> Iterator[Edit]:
    """What a caller passes as the parameter that a helper uses as a leading dimension."""
    model = view.model
    for inner in model.wmma_calls:
        pointer, ldm = memory_arguments(inner.name, inner.arguments)
        function = model.function_at(inner.start)
        if pointer is None or ldm is None or function is None or function.kernel:
            continue
        names = [parameter.name for parameter in function.parameters]
        base = base_of(model, pointer)
        if ldm.text not in names or base is None or base.name not in names:
            continue
        at, of = names.index(ldm.text), names.index(base.name)
        for call in model.calls:
            if call.name != function.name or len(call.arguments) != len(names) or not view.wanted(call.start, call.end):
                continue
            given = call.arguments[at]
            for one in pitches(view, base_of(model, call.arguments[of]), call.start, given.text)[:_MOST]:
                summary = f"pass {one.text} as {ldm.text} of {function.name} ({one.why})"
                yield Edit(
                    _KIND, "leading-dimension", given.line, summary, (replaced(given, one.text),), min(one.rank, 1.0)
                )


def _indices(view: View) -> Iterator[Edit]:
    model = view.model
    for piece, base in addresses(view):
        array = origin(model, base)
        faults = ("leading-dimension", "tensor-strides") if array is not None and array.dims else _STRIDES
        for term in terms(model, piece):
            parts = factors(model, term)
            for part in parts if len(parts) > 1 else ():
                inner = part.text.strip("()")
                if not _stride(view, part):
                    continue
                for one in pitches(view, base, piece.start, inner)[:8]:
                    change = replaced(part, bracketed(one.text))
                    summary = f"use {one.text} as the stride in place of {part.text} ({one.why})"
                    rank = min(0.12 + one.rank, 1.0)
                    yield from view.offer(_KIND, faults, part.line, summary, (change,), rank)


def addresses(view: View) -> Iterator[tuple[Span, Variable | None]]:
    """Index expressions and pointer sums on wanted lines, each with the array or pointer it starts from."""
    model = view.model
    for subscript in model.subscripts:
        if view.wanted(subscript.start, subscript.end) and len(subscript.indices) == 1:
            yield subscript.indices[0], model.variable(subscript.name, subscript.start)
    seen = set()
    for call in model.calls:
        if not view.wanted(call.start, call.end):
            continue
        for argument in call.arguments:
            if argument.first in seen or argument.last - argument.first < 3:
                continue
            first = model.tokens[argument.first]
            variable = model.variable(first.text, first.offset) if first.kind == "id" else None
            if (
                variable is not None
                and (variable.pointer or variable.dims)
                and model.tokens[argument.first + 1].text == "+"
            ):
                seen.add(argument.first)
                yield argument, variable
    for index, token in enumerate(model.tokens):
        if token.text == "(" and model.match[index] > index + 3 and view.wanted(token.offset):
            called = index > 0 and (model.tokens[index - 1].kind == "id" or model.tokens[index - 1].text == ">")
            first = model.tokens[index + 1]  # `*(const int4*)(p + row * ld)`
            variable = model.variable(first.text, first.offset) if first.kind == "id" and not called else None
            pointed = variable is not None and (variable.pointer or variable.dims)
            if pointed and model.tokens[index + 2].text == "+" and index + 1 not in seen:
                yield model.span(index + 1, model.match[index]), variable
    for variable in model.variables:
        if (
            variable.pointer
            and variable.initial is not None
            and variable.kind == "local"
            and view.wanted(variable.start, variable.end)
        ):
            base = base_of(model, variable.initial)
            if base is not None:
                yield variable.initial, base
    for one in model.assignments:
        if not view.wanted(one.target.start, one.value.end):
            continue
        target = model.variable(one.target.text, one.target.start)
        if target is not None and target.pointer and one.operator.text in ("+=", "="):
            yield one.value, target


def _stride(view: View, part: Span) -> bool:
    """Whether a factor can be a distance: a literal of at least 8, a constant, a parameter, or a sum of such."""
    model = view.model
    value = view.value(part)
    if value is not None:
        return value >= 8
    if part.last - part.first == 1:
        variable = model.variable(part.text, part.start)
        return variable is not None and not variable.pointer and (variable.kind == "parameter" or variable.const)
    return part.text.startswith("(") and not any(c in part.text for c in "?<")
