"""A statement of the function once more, at another place of it."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after, inserted_before
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_LONGEST = 160
_MOST_PLACES, _MOST_ANYWHERE = 16, 96
_PLACES = frozenset({"expression", "declaration", "loop", "if"})


@operator
def copied(program: Program) -> Iterator[Draft]:
    """An assignment or call of the function once more: after a statement that names what it changes, and where a block
    that does begins; a call that names nothing after any other call."""
    for body in program.bodies:
        for one in body.statements:
            whole = _done(one)
            if whole is None:
                continue
            subject, made = _subject(whole), 0
            for place in body.statements:
                if made >= (_MOST_PLACES if subject else _MOST_ANYWHERE):
                    break
                for draft in _at(program, one, whole, place, subject):
                    made += 1
                    yield draft


def _at(program: Program, one: Statement, whole: Expression, place: Statement, subject: str) -> Iterator[Draft]:
    if place is one or not place.braced or place.kind not in _PLACES or place.unit is not one.unit:
        return
    if not _about(place, subject) or not pools(program).visible_within(whole, place, ""):
        return
    after = place.block[place.index + 1].text if place.index + 1 < len(place.block) else ""
    if one.text not in (place.text, after):
        yield inserted_after(place, one.text, f"{one.text[:-1]} again", one.role)
    if place.index == 0 and place.parent is not None and place.text != one.text and place.kind != "declaration":
        yield inserted_before(place, one.text, f"{one.text[:-1]} again", one.role)


def _done(one: Statement) -> Expression | None:
    """What a statement does that may be done again."""
    whole = one.expressions[0] if one.kind == "expression" and one.expressions else None
    if whole is None or one.order is not None or one.unit.macro or one.end - one.start > _LONGEST:
        return None
    return whole if whole.kind in ("assignment", "call", "unary") else None


def _subject(whole: Expression) -> str:
    """The variable that it changes, the first that a call is about; "" where it names none."""
    first = whole.operands[0] if whole.operands else whole.receiver
    while first is not None and first.kind != "name" and first.operands:
        first = first.operands[0]
    return first.text if first is not None and first.kind == "name" else ""


def _about(place: Statement, subject: str) -> bool:
    if not subject:
        called = place.kind == "expression" and place.expressions and place.expressions[0].kind == "call"
        return bool(called) or place.kind == "loop"
    return any(subject in whole.names for whole in place.whole_expressions())
