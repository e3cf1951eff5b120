"""A term that is put together: a coordinate, or a coordinate times a size."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.candidates import in_own_array
from wmmadiag.diagnose.operators.composed import terms
from wmmadiag.diagnose.operators.making import Draft, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"index", "offset", "pointer", "coordinate", "argument", "loop start"})
_KINDS = frozenset({"name", "member", "binary", "literal", "cast", "call"})


@operator
def term_composed(program: Program) -> Iterator[Draft]:
    """`a + c` and `a + c * s` for an index, pointer or coordinate `a`, with a coordinate `c` that it does not name and
    a size `s`."""
    for one in program.expressions:
        if _sum(one) and not in_own_array(one):
            for term in terms(program, one):
                yield replaced(one, term if one.text == "0" else binary(text_of(one), "+", term), f"plus {term.text}")


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
