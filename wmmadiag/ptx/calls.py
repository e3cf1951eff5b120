"""`call`: a list of results, a callee, a list of arguments."""

from __future__ import annotations

from collections.abc import Mapping

from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.ir import (
    Access,
    Address,
    Label,
    Operand,
    OperandPair,
    OperandSpec,
    PtxFunction,
    PtxParameter,
    Register,
    Space,
    SymbolAddress,
    Vector,
)
from wmmadiag.ptx.operands import OperandParser

_PROTOTYPE = "a prototype or a list of targets"


def parse_call(
    cursor: Cursor, operands: OperandParser, functions: Mapping[str, PtxFunction]
) -> tuple[tuple[Operand, ...], tuple[OperandSpec, ...]]:
    """Read what follows `call{.uni}`, up to the `;`.

    Operands: a vector of results, the callee's symbol or the register that holds its address, a vector of arguments. A
    `.param` variable in a list is its symbol address.
    """
    returns = _list(cursor, operands) if cursor.token == "(" else ()
    if returns:
        cursor.expect(",")
    at = cursor.index
    name = cursor.identifier("a function")
    arguments: tuple[Operand, ...] = ()
    if cursor.accept(","):
        if cursor.token == "(":
            arguments = _list(cursor, operands)
            if cursor.accept(","):
                cursor.identifier(_PROTOTYPE)
        else:
            cursor.identifier(_PROTOTYPE)
    callee = functions.get(name)
    if callee is None:
        register = operands.scope.register(name)
        if isinstance(register, Register):
            return (Vector(returns), register, Vector(arguments)), _specs(returns, arguments, register.type)
        raise cursor.error(f"undefined function {name!r}", index=at)
    if callee.entry:
        raise cursor.error(f"a kernel cannot be called: {name!r}", index=at)
    _check(cursor, at, name, "results", callee.returns, returns)
    _check(cursor, at, name, "arguments", callee.parameters, arguments)
    return (Vector(returns), SymbolAddress(name), Vector(arguments)), _specs(returns, arguments, "label")


def _specs(returns: tuple[Operand, ...], arguments: tuple[Operand, ...], callee: str) -> tuple[OperandSpec, ...]:
    return (
        OperandSpec("ret", "param", Access.WRITE, len(returns)),
        OperandSpec("callee", callee),
        OperandSpec("args", "param", Access.READ, len(arguments)),
    )


def _list(cursor: Cursor, operands: OperandParser) -> tuple[Operand, ...]:
    cursor.expect("(")
    found: list[Operand] = []
    while not cursor.accept(")"):
        at = cursor.index
        operand, _ = operands.parse()
        if isinstance(operand, (Address, Vector, OperandPair, Label)):
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
    formal: tuple[PtxParameter | Register, ...],
    actual: tuple[Operand, ...],
) -> None:
    if len(formal) != len(actual):
        raise cursor.error(f"{name!r} has {len(formal)} {what}, the call {len(actual)}", index=at)
