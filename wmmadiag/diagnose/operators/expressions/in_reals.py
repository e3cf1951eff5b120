"""Quotients that lose what is behind the point."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.csource.types import UNKNOWN, Type
from wmmadiag.diagnose.operators.making import Draft, Text, binary, in_place_of, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REAL = ("float", "half")


@operator
def in_reals(program: Program) -> Iterator[Draft]:
    """A quotient of integers that becomes a real number, divided as one."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator != "/" or not all(part.type.whole for part in one.operands):
            continue
        if _becomes(program, one).kind in _REAL:
            first, second = one.operands
            real = Text(f"(float){wrapped(text_of(first), precedence.UNARY)}", precedence.UNARY)
            edit = in_place_of(one, binary(real, "/", text_of(second)))
            direct = one.parent is None or not one.parent.type.whole
            yield Draft((edit,), "expression" if direct else "static", "cast", "divided as real numbers")


def _becomes(program: Program, one: Expression) -> Type:
    """The type that a number is turned into, through what is computed with it before."""
    around = one.parent
    if around is None:
        given = one.statement.initial_values()
        return next((program.reader.type_of(variable) for variable, value in given if value is one), UNKNOWN)
    if around.kind in ("binary", "conditional") and around.type.whole:
        return _becomes(program, around)
    if around.kind == "assignment":
        return around.operands[0].type
    return around.type if around.kind in ("binary", "cast") else UNKNOWN
