"""Calls: how one is written, what may come to itself again, and which functions a pointer may hold."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping

from wmmadiag.ptx import ir
from wmmadiag.ptx.cursor import Cursor
from wmmadiag.ptx.operands import OperandParser

_PROTOTYPE = "a prototype or a list of targets"


def parse_call(
    cursor: Cursor, operands: OperandParser, functions: Mapping[str, ir.PtxFunction]
) -> tuple[tuple[ir.Operand, ...], tuple[ir.OperandSpec, ...]]:
    """Read what follows `call{.uni}`, up to the `;`.

    Operands: a vector of results, the callee's symbol or the register that holds its address, a vector of arguments. A
    `.param` variable in a list is its symbol address.
    """
    returns = _list(cursor, operands) if cursor.token == "(" else ()
    if returns:
        cursor.expect(",")
    at = cursor.index
    name = cursor.identifier("a function")
    arguments: tuple[ir.Operand, ...] = ()
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
        if isinstance(register, ir.Register):
            return (ir.Vector(returns), register, ir.Vector(arguments)), _specs(returns, arguments, register.type)
        raise cursor.error(f"undefined function {name!r}", index=at)
    if callee.entry:
        raise cursor.error(f"a kernel cannot be called: {name!r}", index=at)
    _check(cursor, at, name, "results", callee.returns, returns)
    _check(cursor, at, name, "arguments", callee.parameters, arguments)
    return (ir.Vector(returns), ir.SymbolAddress(name), ir.Vector(arguments)), _specs(returns, arguments, "label")


def _specs(
    returns: tuple[ir.Operand, ...], arguments: tuple[ir.Operand, ...], callee: str
) -> tuple[ir.OperandSpec, ...]:
    return (
        ir.OperandSpec("ret", "param", ir.Access.WRITE, len(returns)),
        ir.OperandSpec("callee", callee),
        ir.OperandSpec("args", "param", ir.Access.READ, len(arguments)),
    )


def _list(cursor: Cursor, operands: OperandParser) -> tuple[ir.Operand, ...]:
    cursor.expect("(")
    found: list[ir.Operand] = []
    while not cursor.accept(")"):
        at = cursor.index
        operand, _ = operands.parse()
        if isinstance(operand, (ir.Address, ir.Vector, ir.OperandPair, ir.Label)):
            raise cursor.error("a call takes registers, constants and .param variables", index=at)
        if isinstance(operand, ir.SymbolAddress):
            symbol = operands.symbol(cursor.text[at])
            if symbol is not None and symbol[1] is not ir.Space.PARAM:
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
    formal: tuple[ir.PtxParameter | ir.Register, ...],
    actual: tuple[ir.Operand, ...],
) -> None:
    if len(formal) != len(actual):
        raise cursor.error(f"{name!r} has {len(formal)} {what}, the call {len(actual)}", index=at)


# Functions that come to themselves again, and what must survive a call.


def callee(instruction: ir.Instruction) -> str | None:
    """Name of the function that an instruction calls, or None."""
    if instruction.op != "call":
        return None
    symbol = instruction.operand("callee")
    return symbol.name if isinstance(symbol, ir.SymbolAddress) else None


def callees(module: ir.Module, caller: ir.PtxFunction, one: ir.Instruction) -> tuple[ir.PtxFunction, ...]:
    """What an instruction may call."""
    if one.op == INDIRECT:
        return targets(module, caller, one)
    function = module.functions.get(callee(one) or "")
    return () if function is None else (function,)


def reached(module: ir.Module, entry: ir.PtxFunction) -> dict[str, set[str]]:
    """The functions that an entry comes to, itself first, each with those that it calls; a call through a pointer goes
    to all that the pointer may hold."""
    graph: dict[str, set[str]] = {}
    waiting = [entry]
    while waiting:
        function = waiting.pop()
        if function.name not in graph:
            called = [target for one in function.instructions if one.op in _CALLS
                      for target in callees(module, function, one)]  # fmt: skip
            graph[function.name] = {target.name for target in called}
            waiting += called
    return graph


def registers(operand: ir.Operand | None) -> Iterator[ir.Register]:
    """The registers in an operand."""
    if isinstance(operand, ir.Register):
        yield operand
    elif isinstance(operand, ir.Predicate):
        yield operand.register
    elif isinstance(operand, ir.Address):
        if isinstance(operand.base, ir.Register):
            yield operand.base
    elif isinstance(operand, ir.Vector):
        for element in operand.elements:
            yield from registers(element)
    elif isinstance(operand, ir.OperandPair):
        yield from registers(operand.first)
        yield from registers(operand.second)


# Calls through pointers to functions: which functions a pointer may hold, and the number that stands for each.
#
# A pointer holds what some instruction or initial value takes the address of; a call through it reaches one of these
# that takes and gives as many bytes as the call does.


INDIRECT = "call.indirect"
"""`op` of a call whose callee is a register."""
_CALLS = frozenset({"call", INDIRECT})
SOURCE = "$from"
"""In a function's name: before it stands the name in its own source, behind it which source that is."""
_BASE = 0x7000_0000_0000
"""Where no data lies."""
_BITS = 40
_WIDTHS = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


_OWN_SCOPE = re.compile(r"\d+(_(?:GLOBAL__N_|INTERNAL)_[0-9a-f]{8}_\d+_)")
_RUN = re.compile(r"(?<=_[0-9a-f]{8})_\d+$")
"""Behind the name of a source's own scope: a number of the compiler's process."""


def function_address(name: str) -> int:
    """The number that a pointer to a function holds: the same in each module of a program."""
    digest = hashlib.blake2b(_of_any_run(name.partition(SOURCE)[0]).encode(), digest_size=8).digest()
    return _BASE + ((int.from_bytes(digest, "little") & ((1 << _BITS) - 1)) << 4) % (1 << 43)


def _of_any_run(name: str) -> str:
    """A mangled name whose scopes of a source's own say nothing of the run of the compiler that named them."""
    parts, position = [], 0
    for found in _OWN_SCOPE.finditer(name):
        begin = found.start(1)
        digits = (name[one:begin] for one in range(found.start(), begin))  # an identifier before it may end with some
        scope = next((part for size in digits if _RUN.search(part := name[begin : begin + int(size)])), None)
        if scope is not None and begin >= position:
            parts += [name[position:begin], _RUN.sub("", scope)]
            position = begin + len(scope)
    return "".join((*parts, name[position:]))


def addressed(functions: Iterable[ir.PtxFunction], variables: Iterable[ir.PtxVariable]) -> Iterator[str]:
    """The symbols whose address instructions and initial values take; variables' are among them."""
    for variable in variables:
        for _, _, _, symbol, _ in variable.initializer.relocations if variable.initializer else ():
            yield symbol.name
    for function in functions:
        for one in function.instructions:
            if one.op != "call":
                yield from (operand.name for operand in one.operands if isinstance(operand, ir.SymbolAddress))


def targets(module: ir.Module, caller: ir.PtxFunction, call: ir.Instruction) -> tuple[ir.PtxFunction, ...]:
    """What a call through a pointer may reach, by name."""
    returns, arguments = call.operand("ret"), call.operand("args")
    assert isinstance(returns, ir.Vector)
    assert isinstance(arguments, ir.Vector)
    sizes = {one.name: one.size for one in (*caller.variables, *caller.parameters) if not isinstance(one, ir.Register)}
    shape = (_actual(returns, sizes), _actual(arguments, sizes))
    held = module.pointed.union(addressed(module.functions.values(), module.variables.values()))
    names = sorted(held & module.functions.keys())
    found = (module.functions[name] for name in names)
    return tuple(one for one in found if not one.entry and (_formal(one.returns), _formal(one.parameters)) == shape)


def _actual(operands: ir.Vector, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_size(one, sizes) for one in operands.elements)


def _size(operand: ir.Operand, sizes: Mapping[str, int]) -> int:
    if isinstance(operand, ir.SymbolAddress):
        return sizes.get(operand.name, -1)
    return _width(operand.type) if isinstance(operand, ir.Register) else -1


def _formal(operands: Iterable[ir.PtxParameter | ir.Register]) -> tuple[int, ...]:
    return tuple(one.size if isinstance(one, ir.PtxParameter) else _width(one.type) for one in operands)


def _width(type_name: str) -> int:
    return _WIDTHS.get(type_name.lstrip("abcdefghijklmnopqrstuvwxyz"), -1)
