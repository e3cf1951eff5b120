"""Two functions, one of what the other one gives, the other way round: what is scaled before it is shifted."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REAL = frozenset({"float", "half"})


@operator
def inside_out(program: Program) -> Iterator[Draft]:
    """`g(f(a, c), b)` for `f(g(a, b), c)`, where all of it is of one real type; of `g`'s arguments each."""
    for one in program.expressions:
        if not _of_several(one) or one.fixed or not _type(one):
            continue
        for held in one.operands:
            if _of_several(held) and held.operator != one.operator:
                for argument in held.operands:
                    if argument.kind != "literal":
                        inner = _with(one, held, argument.text)
                        yield replaced(one, _with(held, argument, inner.text), f"{held.operator} of {one.operator}")


def _type(one: Expression) -> str:
    """The name of a real type, or of a vector of one, that all of a call is of; "" where that is not known."""
    if one.kind == "call" and one.type.kind in ("unknown", *_REAL):  # what CUDA has gives what it is given
        given = {_type(part) for part in one.operands}
        return given.pop() if len(given) == 1 else ""
    held = one.type.of if one.type.kind == "record" else one.type
    return one.type.name if held is not None and held.kind in _REAL else ""


def _with(call: Expression, argument: Expression, new: str) -> Text:
    """A call with another text for one argument."""
    source = call.unit.source
    before, after = source.slice(call.start, argument.whole[0]), source.slice(argument.whole[1], call.end)
    return Text(f"{before}{new}{after}", precedence.POSTFIX)


def _of_several(one: Expression) -> bool:
    return one.kind == "call" and one.receiver is None and len(one.operands) > 1
