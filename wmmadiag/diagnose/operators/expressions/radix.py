"""What counts along several axes, put together in another order."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.extents import extents
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.strides import products

_MOST_DIGITS = 3


@operator
def digits(program: Program) -> Iterator[Draft]:
    """`(j * n + i) * m + k` for `k * n * l + j * n + i` and the like: what is counted together in another order, each
    with the pitch that follows, where all but the outermost say how many there are of them."""
    known = extents(program)
    for one in program.expressions:
        if not one.type.whole or not sums.top(one) or one.varying is False or one.operator != "+" or one.fixed:
            continue
        held = _digits(one)
        if held is None:
            continue
        ends = [known.of(part) for part in held]
        # The outermost stands first, or last, where nothing is multiplied with it there.
        written = 0 if len(sums.terms(one)[0].factors) > 1 else -1
        orders = list(itertools.permutations(range(len(held))))
        for order in (each for each in orders if each != orders[written]):
            if all(ends[at] is not None for at in order[1:]):
                made = text_of(held[order[0]])
                for at in order[1:]:
                    made = binary(binary(made, "*", ends[at] or Text("1")), "+", text_of(held[at]))
                yield replaced(one, made)


def _digits(one: Expression) -> list[Expression] | None:
    """What a sum counts by, the factors that are the same for all threads aside; None where it is no such sum."""
    found = []
    for factors in products(one) or ():
        counting = [part for part in factors if part.varying is not False]
        if len(counting) != 1:
            return None
        found += counting
    return found if 1 < len({part.text for part in found}) == len(found) <= _MOST_DIGITS else None
