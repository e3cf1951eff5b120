"""A term, factor or function that stands where a variable is made for where it is used, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, called, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import Pools, pools
from wmmadiag.diagnose.operators.registry import operator

_OPERATORS = frozenset({"+", "-", "*", "/"})
_MOST_USES = 6


@operator
def carried(program: Program) -> Iterator[Draft]:
    """`v = a + b; … f(v)` for `v = a; … f(v + b)`, and back: what comes before and what after a step between them; and
    `v = a; … g(f(v))` for `v = f(a); … g(v)`, with `f` from reals to reals."""
    pool = pools(program)
    made: dict[tuple[int, str], list[Expression]] = {}
    used: dict[tuple[int, str], list[Expression]] = {}
    for one in program.expressions:
        key = id(one.statement.function)
        if (name := one.sets) and one.type.kind in ("float", "half"):
            made.setdefault((key, name), []).append(one)
        if one.kind in ("name", "subscript") and not one.assigned and not one.fixed:
            used.setdefault((key, one.text), []).append(one)
    for (function, name), wholes in made.items():
        uses = [one for one in used.get((function, name), ()) if one.start > wholes[0].end][:_MOST_USES]
        for use in uses:
            yield from _functions(use, wholes)
            yield from _terms(pool, name, use, wholes)
            around = use.parent
            if around is not None and _plain(around) and (use.number == 0 or around.operator in ("+", "*")):
                term = around.operands[1 - use.number]
                for whole in wholes:
                    if whole.end < use.start and pool.visible(term, whole) and name not in term.names:
                        late = binary(text_of(whole), around.operator, text_of(term))
                        yield _both(whole, late, around, Text(name))
        for whole in wholes:
            if not _plain(whole):
                continue
            kept, term = whole.operands
            for use in uses:
                if whole.end < use.start and pool.visible(term, use) and name not in term.names:
                    around = _around(use)
                    for last in (use, around) if around is not use and whole.operator in ("+", "-") else (use,):
                        yield _both(whole, text_of(kept), last, binary(text_of(last), whole.operator, text_of(term)))


def _functions(use: Expression, wholes: list[Expression]) -> Iterator[Draft]:
    """A function that is applied to a variable applied where it is made, and the other way round."""
    around = use.parent
    for whole in wholes:
        if whole.end >= use.start:
            continue
        if around is not None and _applied(around):
            yield _both(whole, called(around, use, text_of(whole)), around, text_of(use))
        if _applied(whole):
            yield _both(whole, text_of(whole.operands[0]), use, called(whole, whole.operands[0], text_of(use)))


def _applied(one: Expression) -> bool:
    """Whether it is a function of one real number that gives one."""
    plain = one.kind == "call" and one.receiver is None and len(one.operands) == 1 and not one.fixed
    return plain and one.type.kind == one.operands[0].type.kind == "float"


def _terms(pool: Pools, name: str, use: Expression, wholes: list[Expression]) -> Iterator[Draft]:
    """A term of a sum in which a variable is used as a factor of another term, perhaps under a condition: to where the
    variable is made."""
    around = _around(use)
    held = sums.terms(around)
    if around is use.parent or not 1 < len(held) <= _MOST_USES:
        return
    for gone in held:
        term, rest = gone.expression, [one for one in held if one is not gone]
        if gone.negative or name in [part.text for part in term.under()] or any(one.negative for one in rest):
            continue
        left = text_of(rest[0].expression)
        for one in rest[1:]:
            left = binary(left, "+", text_of(one.expression))
        for whole in wholes:
            if whole.end < use.start and pool.visible(term, whole):
                yield _both(whole, binary(text_of(whole), "+", text_of(term)), around, left)


def _both(first: Expression, text: Text, second: Expression, other: Text) -> Draft:
    note = f"{text.text} for {first.text}, and {other.text} for {second.text}"
    return several([(first, text), (second, other)], note)


def _plain(one: Expression) -> bool:
    """Whether it is a sum or product of two real numbers."""
    return one.kind == "binary" and one.operator in _OPERATORS and one.type.kind in ("float", "half")


def _around(one: Expression) -> Expression:
    """The whole value that a variable is a part of, perhaps under a condition."""
    while one.parent is not None and (_plain(one.parent) or _chosen(one)):
        one = one.parent
    return one


def _chosen(one: Expression) -> bool:
    """Whether it is what a conditional may come to."""
    return one.parent is not None and one.parent.kind == "conditional" and one.number > 0
