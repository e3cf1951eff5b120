"""A statement once more, with one thing of it changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.changes import Kind
from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "argument", "shuffle"})
_DECIMAL = re.compile(r"\d{1,4}")


@operator
def returned_again(program: Program) -> Iterator[Draft]:
    """`x = f(x, 1);` before `return f(x, 2);`: a step of what is returned, with a number that is half, twice or one
    more."""
    for one in program.statements:
        if one.kind != "return" or not one.braced or not one.expressions:
            continue
        whole = one.expressions[0]
        names = {part.text: part for part in whole.under() if part.kind == "name" and part.type.same(whole.type)}
        for place, text in _changed(whole):
            source = one.unit.source
            step = f"{source.slice(whole.start, place.start)}{text}{source.slice(place.end, whole.end)}"
            for name in names:
                yield inserted_before(one, f"{name} = {step};", f"{name} = {step}", "statement")


@operator
def repeated(program: Program) -> Iterator[Draft]:
    """A copy after a statement in which a number is half, twice or one more, or an index is one more."""
    for one in program.statements:
        if one.kind != "expression" or one.order is not None or not one.expressions:
            continue
        for place, text in _changed(one.expressions[0]):
            source = one.unit.source
            copy = f"{source.slice(one.start, place.start)}{text}{source.slice(place.end, one.end)}"
            if one.braced:
                yield inserted_after(one, copy, f"again with {text} for {place.text}", "statement")
            elif one.parent is not None:
                whole = f"{{ {source.slice(one.start, one.end)} {copy} }}"
                edits = (one.unit.edit(one.start, one.end, whole),)
                kind: Kind = "static" if one.fixed else "statement"
                yield Draft(edits, kind, "statement", f"again with {text} for {place.text}")


def _changed(whole: Expression) -> Iterator[tuple[Expression, str]]:
    for one in whole.under():
        if one.type.kind != "integer" or one.fixed or one.role not in _ROLES:
            continue
        if one.kind == "literal" and _DECIMAL.fullmatch(one.text):
            value = int(one.text)
            yield one, str(value + 1)
            if value > 1 or one.role in ("argument", "shuffle"):
                yield one, str(value * 2)
            if value > 1 and value % 2 == 0:
                yield one, str(value // 2)
        elif one.role == "index" and one.parent is not None and one.parent.kind == "subscript":
            yield one, f"{one.text} + 1"
