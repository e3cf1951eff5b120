"""A counter that has come to its end begins anew."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_before, statement_replaced
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.registry import operator

_REACHED = frozenset({"==", ">=", ">"})


@operator
def wrapped(program: Program) -> Iterator[Draft]:
    """`x = 0;` and `x -= n;` in a branch that is taken where `x` has come to `n`, for an `x` that is counted."""
    for statement in program.statements:
        condition = statement.condition
        if statement.kind != "if" or condition is None or condition.operator not in _REACHED or not statement.children:
            continue
        counter, size = _counter(condition.operands[0]), condition.operands[1]
        taken = statement.children[0]
        if counter is None or size.varying is True or _set_in(taken, counter.text):
            continue
        if not _changed(statement, counter.text):
            continue
        for text in (f"{counter.text} = 0;", f"{counter.text} -= {size.text};"):
            note = f"{text[:-1]} where {condition.text}"
            if taken.kind == "block" and taken.children:
                yield inserted_before(taken.children[0], text, note, "assignment")
            elif taken.kind == "expression":
                held = taken.source
                yield statement_replaced(taken, f"{{ {text} {held} }}", note, "assignment")


def _counter(one: Expression) -> Expression | None:
    if one.kind == "unary" and one.operator in ("++", "--"):
        one = one.operands[0]
    return one if one.kind in ("name", "member") and one.type.whole else None


def _set_in(branch: Statement, name: str) -> bool:
    return any(
        one.kind == "assignment" and one.operands[0].text == name
        for whole in branch.whole_expressions()
        for one in whole.under()
    )


def _changed(statement: Statement, name: str) -> bool:
    """Whether the function counts it: what never changes comes to no end."""
    root = statement.function.root
    wholes = root.whole_expressions() if root is not None else ()
    return any(one.text == name and one.assigned for whole in wholes for one in whole.under())
