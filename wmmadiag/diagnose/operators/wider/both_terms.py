"""A term more on both sides of a comparison."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators.comparisons import ORDERINGS
from wmmadiag.diagnose.operators.making import Draft, Text, binary, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.partners import partners
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator


@operator
def both_terms(program: Program) -> Iterator[Draft]:
    """`a + s < b + t` for `a < b`, with an `s` and a `t` that are added to these elsewhere."""
    known = partners(program)
    for one in program.expressions:
        if one.kind != "binary" or one.operator not in ORDERINGS or one.fixed:
            continue
        left, right = one.operands
        if not (left.type.whole and right.type.whole):
            continue
        for first, second in itertools.product(*([*known.terms(part)] for part in (left, right))):
            yield several([(left, _with(left, *first)), (right, _with(right, *second))])


def _with(one: Expression, term: Text, less: bool) -> Text:
    return binary(text_of(one), "-" if less else "+", term)
