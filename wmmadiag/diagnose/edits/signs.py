"""Add what is taken away, or the reverse: the sign of one product among several.

Bad:
    a = x * c + y * s;
    b = y * c + x * s;

Good:
    a = x * c - y * s;
    b = y * c + x * s;
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.edits.building import replaced
from wmmadiag.diagnose.edits.model import Edit
from wmmadiag.diagnose.edits.registry import View, generator, is_integer
from wmmadiag.diagnose.edits.terms import terms
from wmmadiag.diagnose.source.model import Span

_KIND = "signs"
_FAULTS = ("card-mismatch", "operand-order", "reduction", "rescale-missing", "softmax-scale", "index-arithmetic")
SIGN = "sign"
"""Name of the number that says, where it is 1, that + is known to stand for -, or the reverse."""
_OPPOSITE = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}


@generator(_KIND, *_FAULTS)
def generate(view: View) -> Iterator[Edit]:
    """The operator before each further term of a value that is no integer, and of assignments that add."""
    if view.lines is None and not view.values.get(SIGN):
        return
    model = view.model
    rank = 0.01 if view.values.get(SIGN) else 0.3
    for value in _values(view):
        if not view.wanted(value.start, value.end):
            continue
        for term in terms(model, value)[1:]:
            sign = model.tokens[term.first - 1]
            if sign.text in _OPPOSITE:
                summary = f"{_OPPOSITE[sign.text]} in place of {sign.text} before {term.text}"
                change = replaced(sign, _OPPOSITE[sign.text])
                yield from view.offer(_KIND, _FAULTS, sign.line, summary, (change,), rank)
    for one in model.assignments:
        if one.operator.text in ("+=", "-=") and view.wanted(one.target.start, one.value.end):
            other = _OPPOSITE[one.operator.text]
            summary = f"{other} in place of {one.operator.text}"
            yield from view.offer(_KIND, _FAULTS, one.line, summary, (replaced(one.operator, other),), rank + 0.01)


def _values(view: View) -> Iterator[Span]:
    """What variables that are no integers are given, and arguments of calls with products."""
    model = view.model
    for variable in model.variables:
        if variable.initial is not None and not variable.pointer and not is_integer(variable):
            yield variable.initial
    for one in model.assignments:
        target = model.variable(model.tokens[one.target.first].text, one.target.start)
        if target is None or not is_integer(target):
            yield one.value
    for call in model.calls:
        yield from (argument for argument in call.arguments if "*" in argument.text)
