"""A factor that nothing else is multiplied by."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators import sums
from wmmadiag.diagnose.operators.making import Draft, Text, binary, replaced, text_of
from wmmadiag.diagnose.operators.model import Expression
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_ROLES = frozenset({"pitch", "extent", "leading dimension", "bound", "loop bound"})
_MOST = 12


@operator
def factor_any(program: Program) -> Iterator[Draft]:
    """`a * s` for a pitch, extent or bound `a`, and for a real product or quotient, with any whole number `s` in scope
    that is the same for all threads."""
    pool = pools(program)
    for one in program.expressions:
        if one.assigned or one.fixed or not (_size(one) or _real(one)):
            continue
        found = [atom for atom in pool.at(one) if atom.type.whole and atom.varying is False and not atom.constant]
        factors = [atom.text for atom in found if atom.text not in one.names]
        for text in factors[:_MOST]:
            yield replaced(one, binary(text_of(one), "*", Text(text, precedence.POSTFIX)), f"times {text}")


def _size(one: Expression) -> bool:
    whole = one.role in _ROLES and one.type.whole and one.varying is False
    return whole and (one.atom or sums.top(one))


def _real(one: Expression) -> bool:
    return one.type.kind == "float" and one.kind == "binary" and one.operator in ("*", "/")
