"""Operands exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import names_for
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, several, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST_PITCHES = 5
_ORDERED = frozenset({"-", "/", "%", "<<", ">>"})


@operator
def exchange(program: Program) -> Iterator[Draft]:
    """`b - a` for `a - b`, `x[j][i]` for `x[i][j]`, `b * s + a` for `a * s + b`, the branches of `c ? a : b`."""
    for one in program.expressions:
        if one.kind == "binary" and one.operator in _ORDERED and one.operands[1].kind != "literal":
            left, right = one.operands
            if left.type.takes(right.type):
                yield replaced(one, binary(text_of(right), one.operator, text_of(left)))
        elif one.kind == "conditional" and len(one.operands) == 3:
            yield _swapped(one.operands[1], one.operands[2])
        elif one.kind == "subscript" and len(one.operands) == 2 and one.operands[0].kind == "subscript":
            yield _swapped(one.operands[0].operands[-1], one.operands[1])
        elif one.kind == "list":
            yield from (_swapped(*pair) for pair in itertools.combinations(one.operands[:8], 2))
        if one.kind == "binary" and sums.top(one):
            yield from _coordinates(program, one)


def _coordinates(program: Program, one: Expression) -> Iterator[Draft]:
    """What is multiplied by one pitch multiplied by another, across a whole sum."""
    held = [term for term in sums.terms(one) if not term.expression.type.address]
    for first, second in itertools.combinations(held, 2):
        places = [_place(term) for term in (first, second)]
        if places[0].text == places[1].text or "literal" in (places[0].kind, places[1].kind):
            continue
        if first.pitch is None and second.pitch is None:
            continue
        if _beside(first, places[0]) != _beside(second, places[1]):  # else it is the same sum
            yield _swapped(*places)
        for own, term in ((places[0], second), (places[1], first)):  # `b * s` may be one coordinate
            if term.pitch is not None and term.pitch.kind == "literal" and term.expression is not own:
                yield _swapped(*sorted((own, term.expression), key=lambda part: part.start))
        pitch = first.pitch or second.pitch
        # The other coordinate has the other pitch.
        if pitch is not None and (first.pitch is None or second.pitch is None):
            for other in _other_pitches(program, pitch):
                yield several([*_pairs(*places), (pitch, Text(other))], f"exchanged, {other} for {pitch.text}")
    yield from _levels(one)
    yield from _rest(program, one, held)


def _other_pitches(program: Program, pitch: Expression) -> list[str]:
    if pitch.kind == "literal":
        return pools(program).alike(pitch)
    return [atom.text for atom in names_for(program, pitch, _MOST_PITCHES)]


def _rest(program: Program, one: Expression, held: list[sums.Summand]) -> Iterator[Draft]:
    """`b * s + (a + c)` for `(a + c) + b * s`: where several terms are one coordinate; and with other pitches."""
    pitched = [term for term in held if term.pitch is not None and len(term.factors) == 2]
    beside = [term for term in held if term not in pitched]
    if len(pitched) != 1 or len(beside) < 2 or len(held) != len(sums.terms(one)) or any(t.negative for t in held):
        return
    place, pitch = _place(pitched[0]), pitched[0].pitch
    assert pitch is not None
    whole = text_of(beside[0].expression)
    for term in beside[1:]:
        whole = binary(whole, "+", text_of(term.expression))
    inner = sums.uncast(place)
    if inner is not place:  # as wide as the other one was
        kind = place.text[: place.text.index(")") + 1] if place.text.startswith("(") else ""
        whole = Text(f"{kind}{wrapped(whole, precedence.UNARY)}", precedence.UNARY)
    for text in (pitch.text, *_other_pitches(program, pitch)):
        made = binary(text_of(inner), "+", binary(whole, "*", Text(text)))
        yield replaced(one, made, f"{made.text} for {one.text}")


def _levels(one: Expression) -> Iterator[Draft]:
    for term in [one, *(part.expression for part in sums.terms(one)[:1])]:
        found = sums.levels(term)
        if found is None:
            continue
        first, steps = found
        for at in range(len(steps) - 1):
            turned = [*steps[:at], steps[at + 1], steps[at], *steps[at + 2 :]]
            yield replaced(term, sums.nested(first, turned), "two dimensions exchanged")


def _place(term: sums.Summand) -> Expression:
    varying = [
        one for one in term.factors if one is not term.pitch and (one.kind != "literal" or len(term.factors) == 2)
    ]
    return varying[0] if term.pitch is not None and len(varying) == 1 else term.expression


def _beside(term: sums.Summand, place: Expression) -> list[str]:
    """The factors beside one of a product."""
    return sorted(factor.text for factor in term.factors if factor is not place and place is not term.expression)


def _pairs(first: Expression, second: Expression) -> list[tuple[Expression, Text]]:
    return [(first, text_of(second)), (second, text_of(first))]


def _swapped(first: Expression, second: Expression) -> Draft:
    return several(_pairs(first, second), f"{first.text} and {second.text} exchanged")
