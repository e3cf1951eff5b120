"""Recursion is not emulated: calls along a cycle of the call graph become unsupported instructions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

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
    component = _components(graph)
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


def _components(graph: Mapping[str, set[str]]) -> dict[str, int]:
    """Function → number of its strongly connected component (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    component: dict[str, int] = {}
    stack: list[str] = []
    for root in graph:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        work = [(root, iter(graph[root]))]
        while work:
            name, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    work.append((target, iter(graph[target])))
                    break
                if target not in component:
                    low[name] = min(low[name], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[name])
                if low[name] == index[name]:
                    while name not in component:
                        component[stack.pop()] = index[name]
    return component


def _refuse(instruction: Instruction, target: str) -> Instruction:
    reason = f"call: recursion is not emulated (through {demangle(target)})"
    attributes = MappingProxyType({"reason": reason, "operands": target})
    return replace(instruction, op="unsupported", attributes=attributes, operands=(), specs=())
