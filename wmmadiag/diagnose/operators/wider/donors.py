"""Further expressions that stand elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.donors.other_expression import Shelf, asked
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST, _MOST_NAMES = 8, 4


@operator
def further_donor(program: Program) -> Iterator[Draft]:
    """An expression of the same type that stands elsewhere and is visible here, for any that is not a name."""
    pool, shelf = pools(program), Shelf(program)
    for one in program.expressions:
        if not asked(one):
            continue
        made = 0
        for other in shelf.likely(one):
            if made == _MOST:
                break
            if (not one.fixed or other.fixed) and pool.visible(other, one):
                made += 1
                yield replaced(one, text_of(other))


@operator
def name_for_value(program: Program) -> Iterator[Draft]:
    """A real variable that is in scope for a real value that is no name, the last declared first."""
    pool = pools(program)
    for one in program.expressions:
        if one.type.kind not in ("float", "half") or one.atom or one.assigned or one.fixed or not asked(one):
            continue
        names = [atom for atom in pool.at(one) if one.type.same(atom.type) and atom.text not in one.names]
        for atom in names[: -_MOST_NAMES - 1 : -1]:
            yield replaced(one, Text(atom.text, precedence.POSTFIX))
