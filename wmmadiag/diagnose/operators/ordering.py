"""Which statements order accesses: barriers, fences, commits and waits, the user's own functions for them included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmmadiag.diagnose.operators.cuda_names import ORDER, ORDER_IN_ASSEMBLY, Order
from wmmadiag.diagnose.operators.model import Body, Expression, Statement


def orders(bodies: Sequence[Body]) -> dict[str, Order]:
    """What each name does to the order of accesses: the language's own, and functions and macros that do just that."""
    found: dict[str, Order] = dict(ORDER)
    for body in bodies:  # callees come before those who call them
        statements = [one for one in body.statements if one.kind == "expression"]
        if len(statements) == 1 and not body.kernel:
            order = order_of(statements[0], found)
            if order is not None:
                found[body.name] = order
    return found


def order_of(statement: Statement, known: Mapping[str, Order]) -> Order | None:
    """What a statement that is one call does to the order of accesses."""
    if statement.kind != "expression" or not statement.expressions:
        return None
    one = statement.expressions[0]
    if one.kind == "assembly":
        return next((order for pattern, order in ORDER_IN_ASSEMBLY if pattern.search(one.text)), None)
    # The values in a template's arguments are beside the call.
    calls = [one for one in statement.expressions if one.kind == "call"]
    return known.get(calls[0].operator) if calls and _orders(calls[0]) else None


def _orders(call: Expression) -> bool:
    return call.operator not in ("sync", "wait", "arrive") or call.receiver is not None or len(call.operands) > 0
