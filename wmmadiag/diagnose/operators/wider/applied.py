"""A function of mathematics applied, which the program calls nowhere."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

# CUDA Math API: functions of one real number.
_FUNCTIONS = ("fabsf", "expf", "exp2f", "logf", "log2f", "sqrtf", "rsqrtf", "tanhf", "erff")


@operator
def applied(program: Program) -> Iterator[Draft]:
    """`f(x)`, `-x` and `1 / x` for a real value `x`."""
    for one in program.expressions:
        if one.type.kind != "float" or one.assigned or one.fixed or not _value(one):
            continue
        for name in _FUNCTIONS:
            if one.operator != name:
                yield replaced(one, Text(f"{name}({one.text})", precedence.POSTFIX), f"{name} of {one.text}")
        inner = wrapped(text_of(one), precedence.UNARY)
        yield replaced(one, Text(f"-{inner}", precedence.UNARY), f"- {one.text}")
        yield replaced(one, Text(f"1.0f / {inner}", precedence.BINARY["/"], "/"), f"1 / {one.text}")


def _value(one: Expression) -> bool:
    """Whether it is a value of its own, or one of two that are added up or multiplied."""
    if one.kind in ("literal", "list", "assignment", "lambda"):
        return False
    around = one.parent
    return around is None or around.kind in ("assignment", "binary", "call", "conditional")
