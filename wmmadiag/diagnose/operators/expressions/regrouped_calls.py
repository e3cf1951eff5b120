"""Arithmetic that functions spell out, grouped otherwise: `__hmul2(__hsub2(a, z), s)`, `__hfma2(a, s, __hneg2(z))`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@dataclass(frozen=True, slots=True)
class Spelled:
    """The functions that compute a product, a sum, a difference, `a * b + c` and `-a` of one type."""

    product: str
    sum: str
    difference: str
    fused: str
    negative: str


# CUDA Math API, "Half Arithmetic Functions", "Half2 Arithmetic Functions" (those of bfloat16 have the same names),
# "Single Precision Intrinsics", "Double Precision Intrinsics".
SPELLED = (
    Spelled("__hmul2", "__hadd2", "__hsub2", "__hfma2", "__hneg2"),
    Spelled("__hmul", "__hadd", "__hsub", "__hfma", "__hneg"),
    Spelled("__fmul_rn", "__fadd_rn", "__fsub_rn", "__fmaf_rn", "-"),
    Spelled("__fmul_rn", "__fadd_rn", "__fsub_rn", "fmaf", "-"),
    Spelled("__dmul_rn", "__dadd_rn", "__dsub_rn", "__fma_rn", "-"),
)


@operator
def regrouped_calls(program: Program) -> Iterator[Draft]:
    """`(a + c) * b` for `a * b + c` and for `a * b + c * b`, and the former back, where functions of `SPELLED` compute
    them; with differences likewise."""
    for one in program.expressions:
        if one.kind == "call" and not one.fixed:
            for known in SPELLED:
                for text in dict.fromkeys(_otherwise(one, known)):
                    yield replaced(one, Text(text))


def _otherwise(one: Expression, known: Spelled) -> Iterator[str]:
    name, held = one.operator, one.operands
    if name == known.fused and len(held) == 3:
        a, b, c = held
        less = _negated(c, known)
        joined, added = (known.difference, less) if less else (known.sum, c.text)
        for into, factor in ((a, b), (b, a)):
            yield f"{known.product}({joined}({into.text}, {added}), {factor.text})"
    elif name == known.product and len(held) == 2:
        for inner, factor in ((held[0], held[1]), (held[1], held[0])):
            if inner.kind == "call" and inner.operator in (known.sum, known.difference) and len(inner.operands) == 2:
                a, c = inner.operands
                yield f"{known.fused}({a.text}, {factor.text}, {_term(c.text, inner.operator, known)})"
                if inner.operator == known.sum:
                    yield f"{known.fused}({c.text}, {factor.text}, {a.text})"
    elif name in (known.sum, known.difference) and len(held) == 2:
        product, term = held
        for into, factor in _factors(product, known):
            yield f"{known.product}({name}({into.text}, {term.text}), {factor.text})"
            same = (other for other, again in _factors(term, known) if again.text == factor.text)
            yield from (f"{known.product}({name}({into.text}, {other.text}), {factor.text})" for other in same)


def _factors(one: Expression, known: Spelled) -> list[tuple[Expression, Expression]]:
    """The two factors of a product, in both orders; none of anything else."""
    if one.kind != "call" or one.operator != known.product or len(one.operands) != 2:
        return []
    return [(one.operands[0], one.operands[1]), (one.operands[1], one.operands[0])]


def _negated(one: Expression, known: Spelled) -> str:
    """What something is the negative of; "" where it is none."""
    if one.operator != known.negative or len(one.operands) != 1:
        return ""
    return one.operands[0].text


def _term(text: str, joined: str, known: Spelled) -> str:
    if joined == known.sum:
        return text
    return f"{known.negative}({text})"
