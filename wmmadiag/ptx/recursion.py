"""Recursion is not emulated: calls along a cycle of the call graph become unsupported instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from wmmadiag.ptx.demangle import demangle
from wmmadiag.ptx.ir import Function, Instruction, SymbolAddress


def callee(instruction: Instruction) -> str | None:
    """Name of the function that an instruction calls, or None."""
    if instruction.op != "call":
        return None
    symbol = instruction.operand("callee")
    return symbol.name if isinstance(symbol, SymbolAddress) else None


def refuse_recursion(functions: Mapping[str, Function]) -> dict[str, Function]:
    """The same functions, with each call that closes a cycle refused."""
    graph = {
        name: {target for item in function.instructions if (target := callee(item)) in functions and target}
        for name, function in functions.items()
    }
    reach = {name: _reachable(graph, name) for name in graph if graph[name]}
    result = {}
    for name, function in functions.items():
        looping = {target for target in graph[name] if target == name or name in reach.get(target, ())}
        if looping:
            function = replace(
                function,
                instructions=tuple(
                    _refuse(item, target) if (target := callee(item)) in looping and target else item
                    for item in function.instructions
                ),
            )
        result[name] = function
    return result


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for target in graph[todo.pop()]:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def _refuse(instruction: Instruction, target: str) -> Instruction:
    reason = f"call: recursion is not emulated (through {demangle(target)})"
    attributes = MappingProxyType({"reason": reason, "operands": target})
    return replace(instruction, op="unsupported", attributes=attributes, operands=(), specs=())
