"""A name for what it is made of, and back."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST = 4
_READ = ("subscript", "call")
"""What stands for a number that is read or computed elsewhere."""


@operator
def named(program: Program) -> Iterator[Draft]:
    """A variable for an expression that its initial value is made of, or begins or ends with; a part of its initial
    value for a variable."""
    made: dict[str, list[tuple[str, Expression]]] = {}
    values: dict[int, Expression] = {}
    for body in program.bodies:
        for statement in body.statements:
            for variable in statement.declares if statement.kind == "declaration" else ():
                value = _value(statement.expressions, variable.value)
                if value is None or value.kind != "binary" or not value.type.whole:
                    continue
                values[variable.declarator.id] = value
                inner = [part.text for part in value.under() if part.kind == "binary"]
                inner += [part.text for part in value.operands if value.operator == "+" and part.kind in _READ]
                for text in (*inner, *_tails(value)):
                    made.setdefault(text, []).append((variable.name, value))
    for one in program.expressions:
        if one.kind not in ("binary", *_READ) or not one.type.whole or one.fixed or one.assigned:
            continue
        scope = program.names_at(one.unit, one.start)
        for name, value in made.get(one.text, ())[:_MOST]:
            held = scope.get(name)
            if held is not None and values.get(held.declarator.id) is value:
                yield replaced(one, Text(name))
    yield from _parts(program, values)


def _parts(program: Program, values: dict[int, Expression]) -> Iterator[Draft]:
    for one in program.expressions:
        if one.kind != "name" or not one.type.whole or one.fixed or one.assigned or one.varying is False:
            continue
        held = program.names_at(one.unit, one.start).get(one.text)
        value = values.get(held.declarator.id) if held is not None else None
        if value is not None and value.operator in ("+", "-"):
            for part in value.operands:
                if part.varying and all(name in program.names_at(one.unit, one.start) for name in part.names):
                    yield replaced(one, text_of(part))


def _tails(value: Expression) -> list[str]:
    """The ends of a sum: `b + c` of `a + b + c`."""
    found: list[str] = []
    parts: list[str] = []
    while value.kind == "binary" and value.operator == "+":
        parts.insert(0, value.operands[1].text)
        value = value.operands[0]
        if len(parts) > 1:
            found.append(" + ".join(parts))
    return found


def _value(expressions: list[Expression], node: object) -> Expression | None:
    start = getattr(node, "start_byte", -1)
    return next((one for one in expressions if one.whole[0] == start), None)
