"""PTX of several sources as one module: what a kernel calls, and another source of its program defines."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from wmmadiag.emulator.select_control import DEVICE_RUNTIME
from wmmadiag.ptx import parse
from wmmadiag.ptx.ir import Module, SymbolAddress

_PRIVATE = re.compile(r"\b(_ZL\w+|_ZN\d+_GLOBAL__N_\w+)")
_HEAP = re.compile(r"\bwmmadiag_(malloc|free)\b")


def missing(module: Module) -> frozenset[str]:
    """The functions that a module calls, and neither it nor the emulator defines."""
    return frozenset(
        one.name
        for function in module.functions.values()
        for instruction in function.instructions
        if instruction.op == "call"
        for one in instruction.operands
        if isinstance(one, SymbolAddress)
        and (called := module.functions.get(one.name)) is not None
        and called.declared_only
        and one.name not in DEVICE_RUNTIME
    )


def linked(module: Module, others: Iterable[str]) -> Module:
    """A module with the functions and variables of others that it lacks.

    Args:
        module: a kernel's.
        others: PTX, asked for while something is missing.
    """
    for number, text in enumerate(others, 1):
        if not missing(module):
            break
        other = parse(private(text, number), name=f"module {number}")
        functions = dict(module.functions)
        for name, function in other.functions.items():
            known = functions.get(name)
            if not function.entry and (known is None or (known.declared_only and not function.declared_only)):
                functions[name] = function
        variables = {**other.variables, **module.variables}
        variables |= {name: one for name, one in other.variables.items() if variables[name].extern}
        module = replace(module, functions=functions, variables=variables)
    return module


def private(ptx: str, number: int) -> str:
    """PTX whose names with internal linkage are its own, among those of other sources."""
    return _PRIVATE.sub(rf"\1$from{number}", ptx)


def heap(ptx: str) -> str:
    """The PTX of `native/device/heap.cu` under the names that kernels call."""
    return _HEAP.sub(r"\1", ptx)
