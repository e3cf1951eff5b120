"""PTX of several sources as one module: what a kernel calls, and another source of its program defines."""

from __future__ import annotations

import re
from dataclasses import replace

from wmmadiag.emulator.select_control import DEVICE_RUNTIME
from wmmadiag.place import Place
from wmmadiag.ptx.calls import INDIRECT, SOURCE, addressed
from wmmadiag.ptx.ir import Module, SymbolAddress

_INTERNAL = re.compile(
    r"^\.(?:global|const)\s[^;={]*?([\w$]+)\s*(?:\[[^;={]*)?[;=]|^\.func\s(?:\s*\([^)]*\))?\s*([\w$]+)", re.MULTILINE
)
"""A variable or function of a module that no word (`.visible`, `.weak`, `.extern`, `.common`) opens to others."""
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


def through_pointers(module: Module) -> bool:
    """Whether a module calls what a pointer holds: that may be a function of any source."""
    return any(one.op == INDIRECT for function in module.functions.values() for one in function.instructions)


def linked(module: Module, other: Module) -> Module:
    """A module with the functions and variables of another that it lacks."""
    functions = dict(module.functions)
    for name, function in other.functions.items():
        known = functions.get(name)
        if not function.entry and (known is None or (known.declared_only and not function.declared_only)):
            functions[name] = function
    variables = {**other.variables, **module.variables}
    # compiled as a program of its own, a source has what it declares `extern` as if it defined it, without a value
    variables |= {
        name: one
        for name, one in other.variables.items()
        if variables[name].extern or (variables[name].initializer is None and not one.extern)
    }
    held = addressed((one for one in other.functions.values() if one.entry), ())
    return replace(module, functions=functions, variables=variables, pointed=module.pointed.union(held))


def placeless(module: Module) -> Module:
    """A module whose instructions stand in no file: what happens in them is told at the line that called."""
    nowhere = Place("", 0)
    functions = {
        name: replace(one, instructions=tuple(replace(each, place=nowhere) for each in one.instructions))
        for name, one in module.functions.items()
    }
    return replace(module, functions=functions)


def private(ptx: str, number: int) -> str:
    """PTX whose names with internal linkage are its own, among those of other sources."""
    names = {one for found in _INTERNAL.finditer(ptx) for one in found.groups() if one}
    if not names:
        return ptx
    whole = re.compile(r"(?<![\w$%.])(?:" + "|".join(map(re.escape, sorted(names))) + r")(?![\w$])")
    return whole.sub(lambda found: f"{found[0]}{SOURCE}{number}", ptx)


def original(name: str) -> str:
    """A name as it was before `private`."""
    return name.partition(SOURCE)[0]


def heap(ptx: str) -> str:
    """The PTX of `native/device/heap.cu` under the names that kernels call."""
    return _HEAP.sub(r"\1", ptx)
