"""A condition more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from wmmadiag.diagnose.operators.comparisons import (
    ORDERINGS,
    comparisons,
    coordinates_in,
    guarded_by,
    leaves,
    varying_names,
)
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_WORDS = {"&&": "and", "||": "or"}
_COMPARED = ORDERINGS | {"==", "!="}


@operator
def conjunct(program: Program) -> Iterator[Draft]:
    """`c && d` for a condition `c`, where `d` stands elsewhere, holds a coordinate of what is guarded to a bound, or
    compares as its neighbours do; `c || d` of what leaves."""
    known = comparisons(program)
    for one in program.expressions:
        if not _whole_condition(one):
            continue
        guarded = guarded_by(one)
        names = frozenset(name for part in guarded for name in varying_names(part)) | varying_names(one)
        for other in known.donors(one, names):
            yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
            yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")
        if len(least := _not_negative(one)) > 1:
            new = reduce(lambda first, then: binary(first, "&&", then), least, text_of(one))
            yield replaced(one, new, f"and {' and '.join(part.text for part in least)}")
        for symbol, other in _as_beside(one):
            yield replaced(one, binary(text_of(one), symbol, other), f"{_WORDS[symbol]} {other.text}")
        if leaves(one.statement):
            for other in known.built(one, coordinates_in(guarded), ">="):
                yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")
            continue
        for other in known.built(one, coordinates_in(guarded)):
            if other.text not in one.text:
                yield replaced(one, binary(text_of(one), "&&", other), f"and {other.text}")
                if other.operator in (">", "&&"):
                    yield replaced(one, binary(text_of(one), "||", other), f"or {other.text}")


def _not_negative(one: Expression) -> list[Text]:
    """`x >= 0` of each name that a condition holds to a bound alone."""
    held = [part.operands[0] for part in _joined(one, "&&") if part.operator in ("<", "<=") and len(part.operands) == 2]
    names = {part.text: part for part in held if part.kind == "name" and part.type.whole}
    return [binary(text_of(part), ">=", Text("0")) for text, part in names.items() if f"{text} >= 0" not in one.text]


def _as_beside(one: Expression) -> Iterator[tuple[str, Text]]:
    """A comparison that one of the others of a condition has with a number, for what another one compares."""
    if one.kind != "binary" or one.operator not in _WORDS:
        return
    held = [part for part in _joined(one, one.operator) if part.operator in _COMPARED and len(part.operands) == 2]
    there = {part.text for part in held}
    for part in held:
        for other in held:
            first, second = part.operands
            if second.kind == "literal" and other.operands[0].type.takes(first.type):
                made = binary(text_of(other.operands[0]), part.operator, text_of(second))
                if made.text not in there:
                    there.add(made.text)
                    yield one.operator, made


def _joined(one: Expression, symbol: str) -> list[Expression]:
    if one.kind == "binary" and one.operator == symbol:
        return [part for held in one.operands for part in _joined(held, symbol)]
    return [one]


def _whole_condition(one: Expression) -> bool:
    if one.role != "condition" or one.type.kind not in ("bool", "integer") or one.fixed:
        return False
    around = one.parent
    return around is None or (around.kind == "conditional" and one.number == 0)
