"""A round of a loop that is left out where what it is about lies outside of a matrix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators.comparisons import comparisons, coordinates_in
from wmmadiag.diagnose.operators.conditions.guard import stored
from wmmadiag.diagnose.operators.making import Draft, inserted_before
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_TWO, _ONE = 4, 12
"""Pairs of comparisons for one store, and comparisons."""


@operator
def skipped(program: Program) -> Iterator[Draft]:
    """`if (y >= m || x >= n) continue;` in a loop that stores at `y * n + x`, or one of the two, as soon as all is
    known."""
    known = comparisons(program)
    for statement in program.statements:
        if stored(statement) is None or not statement.loops or not statement.braced or statement.parent is None:
            continue
        if statement.parent.parent is not statement.loops[-1]:
            continue
        whole = statement.expressions[0]
        before = statement.block[: statement.index]
        two = itertools.islice(known.both(whole, coordinates_in([whole]), outside=True), _TWO)
        one = itertools.islice(known.built(whole, coordinates_in([whole]), ">="), _ONE)
        for condition in (*two, *one):
            made = [one.index for one in before if any(name.name in condition.text for name in one.declares)]
            text = f"if ({condition.text}) continue;"
            yield inserted_before(statement.block[max(made, default=-1) + 1], text, text[:-1], "branch")
