"""Which statements order accesses: barriers, fences, commits and waits, the user's own functions for them included."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence

from wmmadiag.csource.declarations import Function
from wmmadiag.csource.lexical import Macro
from wmmadiag.csource.nodes import called
from wmmadiag.diagnose.operators.cuda_names import ORDER, ORDER_IN_ASSEMBLY, Order
from wmmadiag.diagnose.operators.model import Body, Expression, Statement

_METHODS = frozenset({"sync", "wait", "arrive"})
"""Names that order something only as methods, or with arguments."""
_CALLED = re.compile(r"\b(\w+)\s*\(")


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
        return _in_assembly(one.text)
    # The values in a template's arguments are beside the call.
    calls = [one for one in statement.expressions if one.kind == "call"]
    return known.get(calls[0].operator) if calls and _orders(calls[0]) else None


def _orders(call: Expression) -> bool:
    return call.operator not in _METHODS or call.receiver is not None or len(call.operands) > 0


def unused(
    functions: Mapping[str, Sequence[Function]], macros: Mapping[str, Macro], used: Container[str]
) -> Iterator[tuple[str, int, Order]]:
    """How what does nothing but order accesses is called, but for its arguments, and how many it takes; what it does.

    Args:
        functions, macros: by name.
        used: names that are left out.
    """
    for name, listed in functions.items():
        order = _of_function(listed[0]) if name not in used else None
        if order is not None:
            sizes = [one for one in listed[0].template or () if not one.default]
            given = f"<{', '.join('0' for _ in sizes)}>" if sizes else ""
            yield f"{name}{given}", len(listed[0].parameters), order
    for name, macro in macros.items():
        calls = (_of_call(one) for one in _CALLED.findall(macro.body))
        order = _in_assembly(macro.body) if "asm" in macro.body else next(calls, None)
        if name not in used and macro.parameters is not None and order is not None:
            yield name, len(macro.parameters), order


def _of_function(one: Function) -> Order | None:
    """What a function does whose statements all order accesses: what the last one does."""
    statements = [part for part in one.body.named_children if part.type != "comment"] if one.body is not None else []
    found: list[Order | None] = []
    for part in statements:
        inner = part.named_children[0] if part.type == "expression_statement" and part.named_children else None
        if inner is None or inner.text is None:
            return None
        name = called(inner) if inner.type == "call_expression" else ""
        assembly = inner.type == "gnu_asm_expression"
        found.append(_in_assembly(inner.text.decode("utf-8", "replace")) if assembly else _of_call(name))
    return found[-1] if found and None not in found else None


def _of_call(name: str) -> Order | None:
    return ORDER.get(name) if name not in _METHODS else None


def _in_assembly(text: str) -> Order | None:
    """What assembly in a text does to the order of accesses."""
    return next((order for pattern, order in ORDER_IN_ASSEMBLY if pattern.search(text)), None)
