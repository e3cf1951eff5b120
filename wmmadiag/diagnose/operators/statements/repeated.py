"""A statement once more, with one thing of it changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmmadiag.diagnose.changes import Kind
from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "argument", "shuffle"})
_DECIMAL = re.compile(r"\d{1,4}")


@operator
def repeated(program: Program) -> Iterator[Draft]:
    """A copy after a statement in which a number is one more or twice, or an index is one more."""
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
                kind: Kind = "static" if one.unit.macro else "statement"
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
        elif one.role == "index" and one.parent is not None and one.parent.kind == "subscript":
            yield one, f"{one.text} + 1"
