"""What a variable of the device holds before the program writes it."""

from __future__ import annotations

from wmmadiag.ptx.calls import function_address
from wmmadiag.ptx.ir import Module, PtxVariable


def pointers(module: Module, variable: PtxVariable) -> list[tuple[int, int]]:
    """(offset, address) of each whole pointer to a function that a variable holds at first."""
    return [
        (offset, function_address(symbol.name))
        for offset, width, shift, symbol, _ in (variable.initializer.relocations if variable.initializer else ())
        if symbol.name in module.functions and symbol.name not in module.variables and (width, shift) == (8, 0)
    ]


def contents(module: Module, variable: PtxVariable) -> bytes | None:
    """What a variable holds at first; None where that hangs on places of data, or it is none of this module's.

    Pointers to functions are written when it has its place.
    """
    initial = variable.initializer
    if variable.extern or not variable.size:
        return None
    if initial is not None and len(initial.relocations) != len(pointers(module, variable)):
        return None
    return bytes(variable.size) if initial is None else bytes(initial.data)
