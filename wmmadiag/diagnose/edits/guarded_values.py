"""Let a value count only where a condition holds that others go by: a loop's own end, or a guard nearby.

Bad:
    for (int j = 0; j < keys; ++j) m = fmaxf(m, s[j]);
    for (int j = 0; j < 16; ++j) { const float p = __expf(s[j] - m); sum += p; }

Good:
    for (int j = 0; j < keys; ++j) m = fmaxf(m, s[j]);
    for (int j = 0; j < 16; ++j) { const float p = j < keys ? __expf(s[j] - m) : 0.0f; sum += p; }
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.conditions import conditions, zero_of
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator
from wmmadiag.diagnose.source.model import Span

_KIND = "guarded-values"
_FAULTS = ("tail-masking", "guard-condition", "causal-mask", "masked-row", "out-of-bounds", "loop-extent", "reduction")
_FLOATS = frozenset({"float", "half", "__half", "auto", "double", "__nv_bfloat16", "nv_bfloat16"})


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """Initialisers and assigned values on the wanted lines, zero where a condition of the same function fails."""
    model = view.model
    for value, target in _values(view):
        function = model.function_at(value.start)
        if function is None or "?" in value.text:
            continue
        names = {t.text for t in model.tokens[value.first : value.last] if t.kind == "id"}
        seen: set[str] = set()
        for condition, rank in _known(view):
            key = "".join(condition.text.split())
            if (
                key in seen
                or not function.start <= condition.start < function.end
                or not _usable(view, condition, value)
            ):
                continue
            seen.add(key)
            own = {t.text for t in model.tokens[condition.first : condition.last] if t.kind == "id"}
            rank += 0.0 if own & names else 0.06
            text = f"{condition.text} ? {value.text} : {zero_of(model, target)}"
            summary = f"only where {condition.text}"
            yield from view.offer(_KIND, _FAULTS, value.line, summary, (replaced(value, text),), rank)


def _values(view: View) -> Iterator[tuple[Span, Span]]:
    """(value, what it is given to)."""
    model = view.model
    for variable in model.variables:
        floating = bool(_FLOATS & set(variable.element.split())) and not variable.pointer and not variable.dims
        if floating and variable.initial is not None and view.wanted(variable.start, variable.end):
            index = model.token_at(variable.name_at)
            yield variable.initial, model.span(index, index + 1)
    for one in model.assignments:
        if one.operator.text in ("=", "+=") and view.wanted(one.target.start, one.value.end):
            given = model.variable(model.tokens[one.target.first].text, one.target.start)
            if given is not None and _FLOATS & set(given.element.split()):
                yield one.value, one.target


def _known(view: View) -> Iterator[tuple[Span, float]]:
    """Ends of loops, then other conditions."""
    model = view.model
    for loop in model.loops:
        condition = model.statements[loop].condition
        if condition is not None and "?" not in condition.text:
            yield condition, 0.05
    for condition in conditions(model):
        if "?" not in condition.text and "=" not in condition.text.replace("==", "").replace("<=", "").replace(
            ">=", ""
        ):
            yield condition, 0.08


def _usable(view: View, condition: Span, value: Span) -> bool:
    """Whether every name of a condition is known where the value stands; which variable it is may differ."""
    model = view.model
    for index in range(condition.first, condition.last):
        token = model.tokens[index]
        if token.kind == "id" and model.tokens[index - 1].text not in (".", "->", "::"):
            here, there = model.variable(token.text, token.offset), model.variable(token.text, value.start)
            if here is not None and there is None:
                return False
    return not condition.start <= value.start < condition.end
