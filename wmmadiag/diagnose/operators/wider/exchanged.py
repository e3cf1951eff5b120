"""Two parts of one statement exchanged, wherever in it they stand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators.candidates import replaceable
from wmmadiag.diagnose.operators.making import Draft, several, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST = 14
"""Parts of a statement of which any two are exchanged."""


@operator
def exchanged(program: Program) -> Iterator[Draft]:
    """Any two names, or two operations on whole numbers, of one statement exchanged."""
    for statement in program.statements:
        parts = [one for one in statement.own_parts() if not one.assigned and not one.fixed]
        for kind in (replaceable, _operation):
            for first, second in itertools.combinations([one for one in parts if kind(one)][:_MOST], 2):
                apart = first.end <= second.start or second.end <= first.start
                if apart and first.text != second.text and first.type.takes(second.type):
                    note = f"{first.text} and {second.text} exchanged"
                    yield several([(first, text_of(second)), (second, text_of(first))], note)


def _operation(one: Expression) -> bool:
    """Whether it is a whole number that is made of another one, and no sum."""
    return one.kind == "binary" and one.type.whole and one.varying is not False and one.operator not in ("+", "-")
