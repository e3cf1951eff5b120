"""What is done within a call and what around it."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, binary, called, replaced, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REAL = frozenset({"float", "half"})


@operator
def inside_out(program: Program) -> Iterator[Draft]:
    """`g(f(a, c), b)` for `f(g(a, b), c)`, where all of it is of one real type; of `g`'s arguments each. `v = f(a, c);
    v = g(v, b);` for `v = g(a, b); v = f(v, c);`."""
    for one in program.expressions:
        if not _of_several(one) or one.fixed or not _type(one):
            continue
        for held in one.operands:
            before = _set_before(held, one)
            within = before or held
            if _of_several(within) and within.operator != one.operator:
                for argument in within.operands:
                    if argument.kind != "literal":
                        inner, note = called(one, held, text_of(argument)), f"{within.operator} of {one.operator}"
                        if before is None:
                            yield replaced(one, called(held, argument, inner), note)
                        else:
                            yield several([(before, inner), (one, called(before, argument, text_of(held)))], note)


def _set_before(held: Expression, one: Expression) -> Expression | None:
    """What a variable was set to right before the statement that sets it again."""
    statement = one.statement
    if held.kind != "name" or not statement.index or one.sets != held.text:
        return None
    before = statement.block[statement.index - 1].expressions
    return next((part for whole in before for part in whole.under() if part.sets == held.text), None)


def _type(one: Expression) -> str:
    """The name of a real type, or of a vector of one, that all of a call is of; "" where that is not known."""
    if one.kind == "call" and one.type.kind in ("unknown", *_REAL):  # what CUDA has gives what it is given
        given = {_type(part) for part in one.operands}
        return given.pop() if len(given) == 1 else ""
    held = one.type.of if one.type.kind == "record" else one.type
    return one.type.name if held is not None and held.kind in _REAL else ""


def _of_several(one: Expression) -> bool:
    return one.kind == "call" and one.receiver is None and len(one.operands) > 1


_OPERATORS = frozenset("+-*/")


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
        used = around is not None and around is not one.statement.expression  # a statement's own value is lost
        if around is not None and used and _function(around):
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
