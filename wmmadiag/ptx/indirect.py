"""Calls through pointers to functions: which functions a pointer may hold, and the number that stands for each.

A pointer holds what some instruction or initial value takes the address of; a call through it reaches one of these
that takes and gives as many bytes as the call does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from wmmadiag.ptx.ir import (
    Instruction,
    Module,
    Operand,
    PtxFunction,
    PtxParameter,
    PtxVariable,
    Register,
    SymbolAddress,
    Vector,
)

INDIRECT = "call.indirect"
"""`op` of a call whose callee is a register."""
SOURCE = "$from"
"""In a function's name: before it stands the name in its own source, behind it which source that is."""
_BASE = 0x7000_0000_0000
"""Where no data lies."""
_BITS = 40
_WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def function_address(name: str) -> int:
    """The number that a pointer to a function holds: the same in each module of a program."""
    digest = hashlib.blake2b(name.partition(SOURCE)[0].encode(), digest_size=8).digest()
    return _BASE + ((int.from_bytes(digest, "little") & ((1 << _BITS) - 1)) << 4) % (1 << 43)


def addressed(functions: Iterable[PtxFunction], variables: Iterable[PtxVariable]) -> Iterator[str]:
    """The symbols whose address instructions and initial values take; variables' are among them."""
    for variable in variables:
        for _, _, _, symbol, _ in variable.initializer.relocations if variable.initializer else ():
            yield symbol.name
    for function in functions:
        for one in function.instructions:
            if one.op != "call":
                yield from (operand.name for operand in one.operands if isinstance(operand, SymbolAddress))


def targets(module: Module, caller: PtxFunction, call: Instruction) -> tuple[PtxFunction, ...]:
    """What a call through a pointer may reach, by name."""
    returns, arguments = call.operand("ret"), call.operand("args")
    assert isinstance(returns, Vector)
    assert isinstance(arguments, Vector)
    sizes = {one.name: one.size for one in (*caller.variables, *caller.parameters) if not isinstance(one, Register)}
    shape = (_actual(returns, sizes), _actual(arguments, sizes))
    names = sorted(set(addressed(module.functions.values(), module.variables.values())) & module.functions.keys())
    found = (module.functions[name] for name in names)
    return tuple(one for one in found if not one.entry and (_formal(one.returns), _formal(one.parameters)) == shape)


def _actual(operands: Vector, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_size(one, sizes) for one in operands.elements)


def _size(operand: Operand, sizes: Mapping[str, int]) -> int:
    if isinstance(operand, SymbolAddress):
        return sizes.get(operand.name, -1)
    return _width(operand.type) if isinstance(operand, Register) else -1


def _formal(operands: Iterable[PtxParameter | Register]) -> tuple[int, ...]:
    return tuple(one.size if isinstance(one, PtxParameter) else _width(one.type) for one in operands)


def _width(type_name: str) -> int:
    return _WIDTHS.get(type_name.lstrip("abcdefghijklmnopqrstuvwxyz"), -1)
