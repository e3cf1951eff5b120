"""A place counted from the other end."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.candidates import counts_loop, in_own_array
from wmmadiag.diagnose.operators.extents import extents
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "coordinate", "offset", "argument"})


@operator
def from_the_end(program: Program) -> Iterator[Draft]:
    """`n - 1 - i` for an `i` that counts to `n`: a loop's counter, a remainder, an axis of the launch."""
    known = extents(program)
    for one in program.expressions:
        if one.role not in _ROLES or one.assigned or one.fixed or not _counts(one) or in_own_array(one):
            continue
        extent = known.of(one)
        if extent is not None:
            last = Text(str(int(extent.text) - 1)) if extent.text.isdecimal() else binary(extent, "-", Text("1"))
            yield replaced(one, binary(last, "-", text_of(one)), f"{one.text} from the end")


def _counts(one: Expression) -> bool:
    """Whether it is all of an index, coordinate or argument, or a term or factor of one."""
    if not one.type.whole or one.varying is False or counts_loop(one):
        return False
    if one.kind not in ("name", "member") and one.operator != "%":
        return False
    around = one.parent
    return around is None or around.kind in ("subscript", "call", "assignment") or around.operator in ("+", "-", "*")
