"""A number held to a limit."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.composed import bounds, ends
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"coordinate", "extent", "loop bound", "bound", "loop start", "argument"})


@operator
def limited(program: Program) -> Iterator[Draft]:
    """`min(x, n)` for a whole number `x` that something counts from or to, with an `n` that something is held to,
    or that a size after what is declared before it is."""
    for one in program.expressions:
        if not one.type.whole or one.role not in _ROLES or one.assigned or one.fixed or not _whole(one):
            continue
        for bound in [*bounds(program, one), *ends(program, one)]:
            yield replaced(one, Text(f"min({one.text}, {bound.text})", precedence.POSTFIX), f"at most {bound.text}")
        if one.kind == "binary":
            yield replaced(one, Text(f"max({one.text}, 0)", precedence.POSTFIX), "at least 0")


def _whole(one: Expression) -> bool:
    """Whether it is no part of a larger number."""
    if one.kind in ("literal", "list", "assignment") or one.operator in ("min", "max"):
        return False
    around = one.parent
    return around is None or (around.kind in ("assignment", "call")) or around.type.kind == "bool"
