"""Two statements that differ in more than their names explain, made alike."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.renaming import core, with_parts
from wmmadiag.diagnose.operators.shapes import Shapes, Token, leaves, made_of, shapes

_MOST_OTHERS = 6
_MOST_DIFFERENCES = 10


@operator
def alike(program: Program) -> Iterator[Draft]:
    """A name or number that a statement of the same shape, with the names of this one, has otherwise; `p.d_w` for the
    `p.d_h` that `y = q_w * p.d_h` has in common with `x = q_h * p.d_h`."""
    known = shapes(program)
    for one in program.statements:
        others = known.like(one)
        if not others:
            continue
        nearest = sorted(others, key=lambda other: (other.unit is not one.unit, abs(other.start - one.start)))
        yield from _towards(program, known, one, nearest[:_MOST_OTHERS])


@operator
def missing_combination(program: Program) -> Iterator[Draft]:
    """`a * d` for one of two `b * c`, where statements of one shape have `a * c`, `b * c`, `c * b` and `b * d`: for one
    that two of them have, the one that none has, of the names that they have least often."""
    for group in shapes(program).groups.values():
        families: dict[tuple[int, str, str], list[list[Expression]]] = defaultdict(list)
        for one in group:
            held = [part for part in one.own_parts() if _of_two(part)]
            if held and one.kind == "expression":
                families[id(one.function), one.expressions[0].kind, one.expressions[0].operator].append(held)
        for rows in families.values():
            if 2 < len(rows) <= _MOST_OTHERS and len({len(row) for row in rows}) == 1:
                for column in zip(*rows, strict=True):
                    yield from _combined(column)


def _of_two(one: Expression) -> bool:
    return one.kind == "binary" and not one.fixed and all(part.kind == "name" for part in one.operands)


def _combined(column: Sequence[Expression]) -> Iterator[Draft]:
    combinations = Counter(one.names for one in column)
    often = Counter(part.text for one in column for part in one.operands)
    missing = [pair for pair in itertools.combinations(often, 2) if frozenset(pair) not in combinations]
    fewest = min((often[first] + often[second] for first, second in missing), default=0)
    for one in column:
        for first, second in missing if combinations[one.names] > 1 and len(combinations) > 1 else ():
            if often[first] + often[second] == fewest:
                yield replaced(one, binary(Text(first), one.operator, Text(second)))


def _towards(program: Program, known: Shapes, one: Statement, others: list[Statement]) -> Iterator[Draft]:
    own = known.tokens(one)
    places = leaves([one])
    scope = program.names_at(one.unit, one.end)
    for other in others:
        elsewhere = program.names_at(other.unit, other.end)
        for token, text in _odd(own, known.tokens(other)):
            if text in elsewhere and text not in scope:
                continue
            place = places.get(token.start)
            note = f"{text} for {token.text}, as in line {other.unit.source.place(other.node).line}"
            if place is not None:
                yield replaced(place, Text(made_of(place, text), precedence.POSTFIX), note)
            else:
                yield Draft((one.unit.edit(token.start, token.end, text),), "static", one.role, note)
        for token, text in _common(own, known.tokens(other)):
            place = places.get(token.start)
            if place is not None and text != token.text:
                made = made_of(place, text)
                if any(atom.text == made for atom in pools(program).at(place)):
                    yield replaced(place, Text(made, precedence.POSTFIX))


def _common(own: tuple[Token, ...], other: tuple[Token, ...]) -> Iterator[tuple[Token, str]]:
    """The names that both have, with the parts renamed in which their other names differ."""
    both = list(zip(own, other, strict=True))
    differing = [(one.text, two.text) for one, two in both if one.text != two.text and "name" == one.kind == two.kind]
    parts = {two: one for one, two in (core(*texts) for texts in differing)}
    for one, two in both if len(differing) > 1 else ():
        if one.kind == "name" and one.text == two.text:
            yield one, with_parts(one.text, parts)


def _odd(own: tuple[Token, ...], other: tuple[Token, ...]) -> Iterator[tuple[Token, str]]:
    """The tokens of `own` that are otherwise in `other`, where that is not what its names explain."""
    differing = [(one, two) for one, two in zip(own, other, strict=True) if one.text != two.text]
    if not 0 < len(differing) <= _MOST_DIFFERENCES:
        return
    # What a name of the other one is called here, as most places have it.
    called: dict[str, Counter[str]] = defaultdict(Counter)
    for one, two in zip(own, other, strict=True):
        if two.kind == "name":
            called[two.text][one.text] += 1
    for one, two in differing:
        if len(differing) == 1 or "number" in (one.kind, two.kind):
            yield one, two.text
    for one, two in zip(own, other, strict=True):
        if two.kind != "name":
            continue
        usual, count = called[two.text].most_common(1)[0]
        if usual != one.text and count >= called[two.text][one.text]:
            yield one, usual
