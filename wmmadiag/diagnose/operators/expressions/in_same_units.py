"""Coordinates and pitches counted in the same units."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_DIVIDED = ("/", ">>")


@operator
def in_same_units(program: Program) -> Iterator[Draft]:
    """`i * (n / 8) + j / 8` for `i * n + j / 8`, and for `i * (n / 8) + j`: what one term of a sum is divided by, a
    factor of another one is, too."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("+", "-") or not sums.top(one):
            continue
        held = sums.terms(one)
        units = {id(term): [unit for factor in term.factors if (unit := _unit(factor)) is not None] for term in held}
        for term in held:
            further = [unit for other in held if other is not term for unit in units[id(other)]]
            distinct = {(unit.operator, unit.operands[1].text): unit for unit in further}
            for factor in term.factors:
                if factor.atom and factor.kind != "literal" and factor.type.whole:
                    for (sign, _), unit in distinct.items():
                        yield replaced(factor, binary(text_of(factor), sign, text_of(unit.operands[1])))


def _unit(factor: Expression) -> Expression | None:
    """A quotient that has a number below."""
    bare = sums.uncast(factor)
    divided = bare.kind == "binary" and bare.operator in _DIVIDED
    return bare if divided and bare.operands[1].atom and bare.operands[1].varying is False else None
