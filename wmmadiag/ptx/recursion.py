"""Recursion is not emulated: calls along a cycle of the call graph become unsupported instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from wmmadiag.ptx.components import components
from wmmadiag.ptx.demangle import demangle
from wmmadiag.ptx.ir import Instruction, PtxFunction, SymbolAddress


def callee(instruction: Instruction) -> str | None:
    """Name of the function that an instruction calls, or None."""
    if instruction.op != "call":
        return None
    symbol = instruction.operand("callee")
    return symbol.name if isinstance(symbol, SymbolAddress) else None


def refuse_recursion(functions: Mapping[str, PtxFunction]) -> dict[str, PtxFunction]:
    """The same functions, with each call that closes a cycle refused."""
    graph = {
        name: {target for item in function.instructions if (target := callee(item)) in functions and target}
        for name, function in functions.items()
    }
    component = components(graph)
    result = {}
    for name, function in functions.items():
        looping = {target for target in graph[name] if target == name or component[target] == component[name]}
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


def _refuse(instruction: Instruction, target: str) -> Instruction:
    reason = f"call: recursion is not emulated (through {demangle(target)})"
    attributes = MappingProxyType({"reason": reason, "operands": target})
    return replace(instruction, op="unsupported", attributes=attributes, operands=(), specs=())
