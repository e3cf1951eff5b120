"""Let a warp's reduction cover all of its lanes, with the operator that was meant.

Bad:
    for (int offset = 8; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);

Good:
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffff, sum, offset);
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Call, SourceModel
from wmmadiag.diagnose.source.softmax import trees

_KIND = "reductions"
_ALL = ("reduction", "row-statistic")
_SHUFFLES = {
    "__shfl_xor_sync": ("__shfl_down_sync", "__shfl_sync"),
    "__shfl_down_sync": ("__shfl_xor_sync", "__shfl_up_sync"),
    "__shfl_up_sync": ("__shfl_down_sync", "__shfl_xor_sync"),
    "__shfl_sync": ("__shfl_xor_sync",),
}
_STEPS = (16, 8, 4, 2, 1)


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Offsets, widths, masks, kinds of shuffles; the loop around them; the operator that joins them."""
    model = view.model
    for call in model.calls:
        if call.name not in _SHUFFLES:
            continue
        loop = next(
            (at for at in model.enclosing(model.statement_at(call.start)) if model.statements[at].kind == "for"), -1
        )
        here = view.wanted(call.start, call.end)
        if here or (loop >= 0 and view.wanted(model.statements[loop].start, model.statements[loop].head_end)):
            yield from _loop(view, call, loop)
        if here:
            yield from _shuffle(view, call)
    for loop in trees(model):
        if view.wanted(model.statements[loop].start, model.statements[loop].end):
            yield from _extent(view, loop, model.statements[loop].line)
    yield from _operators(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def _loop(view: View, call: Call, loop: int) -> Iterator[Edit]:
    """First offset and last offset of the loop around a shuffle."""
    if loop >= 0 and len(call.arguments) >= 3:
        line = call.line if view.wanted(call.start, call.end) else view.model.statements[loop].line
        yield from _extent(view, loop, line)


def _extent(view: View, loop: int, line: int) -> Iterator[Edit]:
    """Where a loop over distances begins and ends."""
    model = view.model
    statement = model.statements[loop]
    if statement.init is None or statement.condition is None:
        return
    equals = next((i for i in range(statement.init.first, statement.init.last) if model.tokens[i].text == "="), -1)
    if equals >= 0 and equals + 1 < statement.init.last:
        value = model.span(equals + 1, statement.init.last)
        if not value.text.isdigit():
            for text in (f"2 * ({value.text})", f"({value.text}) / 2"):
                yield from _each(view, line, f"begin with distance {text}", (replaced(value, text),), 0.08)
        for step in _STEPS:
            if value.text != str(step):
                yield from _each(
                    view, line, f"begin with offset {step}", (replaced(value, str(step)),), 0.06 + step / 500
                )
    for index in range(statement.condition.first, statement.condition.last):
        token = model.tokens[index]
        if token.text in (">", ">=", "<", "<=") and index + 1 < statement.condition.last:
            bound = model.span(index + 1, statement.condition.last)
            for text in ("0", "1", "2", "16", "32"):
                if text != bound.text:
                    summary = f"while the offset is {token.text} {text}"
                    yield from _each(view, line, summary, (replaced(bound, text),), 0.1)
            other = {">": ">=", ">=": ">", "<": "<=", "<=": "<"}[token.text]
            yield from _each(view, line, f"while the offset is {other} {bound.text}", (replaced(token, other),), 0.1)


def _shuffle(view: View, call: Call) -> Iterator[Edit]:
    if len(call.arguments) < 3:
        return
    mask, _, offset = call.arguments[:3]
    if offset.text.isdigit():
        for step in _STEPS:
            if offset.text != str(step):
                yield from _each(view, call.line, f"offset {step}", (replaced(offset, str(step)),), 0.07)
    for other in _SHUFFLES[call.name]:
        change = Change(call.name_at, call.name_at + len(call.name), other)
        yield from _each(view, call.line, f"{other} in place of {call.name}", (change,), 0.09)
    if len(call.arguments) > 3:
        width = call.arguments[3]
        for text in ("32", "16", "8", "4"):
            if text != width.text:
                yield from _each(view, call.line, f"width {text}", (replaced(width, text),), 0.1)
        gone = Change(offset.end, width.end, "")
        yield from _each(view, call.line, "over the whole warp", (gone,), 0.1)
    if mask.text.lower() not in ("0xffffffff", "0xffffffffu"):
        yield from _each(view, call.line, "with all lanes in the mask", (replaced(mask, "0xffffffffu"),), 0.12)
    yield from _repeat(view, call)


def _repeat(view: View, call: Call) -> Iterator[Edit]:
    """One more step of an unrolled reduction: the same statement with another offset."""
    model = view.model
    index = model.statement_at(call.start)
    statement = model.statements[index] if index >= 0 else None
    offset = call.arguments[2]
    if statement is None or statement.kind != "expression" or not offset.text.isdigit():
        return
    for step in _STEPS:
        text = model.text[statement.start : offset.start] + str(step) + model.text[offset.end : statement.end]
        if step != int(offset.text):
            change = Change(statement.end, statement.end, " " + text)
            yield from _each(view, call.line, f"reduce over offset {step}, too", (change,), 0.1)


def _operators(view: View) -> Iterator[Edit]:
    """A sum where a maximum was meant, and the reverse."""
    model = view.model
    for one in model.assignments:
        if not view.wanted(one.target.start, one.value.end):
            continue
        if one.operator.text == "+=":
            change = Change(
                one.target.start, one.value.end, f"{one.target.text} = fmaxf({one.target.text}, {one.value.text})"
            )
            rank = 0.1 if "shfl" in one.value.text else 0.24
            yield from _each(view, one.line, f"take the maximum of {one.target.text}", (change,), rank)
        at = next((i for i in range(one.value.first, one.value.last) if model.tokens[i].text == "+"), -1)
        if one.operator.text == "=" and at > 0 and "shfl" in one.value.text:
            opened = model.tokens[one.value.first].text == "(" and model.match[one.value.first] == one.value.last - 1
            left, right = (model.span(one.value.first + opened, at), model.span(at + 1, one.value.last - opened))
            if left and right:
                change = replaced(one.value, f"fmaxf({left.text}, {right.text})")
                yield from _each(view, one.line, "take the maximum in place of adding", (change,), 0.08)
    for call in model.calls:
        if call.name in ("fmaxf", "fmax", "max") and len(call.arguments) == 2 and view.wanted(call.start, call.end):
            a, b = call.arguments
            rank = 0.1 if _reduces(model, call) else 0.2
            change = Change(call.start, call.end, f"({a.text} + {b.text})")
            yield from _each(view, call.line, "add in place of taking the maximum", (change,), rank)
            change = Change(call.name_at, call.name_at + len(call.name), "fminf")
            yield from _each(view, call.line, "take the minimum", (change,), rank + 0.08)
        if call.name in ("fminf", "fmin") and len(call.arguments) == 2 and view.wanted(call.start, call.end):
            change = Change(call.name_at, call.name_at + len(call.name), "fmaxf")
            yield from _each(view, call.line, "take the maximum", (change,), 0.06)


def _reduces(model: SourceModel, call: Call) -> bool:
    return "shfl" in model.text[call.start : call.end]
