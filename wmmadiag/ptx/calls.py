"""`call`: a list of results, a callee, a list of arguments."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.ir import (
    Access,
    Address,
    Function,
    Label,
    Operand,
    OperandSpec,
    Pair,
    Parameter,
    Register,
    Space,
    SymbolAddress,
    Vector,
)
from wmmadiag.ptx.operands import OperandParser

INDIRECT = "indirect calls (through a function pointer) are not emulated"


def parse_call(
    cursor: Cursor, operands: OperandParser, functions: Mapping[str, Function]
) -> tuple[tuple[Operand, ...], tuple[OperandSpec, ...]] | None:
    """Read what follows `call{.uni}`, up to the `;`. None when the call is indirect.

    Operands: a vector of results, the callee's symbol, a vector of arguments. A `.param` variable in a list is its
    symbol address.
    """
    returns = _list(cursor, operands) if cursor.token == "(" else ()
    if returns:
        cursor.expect(",")
    at = cursor.index
    name = cursor.identifier("a function")
    arguments: tuple[Operand, ...] = ()
    prototype = False
    if cursor.accept(","):
        if cursor.token == "(":
            arguments = _list(cursor, operands)
            prototype = cursor.accept(",")
        else:
            prototype = True
    if prototype:
        cursor.identifier("a prototype or a list of targets")
    callee = functions.get(name)
    if callee is None:
        if isinstance(operands.scope.register(name), Register):
            return None
        raise cursor.error(f"undefined function {name!r}", index=at)
    if callee.entry:
        raise cursor.error(f"a kernel cannot be called: {name!r}", index=at)
    if prototype:
        return None
    _check(cursor, at, name, "results", callee.returns, returns)
    _check(cursor, at, name, "arguments", callee.parameters, arguments)
    specs = (
        OperandSpec("ret", "param", Access.WRITE, len(returns)),
        OperandSpec("callee", "label"),
        OperandSpec("args", "param", Access.READ, len(arguments)),
    )
    return (Vector(returns), SymbolAddress(name), Vector(arguments)), specs


def _list(cursor: Cursor, operands: OperandParser) -> tuple[Operand, ...]:
    cursor.expect("(")
    found: list[Operand] = []
    while not cursor.accept(")"):
        at = cursor.index
        operand, _ = operands.parse()
        if isinstance(operand, (Address, Vector, Pair, Label)):
            raise cursor.error("a call takes registers, constants and .param variables", index=at)
        if isinstance(operand, SymbolAddress):
            symbol = operands.symbol(cursor.text[at])
            if symbol is not None and symbol[1] is not Space.PARAM:
                raise cursor.error(f"{cursor.text[at]!r} is not a .param variable", index=at)
        found.append(operand)
        if not cursor.accept(","):
            cursor.expect(")")
            break
    return tuple(found)


def _check(
    cursor: Cursor,
    at: int,
    name: str,
    what: str,
    formal: tuple[Parameter | Register, ...],
    actual: tuple[Operand, ...],
) -> None:
    if len(formal) != len(actual):
        raise cursor.error(f"{name!r} has {len(formal)} {what}, the call {len(actual)}", index=at)
