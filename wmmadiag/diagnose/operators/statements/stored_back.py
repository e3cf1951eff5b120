"""What was read from memory and changed, put back."""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.diagnose.operators.making import Draft, inserted_after
from wmmadiag.diagnose.operators.model import Expression, Statement
from wmmadiag.diagnose.operators.places import Program
from wmmadiag.diagnose.operators.pools import pools
from wmmadiag.diagnose.operators.registry import operator


@operator
def stored_back(program: Program) -> Iterator[Draft]:
    """`p[i] = x;` after the last statement of a block that changes an `x` that the block took from `p[i]`."""
    for one in program.statements:
        name, value = _taken(one)
        if value is None or one.unit.macro or not _place(program, value):
            continue
        last = next((later for later in reversed(one.block[one.index + 1 :]) if _changes(later, name)), None)
        if last is not None and last.braced and pools(program).visible_within(value, last, ""):
            yield inserted_after(last, f"{value.text} = {name};", f"{name} put back", "statement")


def _taken(one: Statement) -> tuple[str, Expression | None]:
    """The variable that a statement gives one value, and the value."""
    if one.kind == "declaration" and len(one.declares) == 1 and len(one.expressions) == 1:
        return one.declares[0].name, one.expressions[0]
    whole = one.expressions[0] if one.kind == "expression" and one.expressions else None
    if whole is None or whole.kind != "assignment" or whole.operator != "=" or whole.operands[0].kind != "name":
        return "", None
    return whole.operands[0].text, whole.operands[1]


def _place(program: Program, value: Expression) -> bool:
    """Whether something can be stored where it is read; a macro is taken at its word."""
    if value.kind == "call":
        return value.operator in program.macros and value.receiver is None
    return value.kind == "subscript" or (value.kind == "unary" and value.operator == "*")


def _changes(one: Statement, name: str) -> bool:
    return any(part.text == name and part.assigned for whole in one.whole_expressions() for part in whole.under())
