"""Grid and block of a kernel that nobody launches, from its launch bounds and from what it makes of its indices.

Only where that leaves one answer: a grid that is too small or too large makes a right kernel look wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wmmadiag.subject.drafts.guess import Parameter, symbol_for

Number = Callable[[str], int | None]
_INDEX = r"blockIdx\.{}"
_NAME = r"[A-Za-z_]\w*"
# What host code would call the extents of axes that are no rows: `symbol_for` knows these names.
_EXTENTS = {"B*H": "batch_heads", "B": "batch", "H": "heads", "batch": "batch"}


@dataclass(frozen=True, slots=True)
class Derived:
    """A launch, as host code would write it; grid and block empty where they cannot be told, and then why."""

    grid: str = ""
    block: str = ""
    why: str = ""


def derived_launch(
    code: str, parameters: Sequence[Parameter], bounds: Sequence[str], operation: str, number: Number
) -> Derived:
    """The launch that a kernel's code asks for.

    Args:
        code: what it runs, as `wmmadiag.compile.kernel_code` gives it.
        parameters: of the kernel.
        bounds: the arguments of its `__launch_bounds__`.
        operation: what it computes.
        number: the value of a constant expression.
    """
    plain = re.sub(r"\s*\.\s*(?=[a-z])", ".", code)
    symbols = {
        one.name: symbol for one in parameters if not one.pointer and (symbol := symbol_for(one.name, operation))
    }
    block = _block(plain, bounds, number)
    if re.search(r"\bgridDim\b", plain):
        return Derived("", block, "the kernel reads the grid's size")
    axes = sorted(set(re.findall(_INDEX.format("([xyz])"), plain)))
    found = {axis: _axis(plain, axis, symbols, number) for axis in axes}
    rows = [axis for axis, one in found.items() if isinstance(one, int)]
    extents: dict[str, str] = {axis: one for axis, one in found.items() if isinstance(one, str) and one}
    rows_of: dict[str, str] = {}
    for axis in rows:
        symbol = rows_of[axis] = _rows_of(plain, axis, symbols, operation, len(rows))
        name = next((name for name, meant in symbols.items() if meant == symbol), "")
        if name:
            extents[axis] = f"({name} + {found[axis]} - 1) / {found[axis]}"
    if (
        operation == "gemm"
        and len(rows) == 2
        and (left := [axis for axis in rows if axis not in extents])
        and len(left) == 1
    ):
        other = {"M": "N", "N": "M"}.get(rows_of[next(axis for axis in rows if axis in extents)], "")
        name = next((name for name, meant in symbols.items() if meant == other), "")
        if name:
            extents[left[0]] = f"({name} + {found[left[0]]} - 1) / {found[left[0]]}"
    missing = [axis for axis in axes if axis not in extents]
    if missing or not axes or len(set(extents.values())) < len(extents):
        what = f"what blockIdx.{missing[0]} counts is not plain" if missing else "it does not use its block's index"
        return Derived("", block, what if missing or not axes else "two of its axes seem to count the same")
    return Derived(f"dim3({', '.join(extents.get(axis, '1') for axis in 'xyz')})", block)


def _block(plain: str, bounds: Sequence[str], number: Number) -> str:
    """Threads of a block: the launch bound and the stride of every loop from the thread's index on, if they agree."""
    if re.search(r"\bthreadIdx\.[yz]\b|\bblockDim\b", plain):
        return ""
    own = [_INDEX.format("x").replace("blockIdx", "threadIdx")]
    own += re.findall(rf"\b({_NAME})\s*=\s*threadIdx\.x\s*;", plain)
    starts = "|".join(own)
    strides = re.findall(rf"=\s*(?:{starts})\s*;[^;]*;\s*{_NAME}\s*\+=\s*([^;)]+?)\s*\)", plain)
    values = {number(stride) for stride in strides}
    values |= {number(bounds[0])} if bounds else set()  # the bound alone may be larger than the block
    return str(next(iter(values))) if len(values) == 1 and None not in values else ""


def _axis(plain: str, axis: str, symbols: Mapping[str, str], number: Number) -> int | str:
    """Rows of a tile along an axis, or the extent that the axis counts one by one; "" if that is not plain."""
    index = _INDEX.format(axis)
    heads = [name for name, symbol in symbols.items() if symbol == "H"]
    for name in heads:
        if re.search(rf"{index}\s*/\s*{name}\b", plain) and re.search(rf"{index}\s*%\s*{name}\b", plain):
            return next((f"{batch} * {name}" for batch, symbol in symbols.items() if symbol == "B"), "batch_heads")
    tiles = set(re.findall(rf"{index}\s*\*\s*({_NAME}|\d+)", plain))
    tiles |= set(re.findall(rf"({_NAME}|\d+)\s*\*\s*{index}", plain))
    names = re.findall(rf"\b({_NAME})\s*=\s*(?:\(\s*\w+\s*\)\s*)?{index}\s*;", plain)
    for name in names:
        tiles |= {one for one in re.findall(rf"\b{name}\s*\*\s*({_NAME}|\d+)\b", plain) if number(one) is not None}
    values = {number(tile) for tile in tiles}
    if len(values) == 1 and None not in values:
        return int(next(iter(values)) or 0) or ""
    if tiles and not names:
        return ""
    meant = {
        symbol_for(name.removesuffix("_idx").removesuffix("_id").removesuffix("Idx"), "attention") for name in names
    }
    meant &= set(_EXTENTS)
    if len(meant) != 1 or values - {None}:
        return ""
    symbol = next(iter(meant)) or ""
    return next((name for name, known in symbols.items() if known == symbol), _EXTENTS[symbol])


def _rows_of(plain: str, axis: str, symbols: Mapping[str, str], operation: str, count: int) -> str:
    """The extent that an axis cuts into tiles; "" if the code does not tell."""
    index = _INDEX.format(axis)
    names = set(re.findall(rf"\b({_NAME})\s*=\s*[^;{{}}=]*{index}", plain))
    for _ in range(2):  # row = row0 + warp * 16
        known = "|".join(map(re.escape, sorted(names))) or "(?!)"
        names |= set(re.findall(rf"\b({_NAME})\s*=\s*(?:{known})\s*(?:[+*][^;{{}}]*)?;", plain))
    known = "|".join(map(re.escape, sorted(names))) or "(?!)"
    guards = {
        symbols[right]
        for right in re.findall(rf"\b(?:{known})\s*(?:\+[^;&|()]*)?(?:>=|<)\s*({_NAME})\b", plain)
        if right in symbols
    }
    if operation in ("attention", "qkt", "pv"):
        guards = {"S" if one in ("Sq", "S") else one for one in guards} & {"S", "Skv"}
        queries = "Sq" if "Sq" in symbols.values() else "S"
        if guards:
            return queries if guards == {"S"} else ""
        return queries if operation == "attention" and count == 1 else ""
    if guards:
        return next(iter(guards)) if len(guards) == 1 else ""
    factors = {
        symbols[right]
        for right in re.findall(rf"\b(?:{known})\b\s*(?:\+\s*\w+\s*)?\)?\s*\*\s*({_NAME})\b", plain)
        if right in symbols
    }
    # C[row * N + col]: what steps over rows of N counts rows; in C[col * M + row] it counts columns.
    return {frozenset({"N"}): "M", frozenset({"N", "K"}): "M", frozenset({"M"}): "N"}.get(frozenset(factors), "")
