"""Two statements that differ in more than their names explain, made alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import Shapes, Token, leaves, made_of, shapes

_MOST_OTHERS = 6
_MOST_DIFFERENCES = 10


@operator
def alike(program: Program) -> Iterator[Draft]:
    """A name or number that a statement of the same shape, with the names of this one, has otherwise."""
    known = shapes(program)
    for one in program.statements:
        others = known.like(one)
        if not others:
            continue
        nearest = sorted(others, key=lambda other: (other.unit is not one.unit, abs(other.start - one.start)))
        yield from _towards(program, known, one, nearest[:_MOST_OTHERS])


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
