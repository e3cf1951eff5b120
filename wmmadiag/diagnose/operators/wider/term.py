"""A term that is put together: a coordinate, or a coordinate times a size."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.composed import coordinates, sizes, terms
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST_OF_POINTERS = 8
_ROLES = frozenset({"index", "offset", "pointer", "coordinate", "argument", "loop start"})
_KINDS = frozenset({"name", "member", "binary", "literal", "cast", "call"})


@operator
def term_composed(program: Program) -> Iterator[Draft]:
    """`a + c` and `a + c * s` for an index, pointer or coordinate `a`, with a coordinate `c` that it does not name and
    a size `s`; for a pointer also `a + c * s * t`."""
    for one in program.expressions:
        if _sum(one) and not in_own_array(one):
            for term in (*terms(program, one), *(_planes(program, one) if one.type.address else ())):
                yield replaced(one, term if one.text == "0" else binary(text_of(one), "+", term), f"plus {term.text}")


def _planes(program: Program, one: Expression) -> Iterator[Text]:
    """A coordinate times two sizes: where a matrix of several begins."""
    for first, second in itertools.combinations_with_replacement(sizes(program, one), 2):
        for coordinate in coordinates(program, one, _MOST_OF_POINTERS):
            yield binary(binary(Text(coordinate.text), "*", Text(first)), "*", Text(second))


def _sum(one: Expression) -> bool:
    """Whether it is all of an index, pointer or coordinate."""
    if one.role not in _ROLES or one.kind not in _KINDS or one.assigned or one.fixed or not sums.top(one):
        return False
    around = one.parent
    if one.type.address:
        return one.role == "pointer" and (around is None or around.kind not in ("member", "subscript"))
    if around is not None and around.kind == "binary":  # a factor, or what is compared or divided
        return False
    return one.kind != "literal" or one.text == "0"
