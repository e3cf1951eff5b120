"""A round of a loop that is left out where what it is about lies outside of a matrix."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from wmmadiag.diagnose.operators.comparisons import comparisons, coordinates_in
from wmmadiag.diagnose.operators.conditions.guard import stored
from wmmadiag.diagnose.operators.making import Draft, inserted_before
from wmmadiag.diagnose.operators.model import Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_NAME = re.compile(r"[A-Za-z_]\w*")
_TWO, _ONE = 4, 12
"""Pairs of comparisons for one store, and comparisons."""


@operator
def skipped(program: Program) -> Iterator[Draft]:
    """`if (y >= m || x >= n) continue;` in a loop that stores at `y * n + x`, or one of the two, as soon as all is
    known: in an outer loop, where that knows it."""
    known = comparisons(program)
    for statement in program.statements:
        if stored(statement) is None or not statement.loops:
            continue
        whole = statement.expressions[0]
        two = itertools.islice(known.both(whole, coordinates_in([whole]), outside=True), _TWO)
        one = itertools.islice(known.built(whole, coordinates_in([whole]), ">="), _ONE)
        for condition in (*two, *one):
            place = _place(statement, frozenset(_NAME.findall(condition.text)))
            if place is not None:
                text = f"if ({condition.text}) continue;"
                yield inserted_before(place, text, text[:-1], "branch")


def _place(statement: Statement, names: frozenset[str]) -> Statement | None:
    """Before which statement of a loop around one all of some names are known; None where no loop makes one of them, or
    where a branch in it does."""
    one: Statement | None = statement
    while one is not None and one.loops:
        loop = one.loops[-1]
        of_loop = one.parent is not None and one.parent.parent is loop and one.braced
        made = [other.index for other in one.block[: one.index] if _declares(other, names)]
        if made or (of_loop and _declares(loop, names)):
            return one.block[max(made, default=-1) + 1] if of_loop else None
        one = one.parent
    return None


def _declares(statement: Statement, names: frozenset[str]) -> bool:
    return any(variable.name in names for variable in statement.declares)
