"""A statement made as another one is, where they differ in more than names."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.alignment import aligned_statements
from wmmadiag.diagnose.operators.making import Draft
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def aligned(program: Program) -> Iterator[Draft]:
    """What another statement of the function has more, less or otherwise than this one, with this one's names."""
    yield from aligned_statements(program, calls=False)
