"""What two neighbours hold exchanged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wmmadiag.diagnose.operators.making import Draft, Text, several, text_of
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import leaves, made_of, renaming, shapes

_FARTHEST = 3


@operator
def swapped(program: Program) -> Iterator[Draft]:
    """One name or number in which two statements of one shape, one soon after the other, differ, exchanged."""
    known = shapes(program)
    for one in program.statements:
        if one.kind not in ("expression", "declaration") or not one.braced:
            continue
        for other in known.like(one):
            if other.block is not one.block or not 0 < other.index - one.index <= _FARTHEST:
                continue
            first, second = known.tokens(one), known.tokens(other)
            places, others = leaves([one]), leaves([other])
            if renaming(first, second) == {}:
                continue
            for own, its in zip(first, second, strict=True):
                if own.text == its.text or own.start not in places or its.start not in others:
                    continue
                left, right = places[own.start], others[its.start]
                note = f"{own.text} and {its.text} exchanged with line {other.unit.source.place(other.node).line}"
                yield several([(left, Text(made_of(left, its.text))), (right, Text(made_of(right, own.text)))], note)


@operator
def swapped_targets(program: Program) -> Iterator[Draft]:
    """What two assignments, one soon after the other, assign to, exchanged."""
    for one in program.statements:
        first = _assignment(one)
        for other in _behind(one) if first is not None and one.braced else ():
            second = _assignment(other)
            if first is not None and second is not None:
                yield from _exchanged(first.operands[0], second.operands[0])


@operator
def swapped_values(program: Program) -> Iterator[Draft]:
    """What two declarations, one soon after the other, give a value to, exchanged."""
    for one in program.statements:
        own = list(one.initial_values())
        later = [pair for other in _behind(one) for pair in other.initial_values()] if own else []
        for number, (variable, value) in enumerate(own):
            for _, its in (*own[number + 1 :], *later):
                if variable.name not in its.names:  # of what is made of the first one it cannot be made
                    yield from _exchanged(value, its)


def _behind(one: Statement) -> Sequence[Statement]:
    return one.block[one.index + 1 : one.index + 1 + _FARTHEST]


def _exchanged(one: Expression, other: Expression) -> Iterator[Draft]:
    if one.text != other.text and one.type.takes(other.type):
        note = f"{one.text} and {other.text} exchanged"
        yield several([(one, text_of(other)), (other, text_of(one))], note)


def _assignment(one: Statement) -> Expression | None:
    whole = one.expression
    return whole if whole is not None and whole.kind == "assignment" and whole.operator == "=" else None
