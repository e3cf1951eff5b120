"""Two functions, one of what the other one gives, the other way round: what is scaled before it is shifted."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, called, replaced, several, text_of
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
