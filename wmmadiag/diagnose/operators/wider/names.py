"""Every other name that may stand for one: those that seem less likely than what was tried first."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.candidates import may_be_size, names_for, replaceable
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_MOST = 16


@operator
def any_name(program: Program) -> Iterator[Draft]:
    """Any variable, constant or member of the same type that is in scope, for the one that stands there, or for a
    number that may have been a size."""
    for one in program.expressions:
        if (replaceable(one) and one.type.kind != "fragment") or may_be_size(one):
            for atom in names_for(program, one, _MOST):
                yield replaced(one, Text(atom.text, precedence.POSTFIX))
