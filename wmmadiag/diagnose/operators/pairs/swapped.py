"""What two neighbours hold exchanged."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, Text, several
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.shapes import leaves, renaming, shapes

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
                yield several([(left, Text(its.text)), (right, Text(own.text))], note)
