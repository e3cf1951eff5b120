"""The code that a kernel runs: its own body with the device functions and macros that it reaches, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType

from wmmadiag.csource.declarations import declarations
from wmmadiag.csource.nodes import Node, field, outermost
from wmmadiag.csource.tree import Source, parse

# nvcuda::wmma, PTX ISA "Warp Level Matrix Instructions" and "wgmma", and CUTLASS's and CuTe's names for them.
_MULTIPLY = re.compile(
    r"\bmma_sync\b|\b(?:wmma\.|tcgen05\.|wgmma\.)?mma(?:_async|\.sync|\.sp)\b|\btcgen05\.mma\b|\bgemm::warp::|\bcute::gemm\b"
    r"|\bMMA_Atom\b|\bGemmUniversal\b"
)


def kernel_code(text: str, kernel: str, flags: Mapping[str, bool] = MappingProxyType({})) -> str:
    """The text of a kernel's body, of all that it calls and of the tables that it reads, comments left out; "" if it
    has no body here.

    Functions are told apart by name alone: of overloads, all count.

    Args:
        flags: the values of template parameters; what the body does only where one has another value is left out.
    """
    own = kernel.split("<")[0].split("::")[-1].strip()
    bodies = _bodies(text)
    if flags:
        bodies = {**bodies, own: _with_flags(text, own, flags)}
    waiting = [own]
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


def _with_flags(text: str, kernel: str, flags: Mapping[str, bool]) -> list[str]:
    """The bodies of a kernel without what is never done where its template's flags have these values."""
    source = parse(text)
    bodies = (one.body for one in declarations(source).functions if one.name == kernel and one.device)
    found = []
    for body in bodies:
        if body is None:
            continue
        kept, at = [], body.start_byte
        for first, last, instead in _idle(source, body, flags):
            kept += [source.code_text(at, first), instead]
            at = last
        found.append(re.sub(r"\s+", " ", " ".join([*kept, source.code_text(at, body.end_byte)])))
    return found


def _idle(source: Source, node: Node, flags: Mapping[str, bool]) -> Iterator[tuple[int, int, str]]:
    """The places of branches that are never taken, in their order, with what stands for each: `if (FLAG)`, `FLAG ? a :
    b`, and their like."""
    for one in outermost(node, "if_statement", "conditional_expression"):
        condition, kept, other = (field(one, name) for name in ("condition", "consequence", "alternative"))
        if condition is None:
            continue
        words = source.words(condition).strip("() ")
        value = flags.get(words.removeprefix("!").strip("() "))
        taken = None if value is None else value != words.startswith("!")
        for branch, idle in ((kept, taken is False), (other, taken is True)):
            if branch is not None and idle:
                instead = "0" if one.type == "conditional_expression" else "{ }" if branch is kept else ""
                yield branch.start_byte, branch.end_byte, instead
            elif branch is not None:
                yield from _idle(source, branch, flags)


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
