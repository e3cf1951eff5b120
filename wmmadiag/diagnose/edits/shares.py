"""Let a share of a length end where the length does: parts that are rounded up, fragments that take whole slices.

Bad:
    const int share = (K / 16 + parts - 1) / parts * 16, first = blockIdx.z * share;
    for (int k = first; k < first + share; k += 16) …             // the last part runs past K

Good:
    const int share = (K / 16 + parts - 1) / parts * 16, first = blockIdx.z * share;
    for (int k = first; k < min(K, first + share); k += 16) …
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.block_ends import made_of
from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import SourceModel, Span, Statement

_KIND = "shares"
_ALL = ("loop-extent", "out-of-bounds", "fragment-footprint", "tail-masking", "partial-fill", "index-arithmetic")
_DEEP = 3
_SLICES = ("loop-extent", "out-of-bounds", "fragment-footprint", "tail-masking")
_LIKELY, _WHOLE = 0.03, 0.05
_DOWN = frozenset({"min", "fminf", "?"})


@generator(_KIND, *_ALL, derived=True)
def generate(view: View) -> Iterator[Edit]:
    """Ends of the shares that blocks and warps get, and loops over fragments that take part of a last slice."""
    yield from _ends(view)
    yield from _whole_slices(view)


def _ends(view: View) -> Iterator[Edit]:
    """`first + share` as an end: in a variable, or in a loop's own condition."""
    model = view.model
    for variable in model.variables:
        if variable.initial is None or variable.kind != "local" or variable.dims or not is_integer(variable):
            continue
        if view.wanted(variable.start, variable.end) and _is_end(model, variable.name, variable.visible):
            yield from _clamped(view, variable.initial)
    for statement in model.statements:
        bound = _bound(model, statement)
        if bound is not None and view.wanted(statement.start, statement.head_end):
            yield from _clamped(view, bound)


def _bound(model: SourceModel, statement: Statement) -> Span | None:
    condition = statement.condition if statement.loop else None
    if condition is None:
        return None
    at = next((i for i in range(condition.first, condition.last) if model.tokens[i].text == "<"), -1)
    return model.span(at + 1, condition.last) if 0 <= at < condition.last - 1 else None


def _is_end(model: SourceModel, name: str, visible: tuple[int, int]) -> bool:
    """Whether something stays below a variable: in a condition, or in a function that takes it."""
    return any(
        token.text == name and visible[0] <= token.offset < visible[1] and model.tokens[index - 1].text in ("<", ",")
        for index, token in enumerate(model.tokens)
    )


def _clamped(view: View, end: Span) -> Iterator[Edit]:
    model = view.model
    words = [token.text for token in model.tokens[end.first : end.last]]
    split = terms(model, end)
    if len(split) != 2 or not _DOWN.isdisjoint(words):  # a beginning and a share
        return
    made = [made_of(model, term, 0) for term in split]
    first = next((at for at in (0, 1) if {"blockIdx", "threadIdx"} & made[at]), -1)
    if first < 0 or {"blockIdx", "threadIdx"} & made[1 - first]:
        return
    share = split[1 - first]
    if not {"-", "/"} <= made[1 - first]:  # parts that are not rounded up need no such end: `clamps` tries them
        return
    for number, length in enumerate(dict.fromkeys(_lengths(model, share, 0))):
        if length != share.text:
            rank = _LIKELY + 0.002 * number
            change = replaced(end, f"min((int)({length}), (int)({end.text}))")
            yield from view.offer(_KIND, _ALL, end.line, f"end at {length} at the latest", (change,), rank)


def _lengths(model: SourceModel, piece: Span, depth: int) -> Iterator[str]:
    """Parameters, and members of parameters, that an expression is made of."""
    index = piece.first
    while index < piece.last:
        token = model.tokens[index]
        variable = model.variable(token.text, token.offset) if token.kind == "id" else None
        last = index + 1
        while last + 1 < piece.last and model.tokens[last].text in (".", "->"):
            last += 2
        if variable is not None and variable.kind == "parameter" and not variable.dims:
            if last > index + 1 or (is_integer(variable) and not variable.pointer):
                yield model.span(index, last).text
        elif variable is not None and variable.initial is not None and is_integer(variable) and depth < _DEEP:
            yield from _lengths(model, variable.initial, depth + 1)
        index = last


def _whole_slices(view: View) -> Iterator[Edit]:
    """`k < K` of a loop in steps of a fragment: what is less than a fragment is left to other code."""
    model = view.model
    loads = [call for call in model.wmma_calls if call.name == "load_matrix_sync"]
    for statement in model.statements:
        condition, step = statement.condition, statement.step
        if (
            not statement.loop
            or condition is None
            or step is None
            or not view.wanted(statement.start, statement.head_end)
        ):
            continue
        at = next((i for i in range(condition.first, condition.last) if model.tokens[i].text == "<"), -1)
        by = next((i for i in range(step.first, step.last) if model.tokens[i].text == "+="), -1)
        if at < 0 or by < 0 or not any(statement.start < call.start < statement.end for call in loads):
            continue
        width, index = model.span(by + 1, step.last).text, model.span(condition.first, at)
        changes = (replaced(index, f"{index.text} + {width}"), replaced(model.tokens[at], "<="))
        yield from view.offer(_KIND, _SLICES, condition.line, f"whole slices of {width} only", changes, _WHOLE)
