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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, declared_name, element_name, extent_at, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.emulator.faults import Extent

_HINTS = {
    "shared": "fill the whole tile before it is read (zeros past the end), or keep these elements out of the result",
    "local": "give the array initial values",
    "global": "write the output before it is read back, or zero it before the launch",
    "generic": "fill the fragment (wmma::fill_fragment) or the variable before it is used",
}
_MOST_WRITERS = 4
_MOST_HOLES = 3


@dataclass(frozen=True, slots=True)
class Seen:
    """The `values` of a raw finding, decoded; see native/checks/uninitialised.cpp.

    Attributes:
        first, last, bytes: addresses that the first block wrote such values to, and how many bytes.
        holes: [begin, end) of shared memory that nothing had written.
        writers: (pc, lowest offset, highest, bytes) of what had written shared memory.
    """

    first: int
    last: int
    bytes: int
    holes: tuple[tuple[int, int], ...]
    writers: tuple[tuple[int, int, int, int], ...]


def decode(values: Sequence[int]) -> Seen:
    """The numbers of a raw finding with names."""
    first, last, count, holes, *rest = values
    pairs = tuple(zip(rest[0 : 2 * holes : 2], rest[1 : 2 * holes : 2], strict=True))
    at = 2 * holes
    number = rest[at]
    rows = rest[at + 1 : at + 1 + 4 * number]
    writers = tuple(zip(rows[0::4], rows[1::4], rows[2::4], rows[3::4], strict=True))
    return Seen(first, last, count, pairs, writers)


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding from one pair of read and arrival."""
    kind, space = str(raw["kind"]), str(raw["space"])
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
    extent = extent_at(context, space, address)
    if space == "shared" and extent is not None:
        lines += _pattern(context, seen, extent)
    return lines


def _unit(size: int) -> int:
    """Bytes to count elements in: those of a scalar access; fragment lines and vectors say nothing about elements."""
    return size if size in (2, 4, 8) else 1


def _pattern(context: Context, seen: Seen, extent: Extent) -> list[str]:
    """What of an array was written when it was read, and by which lines."""
    name, start, end = declared_name(extent), extent.start, extent.start + extent.size
    holes = [(max(a, start) - start, min(b, end) - start) for a, b in seen.holes if a < end and b > start]
    missing = sum(b - a for a, b in holes)
    writers: dict[str, list[int]] = {}
    for pc, low, high, count in seen.writers:
        if low < end and high > start:
            line = f"line {user_line(context, pc).line}"
            entry = writers.setdefault(line, [low, high, 0])
            writers[line] = [min(entry[0], low), max(entry[1], high), entry[2] + count]
    if not writers:
        return [f"nothing at all had written {name} ({extent.size:,} bytes) by then"]
    lines = [
        f"of {name}, {extent.size - missing:,} of {extent.size:,} bytes were written by then; not: {_words(holes)}"
    ]
    for line, (low, high, count) in list(writers.items())[:_MOST_WRITERS]:
        reach = f"bytes {max(low, start) - start:,} to {min(high, end) - start - 1:,}"
        lines.append(f"{line} had written {count:,} bytes, within {reach} of {name}")
    return lines


def _words(holes: Sequence[tuple[int, int]]) -> str:
    lengths = {b - a for a, b in holes}
    strides = {later[0] - earlier[0] for earlier, later in pairwise(holes)}
    if len(holes) > _MOST_HOLES and len(lengths) == 1 and len(strides) == 1:
        return f"{lengths.pop():,} bytes in every {strides.pop():,}, from byte {holes[0][0]:,}"
    listed = ", ".join(f"bytes {a:,} to {b - 1:,}" for a, b in holes[:_MOST_HOLES])
    return listed + (f" and {len(holes) - _MOST_HOLES} more stretches" if len(holes) > _MOST_HOLES else "")


def _argument(context: Context, address: int) -> tuple[str, int, NDArray[Any]] | None:
    """(name, byte offset, array) of the argument that holds a device address."""
    extent = extent_at(context, "global", address)
    if extent is None:
        return None
    launch = context.launch
    for index, argument in enumerate(launch.arguments):
        name = launch.names[index] if index < len(launch.names) else f"argument {index}"
        if name == extent.name and isinstance(argument, np.ndarray):
            return name, address - extent.start, argument
    return None


def _element_bytes(context: Context, address: int) -> int:
    found = _argument(context, address)
    return found[2].itemsize if found is not None else 1


def _output_element(context: Context, address: int) -> str:
    found = _argument(context, address)
    if found is None:
        return element_name(context, "global", address)
    name, offset, array = found
    index = np.unravel_index(min(offset // array.itemsize, array.size - 1), array.shape)
    return f"{name}[{', '.join(str(int(i)) for i in index)}]"


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
