"""An end held to a bound."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator

_MOST = 4


@operator
def clamped(program: Program) -> Iterator[Draft]:
    """`min(e, n)` for the initial value `e` of a variable that loops end at, or for the end itself."""
    pool = pools(program)
    ends = {
        one.operands[1].text
        for one in program.all_expressions()
        if one.kind == "binary" and one.operator == "<" and one.statement.kind == "loop"
    }
    for one in program.expressions:
        named = one.parent is None and any(variable.name in ends for variable in one.statement.declares)
        end = one.parent is not None and one.parent.operator == "<" and one.number == 1 and one.role != "value"
        if one.kind != "binary" or not one.type.whole or one.fixed or not (named or end):
            continue
        bounds = [atom for atom in pool.at(one) if atom.type.whole and atom.varying is False and not atom.constant]
        bounds = [atom for atom in bounds if atom.text in pool.roles and atom.text not in one.names]
        for bound in bounds[:_MOST]:
            yield replaced(one, Text(f"min({one.text}, {bound.text})", precedence.POSTFIX), f"at most {bound.text}")
