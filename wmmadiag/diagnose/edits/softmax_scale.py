"""Scale the scores once by 1 / sqrt(D), and use the exponential whose base fits.

Bad:
    p = exp2f(score - row_max);

Good:
    p = exp2f((score - row_max) * 1.44269504f);
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import before, bracketed, mentions, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.edits.terms import factors, terms
from wmmadiag.diagnose.source.model import Call, SourceModel, Span

_KIND = "softmax-scale"
_SCALE, _BASE = "softmax-scale", "exp-base"
_TO_OTHER = {"expf": "exp2f", "__expf": "exp2f", "exp": "exp2", "exp2f": "expf", "exp2": "exp"}
_LOG2E = 1.4426950408889634


@generator(_KIND, _SCALE, _BASE)
def generate(view: View) -> Iterator[Edit]:
    """Exponentials and their factors; a missing, doubled or different scale."""
    yield from _throughout(view)
    yield from _exponentials(view)
    yield from _unscaled_scores(view)
    yield from _factors(view)


def scales(view: View, offset: int) -> list[tuple[str, float]]:
    """What may be the scale at an offset: float parameters, one that nothing uses first, then 1 / sqrt of an extent."""
    model = view.model
    found: dict[str, float] = {}
    for variable in model.visible(offset):
        plain = variable.element in ("float", "double") and not variable.pointer and not variable.dims
        if plain and variable.kind == "parameter":
            uses = sum(t.text == variable.name for t in model.tokens)
            found[variable.name] = 0.0 if uses < 2 else 0.01
        elif plain and variable.initial is not None and any(w in variable.initial.text for w in ("sqrt", "scale")):
            found[variable.name] = 0.01
        elif plain and (variable.const or variable.kind == "global") and view.number(variable.name) is not None:
            found[variable.name] = 0.03
    for name, value in view.values.items():
        if name in ("D", "d", "head_dim", "dim") and value > 0:
            found[f"{1 / math.sqrt(value):.9g}f"] = 0.02
    for name, value in model.constants.items():
        known = model.variable(name, offset) is not None or not any(v.name == name for v in model.variables)
        if known and value in (16, 32, 48, 64, 80, 96, 128, 192, 256) and name[:2] != "__":
            found[f"rsqrtf((float){name})"] = 0.05
    for variable in view.integers(offset):
        if variable.kind == "parameter" and view.number(variable.name) is None:
            found[f"rsqrtf((float){variable.name})"] = 0.06
    return sorted(found.items(), key=lambda item: item[1])[:6]


def _throughout(view: View) -> Iterator[Edit]:
    """Another base for every exponential of the kernel at once: a softmax has one."""
    by_name: dict[str, list[Call]] = {}
    for call in view.model.calls:
        if call.name in _TO_OTHER and len(call.arguments) == 1:
            by_name.setdefault(call.name, []).append(call)
    for name, calls in by_name.items():
        wanted = [call for call in calls if view.wanted(call.start, call.end)]
        if len(calls) < 2 or not wanted:
            continue
        other = _TO_OTHER[name]
        changes = tuple(Change(call.name_at, call.name_at + len(name), other) for call in calls)
        yield Edit(_KIND, _BASE, wanted[0].line, f"{other} in place of {name} throughout", changes, 0.02)


def _exponentials(view: View) -> Iterator[Edit]:
    model = view.model
    for call in model.calls:
        if call.name not in _TO_OTHER or len(call.arguments) != 1 or not view.wanted(call.start, call.end):
            continue
        argument, other = call.arguments[0], _TO_OTHER[call.name]
        name = Change(call.name_at, call.name_at + len(call.name), other)
        yield Edit(_KIND, _BASE, call.line, f"{other} in place of {call.name}", (name,), 0.04)
        factor = f"{_LOG2E:.8f}f"
        times = replaced(argument, f"({argument.text}) * {factor}")
        summary = f"multiply the exponent by log2(e) = {factor}"
        yield Edit(_KIND, _BASE, call.line, summary, (times,), 0.04 if "2" in call.name else 0.1)
        if "2" not in call.name:
            yield Edit(_KIND, _BASE, call.line, f"{other}, with log2(e) in the exponent", (name, times), 0.12)
        for term in terms(model, argument):
            for part in factors(model, term):
                for change in _without(model, term, part):
                    yield Edit(_KIND, _SCALE, call.line, f"without the factor {part.text}", (change,), 0.11)
        for scale, extra in scales(view, call.start):
            for piece in (argument, *terms(model, argument)[:1]):
                if mentions(model, piece, scale):
                    continue
                text = f"{bracketed(piece.text)} * {scale}"
                summary = f"scale {piece.text} by {scale}"
                yield Edit(_KIND, _SCALE, piece.line, summary, (replaced(piece, text),), 0.08 + extra)


def _without(model: SourceModel, term: Span, part: Span) -> Iterator[Change]:
    """Take one factor out of a product."""
    if part.first == term.first and part.last == term.last:
        return
    if part.first > term.first:
        yield Change(model.tokens[part.first - 1].offset, part.end, "")
    else:
        yield Change(part.start, model.tokens[part.last].end, "")


def _unscaled_scores(view: View) -> Iterator[Edit]:
    """Scale an accumulator before it is stored; or the value of an assignment or initialiser."""
    model = view.model
    for call in model.wmma_calls:
        if call.name != "store_matrix_sync" or len(call.arguments) < 4 or not view.wanted(call.start, call.end):
            continue
        piece, index = call.arguments[1], model.statement_at(call.start)
        for scale, extra in scales(view, call.start):
            code = f"for (int t = 0; t < {piece.text}.num_elements; ++t) {piece.text}.x[t] *= {scale};"
            change = before(model, index, code)
            if change is not None:
                yield Edit(_KIND, _SCALE, call.line, f"scale {piece.text} by {scale}", (change,), 0.05 + extra)
    for value, rank in _float_values(view):
        for scale, extra in scales(view, value.start):
            if mentions(model, value, scale):
                continue
            change = replaced(value, f"{bracketed(value.text)} * {scale}")
            yield Edit(_KIND, _SCALE, value.line, f"scale by {scale}", (change,), rank + extra)


def _float_values(view: View) -> Iterator[tuple[Span, float]]:
    """Right-hand sides of floats on wanted lines, only where lines are given."""
    model = view.model
    if view.lines is None:
        return
    for one in model.assignments:
        if not view.wanted(one.target.start, one.value.end) or one.operator.text not in ("=", "+="):
            continue
        target = model.variable(model.tokens[one.target.first].text, one.target.start)
        if (
            target is not None
            and target.element in ("float", "double")
            and not _pointer_itself(one.target, target.pointer)
        ):
            yield one.value, 0.1
    for variable in model.variables:
        here = variable.initial is not None and view.wanted(variable.start, variable.end) and not variable.dims
        if (
            here
            and variable.initial is not None
            and variable.element in ("float", "double", "auto")
            and not variable.pointer
        ):
            yield variable.initial, 0.1
    for ternary in model.ternaries:
        if view.wanted(ternary.condition.start, ternary.no.end):
            yield from ((branch, 0.08) for branch in (ternary.yes, ternary.no) if _computed(model, branch))
    for call in model.calls:
        if call.name in ("fmaxf", "max", "fmax") and view.wanted(call.start, call.end):
            for argument in call.arguments:
                if "[" in argument.text:
                    yield argument, 0.14


def _computed(model: SourceModel, piece: Span) -> bool:
    """Whether a value is made from a float in memory or in a variable."""
    names = (t for t in model.tokens[piece.first : piece.last] if t.kind == "id")
    found = (model.variable(t.text, t.offset) for t in names)
    return any(v is not None and v.element in ("float", "double") for v in found)


def _pointer_itself(target: Span, pointer: bool) -> bool:
    return pointer and target.last - target.first == 1


def _factors(view: View) -> Iterator[Edit]:
    """A factor that is there already: take it out, take its root or its square, use another scale."""
    model = view.model
    for index, token in enumerate(model.tokens):
        if token.text == "*=" and view.wanted(token.offset):
            statement = model.statement_at(token.offset)
            end = model.statements[statement].last - 1 if statement >= 0 else index + 2
            value = model.span(index + 1, end)
            if value:
                yield Edit(
                    _KIND, _SCALE, token.line, f"without the factor {value.text}", (replaced(value, "1.0f"),), 0.1
                )
                for scale, extra in scales(view, token.offset):
                    if scale != value.text:
                        summary = f"scale by {scale}, not {value.text}"
                        yield Edit(_KIND, _SCALE, token.line, summary, (replaced(value, scale),), 0.09 + extra)
    for call in model.calls:
        if call.name in ("sqrtf", "rsqrtf", "sqrt") and call.arguments and view.wanted(call.start, call.end):
            whole, argument = (call.start, call.end), call.arguments[0].text
            for text, rank in ((f"({argument})", 0.12), (f"rsqrtf({argument})", 0.08), (f"sqrtf({argument})", 0.08)):
                yield Edit(_KIND, _SCALE, call.line, f"{text} as the factor", (Change(*whole, text),), rank)
    for variable in model.variables:
        initial = variable.initial
        if (
            initial is None
            or variable.element not in ("float", "double")
            or not view.wanted(variable.start, variable.end)
        ):
            continue
        at = next((i for i in range(initial.first + 1, initial.last - 1) if model.tokens[i].text == "/"), -1)
        if at >= 0:
            divisor = model.span(at + 1, initial.last)
            if "sqrt" not in divisor.text:
                text = f"sqrtf({divisor.text})"
                yield Edit(_KIND, _SCALE, variable.line, f"divide by {text}", (replaced(divisor, text),), 0.05)
        for text, extra in scales(view, variable.name_at):
            if text not in (initial.text, variable.name):
                summary = f"{variable.name} = {text}"
                yield Edit(_KIND, _SCALE, variable.line, summary, (replaced(initial, text),), 0.15 + extra)
    for index, token in enumerate(model.tokens):
        if token.text != "*" or not view.wanted(token.offset) or index + 2 >= len(model.tokens):
            continue
        following = model.tokens[index + 1]
        factor = model.variable(following.text, following.offset)
        if factor is None or factor.element != "float" or factor.pointer or factor.dims:
            continue
        previous = model.tokens[index - 1]
        if model.tokens[index + 2].text in ("[", "(", ".") or not (
            previous.kind in ("id", "num") or previous.text in (")", "]")
        ):
            continue
        gone = Change(token.offset, following.end, "")
        yield Edit(_KIND, _SCALE, token.line, f"without the factor {following.text}", (gone,), 0.12)
        over = Change(token.offset, following.end, f"/ {following.text}")
        yield Edit(_KIND, _SCALE, token.line, f"divide by {following.text}", (over,), 0.2)
