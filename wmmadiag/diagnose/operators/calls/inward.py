"""What is done before or after a function of real numbers: inside its parentheses, or behind them."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, binary, called, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_OPERATORS = frozenset("+-*/")
_REAL = frozenset({"float", "half"})


@operator
def inward(program: Program) -> Iterator[Draft]:
    """`f(a + b)` for `f(a) + b`, in each argument that has a value of its own; and back. `f(a / s) * s` for `f(a) * s`:
    what a function has in other units is taken back behind it."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in _OPERATORS or one.type.kind not in _REAL or one.fixed:
            continue
        for held in one.operands:
            if _function(held):
                yield from _into(one, held)
                yield from _in_units(one, held)
        around = one.parent
        if around is not None and _function(around):
            yield from _out_of(one, around)


def _into(one: Expression, call: Expression) -> Iterator[Draft]:
    """The call with the operation done to one of its arguments."""
    other = one.operands[1 - call.number]
    for argument in call.operands:
        if argument.type.kind in _REAL and argument.kind != "literal":
            pair = (text_of(argument), text_of(other))
            first, second = pair if call.number == 0 else pair[::-1]
            new = called(call, argument, binary(first, one.operator, second))
            yield replaced(one, new, f"{one.operator} {other.text} within {call.operator}")


def _in_units(one: Expression, call: Expression) -> Iterator[Draft]:
    """The only argument of the call scaled the other way than what the call gives."""
    other = one.operands[1 - call.number]
    if one.operator not in "*/" or len(call.operands) != 1 or not other.atom or (one.operator == "/" and call.number):
        return
    argument = call.operands[0]
    if argument.type.kind in _REAL and argument.kind != "literal" and other.text not in argument.text:
        new = binary(text_of(argument), "/" if one.operator == "*" else "*", text_of(other))
        yield replaced(argument, new, f"{new.text} within {call.operator}")


def _out_of(one: Expression, call: Expression) -> Iterator[Draft]:
    """The operation done to what the call gives, with either of its operands left within."""
    for kept, moved in (one.operands, one.operands[::-1]):
        if one.operator in "-/" and kept is not one.operands[0]:
            continue
        made = binary(called(call, one, text_of(kept)), one.operator, text_of(moved))
        yield replaced(call, made, f"{one.operator} {moved.text} behind {call.operator}")


def _function(one: Expression) -> bool:
    return one.kind == "call" and one.receiver is None and one.type.kind in _REAL and not one.fixed
