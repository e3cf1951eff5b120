"""The sign of a real number."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.cuda_names import MATRIX_CALLS, RESULTS
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REALS = frozenset({"float", "half"})
_CHOOSING = frozenset({"max", "min", "fmaxf", "fminf", "fmax", "fmin", *MATRIX_CALLS})
"""Functions whose arguments have one sign, which that of the whole says."""


@operator
def negated(program: Program) -> Iterator[Draft]:
    """`-x` for a real value `x` that is set, returned or given to a function, and for the first product of a sum."""
    for one in program.expressions:
        if one.type.kind not in _REALS or one.fixed or one.assigned or one.kind in ("list", "assignment", "comma"):
            continue
        nought = one.kind == "literal" and not one.text.strip("0.f")
        # Of a difference the operands are exchanged for that.
        if not nought and one.operator != "-" and (_whole(one) or _given(one) or _leading(one)):
            yield replaced(one, Text(f"-{wrapped(text_of(one), precedence.UNARY)}", precedence.UNARY))


def _whole(one: Expression) -> bool:
    """Whether it is all that something is set to, or that is returned."""
    around = one.parent
    if around is None:
        return one.statement.kind in ("declaration", "return")
    return around.kind == "assignment" and one.number == 1 and around.operator == "="


def _given(one: Expression) -> bool:
    """Whether a function is given it: none that lanes make together, or that makes another type of it."""
    around = one.parent
    if around is None or around.kind != "call" or around.receiver is one or around.operator in _CHOOSING:
        return False
    return not around.operator.startswith("__shfl") and RESULTS.get(around.operator, one.type).kind == one.type.kind


def _leading(one: Expression) -> bool:
    """Whether it is the first factor of what something is added to, or subtracted from."""
    product = one.parent
    around = product.parent if product is not None else None
    first = product is not None and product.operator == "*" and one.number == product.number == 0
    return first and around is not None and around.operator in ("+", "-")
