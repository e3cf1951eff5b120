"""One more or less, twice or half of an expression."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ADDED, _SCALED = (("+", "1"), ("-", "1")), (("*", "2"), ("/", "2"))
_STEPS = {
    **dict.fromkeys(("index", "coordinate", "compared", "argument", "count", "loop start"), _ADDED),
    **dict.fromkeys(("leading dimension", "dimension", "constant", "loop step"), _SCALED),
    **dict.fromkeys(("bound", "loop bound"), _ADDED + _SCALED),
    # What is packed is packed by two, three or four.
    "extent": (*_ADDED, *_SCALED, ("*", "3"), ("*", "4")),
}


@operator
def nudged(program: Program) -> Iterator[Draft]:
    """`x + 1` or `x - 1` for a whole index, coordinate, bound, argument or start `x`; a multiple or half of a size."""
    for one in program.expressions:
        if one.type.kind == "integer" and _whole(one) and not one.assigned and not _held_to_bound(one):
            for symbol, number in _STEPS.get(one.role, ()):
                yield replaced(one, binary(text_of(one), symbol, Text(number)), f"{symbol} {number} on {one.text}")


def _held_to_bound(one: Expression) -> bool:
    """Whether one more of it would be one less of what it is compared with."""
    around = one.parent
    return one.role == "compared" and around is not None and any(part.role == "bound" for part in around.operands)


def _whole(one: Expression) -> bool:
    """Whether it is no part of a larger integer expression, and no number itself."""
    if one.kind in ("literal", "assignment", "list", "conditional", "cast") or one.operator in ("++", "--"):
        return False
    around = one.parent
    while around is not None and around.kind == "cast":
        around = around.parent
    return around is None or around.kind not in ("binary", "unary", "member") or around.type.kind == "bool"
