"""The static shared arrays of a kernel, where they are declared, and how to make dynamic memory of them.

Static arrays may have 48 KB together, however much the chip has; the same arrays in dynamic memory may have all of it
(CUDA C++ Programming Guide, "Shared Memory": above 48 KB per block only as dynamic memory, with an opt-in).

Bad:
    __shared__ half k[2][128][136], v[2][128][136];        // 136 KB

Good:
    struct Arrays { half k[2][128][136], v[2][128][136]; };
    extern __shared__ __align__(128) unsigned char bytes[];
    auto& k = reinterpret_cast<Arrays*>(bytes)->k;
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wmmadiag.diagnose.edits.building import after
from wmmadiag.diagnose.edits.model import Change
from wmmadiag.diagnose.edits.terms import base_of, origin
from wmmadiag.diagnose.source.model import SourceModel, Statement, Variable

ALIGN = 128
"""Bytes to which each array is aligned in the struct: what a fragment or a vector of any kind needs, and more."""


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A static shared array of a source and the bytes that the compiled kernel has for it."""

    variable: Variable
    size: int


def static_arrays(model: SourceModel, sizes: Mapping[str, int]) -> tuple[SharedArray, ...]:
    """The arrays that a source declares, the largest first.

    Args:
        sizes: bytes of the compiled kernel's shared arrays by name.
    """
    found = [
        SharedArray(one, sizes[one.name])
        for one in model.variables
        if one.shared and not one.external and one.name in sizes
    ]
    return tuple(sorted(found, key=lambda one: -one.size))


def in_dynamic_memory(model: SourceModel, arrays: tuple[SharedArray, ...]) -> tuple[tuple[Change, ...], int] | None:
    """(changes, bytes for the launch) that put a kernel's arrays into dynamic memory; None where that is not plain.

    It is plain where one function declares them all, each at most once, in statements of its own body.
    """
    statements = {model.statement_at(one.variable.name_at) for one in arrays}
    functions = {model.function_at(one.variable.name_at) for one in arrays}
    function = next(iter(functions), None)
    names = [one.variable.name for one in arrays]
    if any(v.external for v in model.variables) or -1 in statements or len(functions) != 1 or function is None:
        return None
    ordered = sorted(statements)
    if not function.kernel or len(set(names)) < len(names):
        return None
    pieces = [model.statements[index] for index in ordered]
    if any(one.kind != "declaration" or one.parent != function.body for one in pieces):
        return None
    last = ordered[-1]
    between = model.statements[ordered[0] : last]
    at = last if all(one.kind == "declaration" for one in between) else ordered[0]
    code = [
        "struct SharedArrays {",
        *(f"    {_member(model, one)}" for one in pieces),
        "};",
        f"extern __shared__ __align__({ALIGN}) unsigned char shared_bytes[];",
        "SharedArrays& shared_arrays = *reinterpret_cast<SharedArrays*>(shared_bytes);",
        *(f"auto& {name} = shared_arrays.{name};" for name in sorted(names)),
    ]
    put = after(model, at, "\n".join(code))
    if put is None:
        return None
    gone = [_without(model, one, put.start) for one in pieces]
    size = sum(-(-one.size // ALIGN) * ALIGN for one in arrays)
    return (*gone, put, *_host(model, function.name, size)), size


def _host(model: SourceModel, kernel: str, size: int) -> Iterator[Change]:
    """The launches of a kernel in the same source, with so many bytes and the opt-in before."""
    for found in re.finditer(rf"\b({re.escape(kernel)}\s*(?:<[^;{{}}<>]*>)?)\s*<<<", model.text):
        end = model.text.find(">>>", found.end())
        ahead = model.text[: found.start()].rstrip()
        if end < 0 or not ahead.endswith((";", "{", "}")):  # no place for a statement before it
            continue
        commas = _commas(model.text, found.end(), end)
        start, stop = (commas[1] + 1, commas[2] if len(commas) > 2 else end) if len(commas) > 1 else (end, end)
        opt_in = f"cudaFuncSetAttribute({found[1].strip()}, cudaFuncAttributeMaxDynamicSharedMemorySize, {size});"
        yield Change(found.start(), found.start(), f"{opt_in}\n{model.indent(found.start())}")
        yield Change(start, stop, f" {size}" if len(commas) > 1 else f", {size}")


def _commas(text: str, start: int, end: int) -> list[int]:
    """Offsets of the commas between arguments."""
    found: list[int] = []
    depth = 0
    for at in range(start, end):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if text[at] == "," and depth == 0:
            found.append(at)
    return found


def _without(model: SourceModel, statement: Statement, before: int) -> Change:
    """Take a declaration out, with its line where nothing else is on it; what is put in at `before` stays."""
    first = model.text.rfind("\n", 0, statement.start) + 1
    end = model.text.find("\n", statement.end) + 1
    alone = not model.text[first : statement.start].strip() and not model.text[statement.end : end].strip()
    return Change(first, end, "") if alone and end and end <= before else Change(statement.start, statement.end, "")


def _member(model: SourceModel, statement: Statement) -> str:
    text = re.sub(r"\b(?:__shared__|static)\s*", "", model.text[statement.start : statement.end])
    return text if re.search(r"__align__|alignas", text) else f"__align__({ALIGN}) {text}"


def carved_at(model: SourceModel, line: int) -> int | None:
    """The line that carves out of a dynamic shared buffer what code on a line accesses; None where none does."""
    statements = [one for one in model.statements if one.simple and one.line <= line <= one.last_line]
    found: list[Variable] = []
    for statement in statements:
        for token in model.tokens[statement.first : statement.last]:
            variable = model.variable(token.text, token.offset) if token.kind == "id" else None
            while variable is not None and variable.pointer and variable.kind == "local":
                source = origin(model, variable)
                inner = base_of(model, variable.initial) if variable.initial is not None else None
                if source is not None and source.external and variable.line != line:
                    found.append(variable)
                    break
                variable = inner if inner is not variable else None
    return max((one.line for one in found), default=None)
