"""A call made as another call of the same function is, where they differ in more than names."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.alignment import aligned_statements
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def called_alike(program: Program) -> Iterator[Draft]:
    """What another call of the same function has more, less or otherwise than this one, with this one's names."""
    yield from aligned_statements(program, calls=True)
