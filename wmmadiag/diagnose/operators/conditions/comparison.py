"""Another comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OTHERS: Mapping[str, tuple[str, ...]] = {
    "<": ("<=", ">=", ">"), "<=": ("<", ">", ">="), ">": (">=", "<=", "<"), ">=": (">", "<", "<="),
    "==": ("!=",), "!=": ("==",),
}  # fmt: skip


@operator
def comparison(program: Program) -> Iterator[Draft]:
    """Strict or not, the other way round; `a < b` for `a + s <= b`, and back with the step of the loop."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in _OTHERS or len(one.operands) != 2:
            continue
        left, right = one.operands
        # A loop that goes the other way round seldom ends.
        counted = one.statement.kind == "loop" and one.statement.condition is one
        for symbol in _OTHERS[one.operator][: 1 if counted else None]:
            yield replaced(one, binary(text_of(left), symbol, text_of(right)), f"{symbol} for {one.operator}")
        if one.operator == "<=" and left.kind == "binary" and left.operator == "+":
            yield replaced(one, binary(text_of(left.operands[0]), "<", text_of(right)))
        step = _step(one)
        if one.operator == "<" and step is not None and not (left.kind == "binary" and sums.top(left)):
            yield replaced(one, binary(binary(text_of(left), "+", text_of(step)), "<=", text_of(right)))


def _step(condition: Expression) -> Expression | None:
    """What a loop adds to its counter in each round."""
    loop = condition.statement
    if loop.kind != "loop" or loop.condition is not condition:
        return None
    last = loop.expressions[-1]
    return last.operands[1] if last.kind == "assignment" and last.operator == "+=" else None
