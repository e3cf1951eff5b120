"""Two terms of a sum with other pitches: which coordinate goes along a row, and which across, is said twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import reduce

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.composed import sizes
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST_TERMS, _MOST_SIZES = 4, 4

_Pitch = tuple[str, ...]
"""Factors of a term that are the same for all threads and rounds."""


@operator
def other_pitches(program: Program) -> Iterator[Draft]:
    """`i * n + j` for `i + j * m`: of two terms that vary at least one takes the other's pitch, or has none; and
    `(i + k) * n + j` for `i + k + j * m`."""
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ("+", "-") or one.fixed or not sums.top(one):
            continue
        held = [term for term in sums.terms(one) if _coordinate(term)][-_MOST_TERMS:]
        if len(held) < 2:
            continue
        visible = sizes(program, one, _MOST_SIZES)
        for first, second in itertools.combinations(held, 2):
            for (row, its), (column, others) in itertools.product(_forms(first), _forms(second)):
                for pitches in _pairs(its, others, visible):
                    made = _term(row, pitches[0]), _term(column, pitches[1])
                    note = f"{made[0].text} and {made[1].text} for {first.expression.text} and {second.expression.text}"
                    yield from _renamed(
                        one, [(first.expression, made[0]), (second.expression, made[1])], note,
                        {*its, *others}, {*pitches[0], *pitches[1]},
                    )  # fmt: skip
        if len(held) > 2:
            yield from _together(one, held, visible)


def _together(one: Expression, held: Sequence[sums.Summand], visible: Sequence[str]) -> Iterator[Draft]:
    """All other terms times the pitch of one, or a size, which has none then."""
    fixed = [term for term in sums.terms(one) if term not in held]
    if any(term.negative for term in fixed):
        return
    for term in held:
        rest = [text_of(other.expression) for other in held if other is not term]
        for coordinate, pitch in _forms(term):
            for new in dict.fromkeys([pitch, *((text,) for text in visible)]) if pitch else ():
                parts = [*(text_of(part.expression) for part in fixed), _product([_sum(rest), *map(Text, new)])]
                made = _sum([*parts, _term(coordinate, ())])
                yield from _renamed(one, [(one, made)], made.text, {*pitch}, {*new})


def _renamed(
    one: Expression, edits: list[tuple[Expression, Text]], note: str, before: set[str], after: set[str]
) -> Iterator[Draft]:
    """A change of pitches; then with what the statement calls the old pitch elsewhere renamed alike."""
    yield several(edits, note)
    more = _elsewhere(one, before, after)
    if more:
        yield several([*edits, *more], f"{note}, and {more[0][1].text} beside it")


def _elsewhere(one: Expression, before: set[str], after: set[str]) -> list[tuple[Expression, Text]]:
    """Where a statement has the size that is none of a sum's pitches any more, the one that has become one of them."""
    gone, come = before - after, after - before
    if len(gone) != 1 or len(come) != 1:
        return []
    (old,), (new,) = gone, come
    parts = (part for whole in one.statement.whole_expressions() for part in whole.under())
    return [
        (part, Text(new))
        for part in parts
        if part.atom and part.text == old and not part.fixed and not one.start <= part.start < one.end
    ]


def _coordinate(term: sums.Summand) -> bool:
    one = term.expression
    return not term.negative and one.type.whole and any(part.varying is not False for part in term.factors)


def _forms(term: sums.Summand) -> list[tuple[list[Expression], _Pitch]]:
    """What a term is a product of, as a coordinate and its pitch: a number may count the coordinate's steps or belong
    to the pitch."""
    found = []
    for numbers in (True, False):
        pitch = [part for part in term.factors if part.varying is False and (numbers or part.kind != "literal")]
        form = [part for part in term.factors if part not in pitch], tuple(part.text for part in pitch if part.atom)
        if len(form[1]) == len(pitch) and form not in found:
            found.append(form)
    return found


def _pairs(first: _Pitch, second: _Pitch, visible: Sequence[str]) -> Iterator[tuple[_Pitch, _Pitch]]:
    """Other pitches for both of two terms."""
    known: list[_Pitch] = [(), first, second, (*first, *second), *((text,) for text in visible)]
    known += [(*pitch, text) for pitch in (first, second) if pitch for text in visible if text not in pitch]
    for one, other in itertools.product(dict.fromkeys(known), repeat=2):
        if one != first and other != second and one != other and (one in (second, ()) or other in (first, ())):
            yield one, other


def _term(coordinate: Sequence[Expression], pitch: _Pitch) -> Text:
    return _product([*map(text_of, coordinate), *map(Text, pitch)])


def _product(parts: Sequence[Text]) -> Text:
    return reduce(lambda made, part: binary(made, "*", part), parts)


def _sum(parts: Sequence[Text]) -> Text:
    return reduce(lambda made, part: binary(made, "+", part), parts)
