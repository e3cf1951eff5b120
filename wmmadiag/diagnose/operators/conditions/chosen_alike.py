"""A value chosen by the condition that chooses what stands beside it."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.csource import precedence
from wmmadiag.diagnose.operators.making import Draft, Text, replaced, text_of, wrapped
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator
from wmmadiag.diagnose.operators.zeros import zero_of

_FARTHEST = 4
"""Statements after what a condition chose that may use it."""
_VALUES = frozenset({"integer", "byte", "float", "half"})


@operator
def chosen_alike(program: Program) -> Iterator[Draft]:
    """`f(c ? p : q, c ? n : 0)` for `f(c ? p : q, n)`, and the same where `c ? p : q` has a name."""
    for statement in program.statements:
        for one in statement.own_parts():
            if one.kind != "conditional" or len(one.operands) != 3:
                continue
            name, users = _users(statement, one)
            for user in users:
                for argument in _beside(user, one, name):
                    yield from _chosen(program, argument, one.operands[0])


def _users(statement: Statement, one: Expression) -> tuple[str, list[Statement]]:
    """Where what a conditional gives is used: its name, and the statements after it; or its own statement."""
    if statement.kind == "declaration" and one.parent is None and len(statement.declares) == 1:
        name = statement.declares[0].name
        later = statement.block[statement.index + 1 : statement.index + 1 + _FARTHEST]
        return name, [each for each in later if any(name in whole.names for whole in each.expressions)]
    return "", [statement]


def _beside(user: Statement, one: Expression, name: str) -> Iterator[Expression]:
    """The values that a call takes besides what was chosen."""
    for call in user.own_parts():
        if call.kind != "call" or len(call.operands) < 2:
            continue
        chosen = [each for each in call.operands if (name in each.names if name else each is one)]
        yield from (each for each in call.operands if chosen and each not in chosen)


def _chosen(program: Program, one: Expression, condition: Expression) -> Iterator[Draft]:
    usual = one.type.kind in _VALUES and not one.fixed and one.kind not in ("conditional", "list")
    if usual and pools(program).visible(condition, one) and (nought := zero_of(program, one)) not in (None, one.text):
        held = wrapped(text_of(condition), precedence.CONDITIONAL + 1)
        new = Text(f"{held} ? {one.text} : {nought}", precedence.CONDITIONAL)
        yield replaced(one, new, f"{nought} where not {condition.text}")
