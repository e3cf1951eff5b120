"""A term, a factor or a step less."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ONE_SIDED = frozenset({"/", "%", "<<", ">>", "&"})


@operator
def less(program: Program) -> Iterator[Draft]:
    """One operand of a sum, product or other operation in place of it all; an argument in place of the call; a number
    as it is in place of it in another type."""
    for one in program.expressions:
        for kept in [*_parts(one), *_inner(one)]:
            if one.type.takes(kept.type) and kept.kind != "literal":
                yield replaced(one, text_of(kept))
        if one.kind == "cast" and len(one.operands) == 1 and one.type.arithmetic and one.operands[0].type.arithmetic:
            yield replaced(one, text_of(one.operands[0]), f"without the cast to {one.operator}")


def _inner(one: Expression) -> list[Expression]:
    """The parts of what min and max choose from; what is rounded down to a multiple."""
    if one.kind == "binary" and one.operator == "*" and one.operands[0].operator == "/":
        whole, size = one.operands[0].operands
        return [whole] if size.text == one.operands[1].text else []
    if one.kind != "call" or one.operator not in ("min", "max"):
        return []
    return [inner for part in one.operands if part.kind == "binary" for inner in part.operands]


def _parts(one: Expression) -> list[Expression]:
    if one.kind == "binary" and one.type.kind != "bool" and len(one.operands) == 2:
        # What divides or masks says nothing of the place itself.
        return one.operands[:1] if one.operator in _ONE_SIDED and one.type.whole else one.operands
    if one.kind == "call" and one.receiver is None and 1 <= len(one.operands) <= 3:
        return one.operands
    if one.kind == "unary" and one.operator in ("-", "~"):
        return one.operands
    return []
