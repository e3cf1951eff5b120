"""A statement far from where it was meant to stand, in its block."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.statements.moved import MOVABLE, declares, move_after, move_before

_FARTHEST = 12


@operator
def moved_far(program: Program) -> Iterator[Draft]:
    """A statement anywhere else in its block, where what it names is declared."""
    for one in program.statements:
        if one.kind not in MOVABLE or one.kind in ("jump", "return") or not one.braced or one.order is not None:
            continue
        for distance in range(2, _FARTHEST + 1):
            yield from _later(one, distance)
            yield from _sooner(one, distance)


def _later(one: Statement, distance: int) -> Iterator[Draft]:
    at = one.index + distance
    if at < len(one.block):
        yield move_after(one, one.block[at])


def _sooner(one: Statement, distance: int) -> Iterator[Draft]:
    at = one.index - distance
    if at >= 0 and not declares(one.block[at : one.index], one):
        yield move_before(one, one.block[at])
