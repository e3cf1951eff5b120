"""What belongs to a place in an array of several dimensions, only where every coordinate lies inside."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, statement_replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import fallbacks

_VALUES = frozenset({"float", "half", "byte", "integer", "record"})
_FARTHEST = 4


@operator
def inside(program: Program) -> Iterator[Draft]:
    """`0 <= y && y < h && 0 <= x && x < w` before what is loaded or stored at `((i * h + y) * w + x) * c + k`."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("+", "*") or not _whole_sum(one):
            continue
        held = _dimensions(one)
        # The last coordinate seldom leaves its row.
        for chosen in (held[:-1], held):
            if len(chosen) > 1:
                condition = _condition(chosen)
                for whole in _uses(one):
                    yield from _guarded(program, whole, condition)


_Dimension = tuple[tuple[Expression, ...], Expression]
"""What a coordinate is the sum of, and the extent of its dimension."""


def _dimensions(one: Expression) -> list[_Dimension]:
    """The coordinates of a nested sum of products but for the outermost one, from outside in."""
    held = [part for part in sums.terms(one) if not part.expression.type.address]
    if not held or any(part.negative for part in held) or len(held[0].factors) != 2:
        return []
    inner, extent = sums.uncast(held[0].factors[0]), held[0].factors[1]
    rest = tuple(part.expression for part in held[1:])
    return [*_dimensions(inner), *([(rest, extent)] if rest else [])]


def _condition(held: list[_Dimension]) -> str:
    parts = []
    for rest, extent in held:
        coordinate = text_of(rest[0])
        for part in rest[1:]:
            coordinate = binary(coordinate, "+", text_of(part))
        least = precedence.BINARY["<"] + 1
        parts += [f"{wrapped(coordinate, least)} >= 0", f"{wrapped(coordinate, least)} < {extent.text}"]
    return " && ".join(parts)


def _uses(one: Expression) -> Iterator[Expression]:
    """The whole expression that a place stands in, or those after its declaration that use what is declared."""
    statement = one.statement
    if statement.kind != "declaration" or len(statement.declares) != 1 or not one.type.whole:
        yield one.outermost
        return
    name = statement.declares[0].name
    for later in statement.block[statement.index + 1 : statement.index + 1 + _FARTHEST]:
        yield from (whole for whole in later.whole_expressions() if name in whole.names)


def _guarded(program: Program, whole: Expression, condition: str) -> Iterator[Draft]:
    statement = whole.statement
    value = whole.operands[1] if whole.kind == "assignment" and whole.operator == "=" else whole
    if value.type.kind in _VALUES and statement.kind in ("expression", "declaration", "return"):
        for nought in fallbacks(program, value):
            new = Text(f"{condition} ? {value.text} : {nought}", precedence.CONDITIONAL)
            yield replaced(value, new, f"{nought} outside")
    if statement.kind == "expression" and statement.order is None:
        text = f"if ({condition}) {statement.source}"
        yield statement_replaced(statement, text, f"if {condition}", "guard")


def _whole_sum(one: Expression) -> bool:
    around = one.parent
    return not (around is not None and around.kind == "binary" and around.operator in ("+", "-", "*"))
