"""Values that nothing wrote, where they matter: reads of shared, local and output memory (and of fragments) that were
never set, followed byte by byte to where they arrive.

A read alone is no finding: padding that is loaded with its row, or rows of a tile that a bound hides later, harm
nobody. Found is what reaches an output, an address or a branch; a value that a select or a mask replaced on its way
does not. Zero times garbage counts as garbage, since garbage can be NaN.

Bad:
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];        // 32 threads fill 32 of 64 elements
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x] + row[threadIdx.x + 32];

Good:
    for (int i = threadIdx.x; i < 64; i += blockDim.x) row[i] = x[i];
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, element_name, thread_name, user_line
from wmmadiag.checks.ranges import elements, mask_of, numbers
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.emulator.extents import ExtentPart, MemoryExtent

_HINTS = {
    "shared": "fill the whole tile before it is read (zeros past the end), or keep these elements out of the result",
    "local": "give the array initial values",
    "global": "write the output before it is read back, or zero it before the launch",
    "generic": "fill the fragment (wmma::fill_fragment) or the variable before it is used",
}
_MOST_WRITERS = 4
_MOST_HOLES = 3


class SharedWriter(NamedTuple):
    """An instruction that wrote shared memory: lowest offset and end of where, how many bytes, bits of its warps."""

    pc: int
    low: int
    high: int
    bytes: int
    warps: int


@dataclass(frozen=True, slots=True)
class Seen:
    """The `values` of a raw finding, decoded; see native/checks/uninitialised.cpp."""

    # first, last, bytes: addresses that the first block wrote such values to, and how many bytes
    first: int
    last: int
    bytes: int
    holes: tuple[tuple[int, int], ...]  # [begin, end) of shared memory that nothing had written
    writers: tuple[SharedWriter, ...]  # what had written shared memory


def decode(values: Sequence[int]) -> Seen:
    """The numbers of a raw finding with names."""
    first, last, count, holes, *rest = values
    pairs = tuple(zip(rest[0 : 2 * holes : 2], rest[1 : 2 * holes : 2], strict=True))
    at = 2 * holes
    number = rest[at]
    rows = rest[at + 1 : at + 1 + 5 * number]
    writers = tuple(SharedWriter(*rows[i : i + 5]) for i in range(0, len(rows), 5))
    return Seen(first, last, count, pairs, writers)


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding from one pair of read and arrival."""
    kind, space = str(raw["kind"]), str(raw["space"])
    if space == "shared" and raw["address"] < context.kernel.layout.reserved_shared:
        return (
            None  # lent by the system: cooperative groups reset their own bits of a word there, the others tell nothing
        )
    seen = decode(raw["values"])
    source = "a register (a fragment or variable)" if space == "generic" else array_name(context, space, raw["address"])
    verb = "uses" if space == "generic" else "reads"
    if kind == "output":
        target = array_name(context, "global", seen.first)
        arrival = f"the value reaches {target}"
    elif kind == "branch":
        arrival = "the value decides a branch"
    else:
        arrival = "the value is used as an address"
    where = user_line(context, raw["pc"])
    to = user_line(context, raw["other_pc"])
    message = f"line {where.line} {verb} {source}, which nothing has written, and {arrival} at line {to.line}"
    return Finding(
        check="uninitialised",
        kind=kind,
        level=Level.WARNING if kind == "branch" else Level.ERROR,
        message=message,
        place=where,
        other=to,
        count=_count(raw, context, seen),
        detail=tuple(_detail(raw, context, seen)),
        hint=_HINTS[space],
    )


def _count(raw: Raw, context: Context, seen: Seen) -> int:
    """Elements of the output that hold such values at the end; or lanes."""
    if raw["kind"] != "output":
        return int(raw["count"])
    size = _element_bytes(context, seen.first)
    return max(int(raw["count"]) // size, 1)


def _detail(raw: Raw, context: Context, seen: Seen) -> list[str]:
    space, address, size = str(raw["space"]), int(raw["address"]), int(raw["bytes"])
    thread = thread_name(context, raw["block"], raw["warp"], raw["lane"] if space != "generic" else None)
    if space == "generic":
        lines = [f"first seen: {thread}"]
    else:
        lines = [f"first seen: {thread} reads {element_name(context, space, address, _unit(size))}"]
    if raw["kind"] == "output":
        step = _element_bytes(context, seen.first)
        lines.append(
            f"reaches {seen.bytes // step:,} elements in that block, "
            f"{_output_element(context, seen.first)} to {_output_element(context, seen.last - step + 1)}"
        )
    extent = context.extents.holding(space, address)
    if space == "shared" and extent is not None:
        lines += _pattern(context, seen, extent, address)
    return lines


def _unit(size: int) -> int:
    """Bytes to count elements in: those of a scalar access; fragment lines and vectors say nothing about elements."""
    return size if size in (2, 4, 8) else 1


def array_at(extent: MemoryExtent, address: int) -> tuple[ExtentPart, int, int]:
    """The array of a range that holds an address, with the addresses of its start and end."""
    part = extent.part(address) or ExtentPart(extent.label, 0, 0, (), ())
    start = extent.start + part.offset
    return part, start, start + math.prod(part.shape) * part.item if part.item else extent.start + extent.size


def _pattern(context: Context, seen: Seen, extent: MemoryExtent, address: int) -> list[str]:
    """What of an array was written when it was read, and by which lines."""
    part, start, end = array_at(extent, address)
    name = part.indexed(part.shape, comma=False)
    holes = [(max(a, start) - start, min(b, end) - start) for a, b in seen.holes if a < end and b > start]
    mask = mask_of(part, holes)
    writers: dict[int, SharedWriter] = {}
    for one in seen.writers:
        if one.low < end and one.high > start:
            line = user_line(context, one.pc).line
            seen_there = writers.get(line, one._replace(bytes=0))
            writers[line] = SharedWriter(
                one.pc,
                min(seen_there.low, one.low),
                max(seen_there.high, one.high),
                seen_there.bytes + one.bytes,
                seen_there.warps | one.warps,
            )
    if not writers:
        return [f"nothing at all had written {name} ({end - start:,} bytes) by then"]
    if mask is None:
        missing = sum(b - a for a, b in holes)
        lines = [
            f"of {name}, {end - start - missing:,} of {end - start:,} bytes were written by then; not: {_words(holes)}"
        ]
    else:
        missing = int(np.count_nonzero(mask))
        lines = [f"{mask.size - missing:,} of {mask.size:,} elements were written by then; not: {elements(part, mask)}"]
    block = context.launch.block
    warps = -(-block[0] * block[1] * block[2] // 32)
    for line, one in list(writers.items())[:_MOST_WRITERS]:
        low, high = max(one.low, start), min(one.high, end)
        chosen = [warp for warp in range(warps) if one.warps >> warp & 1]
        who = f"line {line}" + (f" ({'warp' if len(chosen) == 1 else 'warps'} {numbers(chosen)})" if warps > 1 else "")
        if part.item:
            reach = f"{extent.element(low)} to {extent.element(high - part.item)}"
            lines.append(f"{who} had written {one.bytes // part.item:,} elements, {reach}")
        else:
            reach = f"bytes {low - start:,} to {high - start - 1:,}"
            lines.append(f"{who} had written {one.bytes:,} bytes, within {reach} of {name}")
    return lines


def _words(holes: Sequence[tuple[int, int]]) -> str:
    lengths = {b - a for a, b in holes}
    strides = {later[0] - earlier[0] for earlier, later in pairwise(holes)}
    if len(holes) > _MOST_HOLES and len(lengths) == 1 and len(strides) == 1:
        return f"{lengths.pop():,} bytes in every {strides.pop():,}, from byte {holes[0][0]:,}"
    listed = ", ".join(f"bytes {a:,} to {b - 1:,}" for a, b in holes[:_MOST_HOLES])
    return listed + (f" and {len(holes) - _MOST_HOLES} more stretches" if len(holes) > _MOST_HOLES else "")


def _element_bytes(context: Context, address: int) -> int:
    extent = context.extents.holding("global", address)
    return (extent.item(address) if extent is not None else 0) or 1


def _output_element(context: Context, address: int) -> str:
    return element_name(context, "global", address)


CHECK = Check(
    name="uninitialised",
    summary="values that nothing wrote and that reach an output, an address or a branch",
    levels={
        Level.ERROR: "such a value reaches an output, or is used as an address",
        Level.WARNING: "such a value decides a branch, and no output holds it",
    },
    cost="high",
    default=True,
    native=("uninitialised",),
    describe=describe,
)
