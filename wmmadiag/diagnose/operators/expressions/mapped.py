"""A place given by a function of the program."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.csource.declarations import Function
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 6


@operator
def mapped(program: Program) -> Iterator[Draft]:
    """`f(a, b)` for `a * s + b` or `a * s + b * t`, with a function of two integers; the last terms of a sum given by
    an expression of the same names that stands elsewhere."""
    functions = [name for name, listed in program.functions.items() if any(_places(program, one) for one in listed)]
    calls = {
        one.text: one
        for one in program.all_expressions()
        if one.kind in ("call", "binary") and one.type.whole and one.varying is not False and not one.fixed
    }
    for one in program.expressions:
        if one.role not in ("index", "offset", "argument", "coordinate", "pointer") or not sums.top(one) or one.fixed:
            continue
        held = sums.terms(one)
        for at in range(len(held)):
            if at and held[at].expression.type.address:
                continue
            tail = held[at:]
            if len(tail) < 2 or any(term.negative or term.expression.type.address for term in tail):
                continue
            for new in (*_mapped(functions, tail), *(_donors(program, calls, one, tail) if at else ())):
                yield replaced(one, _joined(held[:at], new), f"{new.text} for the last terms of {one.text}")
    if functions:
        yield from _products(program, functions)


def _products(program: Program, functions: list[str]) -> Iterator[Draft]:
    """`f(a, b) * t` for `(a * s + b) * t`: the inner sum of a product."""
    for one in program.expressions:
        around = one.parent
        if one.kind == "binary" and one.operator == "+" and around is not None and around.operator == "*":
            held = sums.terms(one)
            if one.type.whole and not any(term.negative for term in held):
                for new in _mapped(functions, held):
                    yield replaced(one, new)


def _mapped(functions: list[str], held: list[sums.Summand]) -> Iterator[Text]:
    first = held[0]
    if first.pitch is None or len(first.factors) != 2 or len(held) < 2:
        return
    place = next(one for one in first.factors if one is not first.pitch)
    rest = text_of(held[1].expression)
    for term in held[2:]:
        rest = binary(rest, "+", text_of(term.expression))
    rests = [rest]
    # What the rest is made of: a chunk is counted in the rest, or the rest has a map of its own.
    inner = held[1].expression
    while len(held) == 2 and inner.kind == "binary" and inner.operator in ("*", "<<", "^"):
        inner = inner.operands[0]
        rests.append(text_of(inner))
    for name in functions:
        for other in rests:
            yield Text(f"{name}({place.text}, {other.text})", precedence.POSTFIX)


def _donors(
    program: Program, calls: dict[str, Expression], one: Expression, tail: list[sums.Summand]
) -> Iterator[Text]:
    names = {part.text for term in tail for part in term.expression.under() if part.kind == "name" and part.varying}
    pool = pools(program)
    made = 0
    for text, other in calls.items():
        own = {part.text for part in other.under() if part.kind == "name" and part.varying}
        if made < _MOST and own and own == names and text not in one.text and pool.visible(other, one):
            made += 1
            yield text_of(other)


def _joined(head: list[sums.Summand], new: Text) -> Text:
    if not head:
        return new
    made = text_of(head[0].expression)
    for term in head[1:]:
        made = binary(made, "-" if term.negative else "+", text_of(term.expression))
    return binary(made, "+", new)


def _places(program: Program, one: Function) -> bool:
    """Whether a function gives a place for two coordinates."""
    types = program.reader
    integers = all(types.type_of(parameter).whole for parameter in one.parameters)
    returns = types.returns.get(one.name)
    return (
        one.device
        and not one.kernel
        and len(one.parameters) == 2
        and integers
        and returns is not None
        and returns.whole
    )
