"""Which of several groups a number is in: consecutive ones share a group, or every so many."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.extents import extents
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def in_groups(program: Program) -> Iterator[Draft]:
    """`x / (m / n)` for `x % n` and `x / n`, where `x` stays below `m`: the one of `n` groups that it is in, if those
    beside each other share one; and `x % n` and `x / n` for `x / (m / n)`."""
    known = extents(program)
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("/", "%") or not one.type.whole or one.fixed:
            continue
        number, by = one.operands
        if one.operator == "/" and _ratio(by):
            for sign in ("%", "/"):
                yield replaced(one, binary(text_of(number), sign, text_of(by.operands[1])))
        elif by.kind != "literal" and (whole := known.of_made(number)) is not None and whole.text != by.text:
            yield replaced(one, binary(text_of(number), "/", binary(whole, "/", text_of(by))))


def _ratio(one: Expression) -> bool:
    return one.kind == "binary" and one.operator == "/" and one.operands[1].kind != "literal"
