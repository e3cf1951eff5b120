"""The next digit of an index: a coordinate times how many values the index counts without it."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.composed import coordinates, reaches, times
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "coordinate", "argument", "loop start"})
_KINDS = frozenset({"name", "binary", "cast"})


@operator
def digit_added(program: Program) -> Iterator[Draft]:
    """`c * S + i * 8 + r` for `i * 8 + r` with `i < S / 8`, where a coordinate `c`, or what it is made of, is
    multiplied by `S` elsewhere."""
    for one in program.expressions:
        if one.role not in _ROLES or one.kind not in _KINDS or one.assigned or one.fixed or not sums.top(one):
            continue
        around = one.parent
        if in_own_array(one) or not one.type.whole or (around is not None and around.kind == "binary"):
            continue
        counted = reaches(program, one)
        for coordinate in coordinates(program, one) if counted else ():
            known = times(program, one, coordinate)
            for size in counted:
                if size in known:
                    term = binary(Text(coordinate.text, precedence.POSTFIX), "*", Text(size, precedence.POSTFIX))
                    yield replaced(one, binary(text_of(one), "+", term), f"plus {term.text}")
