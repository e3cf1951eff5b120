"""The code that a kernel runs: its own body with the device functions and macros that it reaches, as text."""

from __future__ import annotations

import re
from functools import lru_cache

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.tree import parse

# nvcuda::wmma, PTX ISA "Warp Level Matrix Instructions" and "wgmma", and CUTLASS's and CuTe's names for them.
_MULTIPLY = re.compile(
    r"\bmma_sync\b|\b(?:wmma\.|tcgen05\.|wgmma\.)?mma(?:_async|\.sync|\.sp)\b|\btcgen05\.mma\b|\bgemm::warp::|\bcute::gemm\b"
    r"|\bMMA_Atom\b|\bGemmUniversal\b"
)


def kernel_code(text: str, kernel: str) -> str:
    """The text of a kernel's body, of all that it calls and of the tables that it reads, comments left out; "" if it
    has no body here.

    Functions are told apart by name alone: of overloads, all count.
    """
    bodies = _bodies(text)
    waiting = [kernel.split("<")[0].split("::")[-1].strip()]
    seen: set[str] = set()
    found: list[str] = []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for body in bodies.get(name, ()):
            found.append(body)
            waiting += [word for word in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", body)) if word in bodies]
    return "\n".join(found)


def multiplies(code: str) -> int:
    """How many tensor-core multiplications a text has."""
    return len(_MULTIPLY.findall(code))


@lru_cache(maxsize=2)
def _bodies(text: str) -> dict[str, list[str]]:
    """The bodies of device functions, members of classes and macros, and the values of tables, by name."""
    source = parse(text)
    bodies: dict[str, list[str]] = {}
    declared = declarations(source)
    classes = {one.qualified for one in declared.records}
    for function in declared.functions:
        if function.body is not None and (function.device or function.scope in classes):
            body = source.code_text(function.body.start_byte, function.body.end_byte)
            bodies.setdefault(function.name, []).append(re.sub(r"\s+", " ", body))
    for variable in declared.variables:
        if variable.dimensions and variable.value is not None:
            listed = source.code_text(variable.value.start_byte, variable.value.end_byte)
            bodies.setdefault(variable.name, []).append(re.sub(r"\s+", " ", listed))
    for macro in source.code.macros.values():
        bodies.setdefault(macro.name, []).extend(macro.bodies)
    return bodies
