"""The next or the other one of a few that are used in turn."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "argument", "offset", "coordinate", "count"})


@operator
def turned(program: Program) -> Iterator[Draft]:
    """`x ^ 1` where the program turns something so, `x % n` and `(x + 1) % n` with an `n` that it counts round by."""
    pool = pools(program)
    turns = [one.operands[1].text for one in _pairs(program, "^", "^=") if one.operands[1].kind == "literal"]
    halves = [one for one in _pairs(program, "&", "%") if one.operands[1].text == ("1" if one.operator == "&" else "2")]
    rounds = {one.operands[1].text: one.operands[1] for one in _pairs(program, "%") if one.operands[1].varying is False}
    for one in program.expressions:
        if (
            in_own_array(one)
            or not _chooses(one)
            or not one.type.whole
            or one.role not in _ROLES
            or one.varying is False
            or not one.atom
            or one.assigned
        ):
            continue
        around = one.parent
        if around is not None and around.kind == "binary" and around.operator in ("^", "%", "*"):
            continue
        for text in dict.fromkeys([*turns, *(["1"] if halves else [])]):
            if _last(one):
                yield replaced(one, binary(text_of(one), "^", Text(text)))
        for other in rounds.values():
            if pool.visible(other, one) and _last(one):
                yield replaced(one, binary(text_of(one), "%", text_of(other)))
                following = binary(text_of(one), "+", Text("1"))
                yield replaced(one, binary(following, "%", text_of(other)))


def _pairs(program: Program, *symbols: str) -> list[Expression]:
    return [
        one
        for one in program.all_expressions()
        if one.operator in symbols and one.kind in ("binary", "assignment") and len(one.operands) == 2
    ]


def _chooses(one: Expression) -> bool:
    """Whether it may say which of several arrays is meant: it is no last index."""
    around = one.parent
    if one.role != "index" or around is None:
        return True
    return around.kind == "subscript" and around.type.kind in ("array", "pointer", "record")


def _last(one: Expression) -> bool:
    """Whether it is a whole index, argument or initial value."""
    return one.parent is None or one.parent.kind in ("subscript", "call")
