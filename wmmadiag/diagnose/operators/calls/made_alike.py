"""An argument made from what it stands for as another argument of the call was made."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ANY_TYPE = "__shfl"
"""How the functions are called that give back what they are given, of any type of number."""


@operator
def made_alike(program: Program) -> Iterator[Draft]:
    """`keep(x, y, x2, f(y))` for `keep(x, y, x2, y)`, where `x2` was made by a call `f(x)`."""
    values = {variable.declarator.id: value for one in program.statements for variable, value in one.initial_values()}
    for call in program.expressions:
        if call.kind != "call" or len(call.operands) < 4:
            continue
        given = {one.text: one for one in reversed(call.operands)}
        for one in call.operands:
            # What stands there first may be what the function assigns to.
            if given[one.text] is one or one.fixed or not one.type.arithmetic or not one.names:
                continue
            for made in call.operands:
                known = program.names_at(made.unit, made.start).get(made.text) if made.kind == "name" else None
                value = values.get(known.declarator.id) if known is not None else None
                if value is not None and value.kind == "call" and value.receiver is None:
                    yield from _applied(value, given, one)


def _applied(value: Expression, given: dict[str, Expression], one: Expression) -> Iterator[Draft]:
    for of in value.operands:
        alike = value.operator.startswith(_ANY_TYPE) or of.type.takes(one.type)
        if of.text in given and of.names and of.text != one.text and alike:
            source = value.unit.source
            before, after = source.slice(value.start, of.whole[0]), source.slice(of.whole[1], value.end)
            line = source.place(value.node).line
            text = Text(f"{before}{one.text}{after}", precedence.POSTFIX)
            yield replaced(one, text, f"{value.operator} of {one.text} as at line {line}")
