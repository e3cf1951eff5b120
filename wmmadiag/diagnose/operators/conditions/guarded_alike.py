"""A statement guarded as one that calls the same is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from wmmadiag.diagnose.operators.alignment import called_by
from wmmadiag.diagnose.operators.making import Draft, statement_replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def guarded_alike(program: Program) -> Iterator[Draft]:
    """`if (c) f(x);` for `f(x);`, where another call of `f` stands behind `if (c)`."""
    known: dict[str, dict[str, Expression]] = defaultdict(dict)
    for body in program.bodies:
        for one in body.statements:
            condition = _guard(one)
            if condition is not None:
                known[called_by(one)].setdefault(condition.text, condition)
    for statement in program.statements:
        if not called_by(statement) or _guard(statement) is not None:
            continue
        for text, condition in known[called_by(statement)].items():
            if pools(program).visible(condition, statement.expressions[0]):
                source = statement.source
                yield statement_replaced(statement, f"if ({text}) {source}", f"if {text}", "guard")


def _guard(one: Statement) -> Expression | None:
    """The condition of the branch that a call stands in alone."""
    if not called_by(one):
        return None
    around = one.parent
    if around is not None and around.kind == "block" and len(around.children) == 1:
        around = around.parent
    return around.condition if around is not None and around.kind == "if" else None
