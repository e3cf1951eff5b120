"""Give masked scores and rows past the end the value that leaves the softmax alone.

Bad:
    float s = col < n ? score[col] : 0.0f;          // 0 is a score like any other

Good:
    float s = col < n ? score[col] : -INFINITY;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import exchanged, replaced
from wmmadiag.diagnose.edits.model import Change, Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Span

_KIND = "masks"
_ALL = ("tail-masking", "causal-mask", "masked-row", "row-statistic", "rescale-missing", "stale-tile")
_MINUS = "-INFINITY"
_LOWEST = frozenset({"-INFINITY", "-FLT_MAX", "-CUDART_INF_F", "-HUGE_VALF"})


@generator(_KIND, *_ALL)
def generate(view: View) -> Iterator[Edit]:
    """Branches of ternaries, start values of maxima and sums, plain assignments of a mask value."""
    model = view.model
    for ternary in model.ternaries:
        if not view.wanted(ternary.condition.start, ternary.no.end):
            continue
        yield from _each(view, ternary.line, "the other branch", exchanged(ternary.yes, ternary.no), 0.1)
        for branch in (ternary.yes, ternary.no):
            for text, rank in _choices(branch.text):
                yield from _each(
                    view, branch.line, f"{text} in place of {branch.text}", (replaced(branch, text),), rank
                )
    for variable in model.variables:
        if variable.initial is None or variable.element not in ("float", "double") or variable.dims:
            continue
        if view.wanted(variable.start, variable.end):
            for text, rank in _choices(variable.initial.text):
                summary = f"start {variable.name} at {text}"
                yield from _each(view, variable.line, summary, (replaced(variable.initial, text),), rank)
    for one in model.assignments:
        if one.operator.text == "=" and view.wanted(one.target.start, one.value.end):
            for text, rank in _choices(one.value.text):
                yield from _each(view, one.line, f"{one.target.text} = {text}", (replaced(one.value, text),), rank)
    yield from _constants(view)


def _each(view: View, line: int, summary: str, changes: tuple[Change, ...], rank: float) -> Iterator[Edit]:
    return view.offer(_KIND, _ALL, line, summary, changes, rank)


def _choices(text: str) -> list[tuple[str, float]]:
    """What a mask value may be instead of a literal one."""
    compact = "".join(text.split())
    zero = compact in ("0.0f", "0.f", "0", "0.0", "0.0F")
    lowest = (
        compact in _LOWEST or (compact.startswith("-1") and "e" in compact.lower()) or "0xff800000" in compact.lower()
    )
    if zero:
        return [(_MINUS, 0.05), ("1.0f", 0.25)]
    if lowest:
        return [("0.0f", 0.08), *([(_MINUS, 0.1)] if compact != _MINUS else [("-1e30f", 0.09)])]
    if compact in ("1.0f", "1.f", "1"):
        return [("0.0f", 0.12), (_MINUS, 0.16)]
    if "-65504" in compact or (compact[:1] == "-" and compact[1:].rstrip("f").replace(".", "").isdigit()):
        return [(_MINUS, 0.1)]
    return []


def _constants(view: View) -> Iterator[Edit]:
    """A conversion of a literal: `__float2half(0.0f)` that must be minus infinity, and the reverse."""
    model = view.model
    for call in model.calls:
        if not view.wanted(call.start, call.end):
            continue
        if call.name in ("__float2half", "__float2half_rn", "__float2bfloat16", "half") and len(call.arguments) == 1:
            value = call.arguments[0]
            for text, rank in _choices(value.text):
                summary = f"{text} in place of {value.text}"
                yield from _each(view, call.line, summary, (replaced(value, text),), rank + 0.04)
        if call.name == "__int_as_float":
            piece = Span(call.start, call.end, call.line, model.text[call.start : call.end], call.first, call.last)
            for text, rank in _choices(piece.text):
                yield from _each(
                    view, call.line, f"{text} in place of {piece.text}", (replaced(piece, text),), rank + 0.02
                )
