"""What joins conditions."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OTHER = {"true": "false", "false": "true"}


@operator
def connective(program: Program) -> Iterator[Draft]:
    """`||` for `&&` and back; one side alone."""
    for one in program.expressions:
        if one.kind == "binary" and one.operator in ("&&", "||"):
            left, right = one.operands
            symbol = "||" if one.operator == "&&" else "&&"
            yield replaced(one, binary(text_of(left), symbol, text_of(right)), f"{symbol} for {one.operator}")
            for kept, dropped in ((left, right), (right, left)):
                yield replaced(one, text_of(kept), f"without {dropped.text}")


@operator
def negation(program: Program) -> Iterator[Draft]:
    """A condition that is no comparison, negated, or no longer; `false` for `true`, and back."""
    for one in program.expressions:
        if one.kind == "name" and one.text in _OTHER:
            yield replaced(one, Text(_OTHER[one.text]))
            continue
        if one.role != "condition" or one.kind not in ("name", "member", "call", "unary") or one.type.kind == "unknown":
            continue
        if one.kind == "unary" and one.operator == "!":
            yield replaced(one, text_of(one.operands[0]), f"without the ! of {one.text}")
        elif one.kind != "unary" and (one.parent is None or one.parent.type.kind == "bool"):
            text = wrapped(text_of(one), precedence.UNARY)
            yield replaced(one, Text(f"!{text}", precedence.UNARY), f"not {one.text}")
