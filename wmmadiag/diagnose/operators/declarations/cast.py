"""Casts."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, in_place_of, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def cast(program: Program) -> Iterator[Draft]:
    """A cast of a pointer to another type, before or after what is added to it, or none."""
    types = {one.operator: one for one in program.all_expressions() if one.kind == "cast" and one.type.address}
    for one in program.expressions:
        if one.kind == "cast" and one.type.address and len(one.operands) == 1:
            inner = one.operands[0]
            for other in types:
                if other != one.operator:
                    yield _static(one, _as(one, other, text_of(inner)), f"{other} for {one.operator}")
            if inner.type.address:
                yield _static(one, text_of(inner), f"without the cast to {one.operator}")
            if inner.kind == "binary" and inner.operator == "+":
                first = _as(one, one.operator, text_of(inner.operands[0]))
                yield _static(one, binary(first, "+", text_of(inner.operands[1])), "added after the cast")
            around = one.parent
            if around is not None and around.kind == "binary" and around.operator == "+" and one.number == 0:
                whole = binary(text_of(inner), "+", text_of(around.operands[1]))
                yield _static(around, _as(one, one.operator, whole), "added before the cast")


def _as(one: Expression, type_: str, inner: Text) -> Text:
    source = one.unit.source
    text = source.slice(one.start, one.end)
    if text.startswith("("):
        return Text(f"({type_}){wrapped(inner, precedence.UNARY)}", precedence.UNARY)
    if "<" in text[:20]:
        return Text(f"{text[: text.index('<')]}<{type_}>({inner.text})", precedence.POSTFIX)
    return Text(f"{type_}({inner.text})", precedence.POSTFIX)


def _static(one: Expression, new: Text, note: str) -> Draft:
    return Draft((in_place_of(one, new),), "static", "cast", note)
