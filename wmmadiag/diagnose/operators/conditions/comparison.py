"""Another comparison."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, several, text_of
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


@operator
def comparisons_together(program: Program) -> Iterator[Draft]:
    """All comparisons of one kind in a condition made strict, or no longer; the bounds of two of them exchanged."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("&&", "||") or _joined(one.parent):
            continue
        held = [part for part in one.under() if part.kind == "binary" and part.operator in _OTHERS]
        for symbol in dict.fromkeys(part.operator for part in held):
            alike = [part for part in held if part.operator == symbol]
            if len(alike) > 1:
                other = _OTHERS[symbol][0]
                pairs = [(part, binary(text_of(part.operands[0]), other, text_of(part.operands[1]))) for part in alike]
                yield several(pairs, f"{other} for every {symbol}")
        for first, second in itertools.combinations(held, 2):
            bounds = first.operands[1], second.operands[1]
            if bounds[0].text != bounds[1].text and bounds[0].type.takes(bounds[1].type):
                exchanged = [(bounds[0], text_of(bounds[1])), (bounds[1], text_of(bounds[0]))]
                yield several(exchanged, f"{bounds[0].text} and {bounds[1].text} exchanged")


def _joined(around: Expression | None) -> bool:
    return around is not None and around.operator in ("&&", "||")


def _step(condition: Expression) -> Expression | None:
    """What a loop adds to its counter in each round."""
    loop = condition.statement
    if loop.kind != "loop" or loop.condition is not condition:
        return None
    last = loop.expressions[-1]
    return last.operands[1] if last.kind == "assignment" and last.operator == "+=" else None
