"""Accesses that leave the array that they start in, and stores to memory that a kernel must leave alone.

A shared array: every access stays inside the block's shared memory (what leaves it ends the run), yet the byte that it
touches belongs to another array, or to none: an index, a leading dimension or a tile's edge is wrong. Where the other
array lies is the compiler's choice. Fragments, matrices and vectors count with all the bytes that they touch. Arrays
that are carved out of one buffer are one array here.

An argument of a card: stores to an input, and stores to an output's padding or to the gaps between its rows.

Bad:
    __shared__ float a[32], b[32];
    a[threadIdx.x + 1] = x[threadIdx.x];      // thread 31 writes b[0], or whatever lies there

Good:
    __shared__ float a[33], b[32];
    a[threadIdx.x + 1] = x[threadIdx.x];
"""

from __future__ import annotations

from collections.abc import Iterator

from wmmadiag.checks.array_bases import accessed_arrays
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, element_name, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.checks.views import by_line, neighbours, outputs
from wmmadiag.emulator.extents import MemoryExtent
from wmmadiag.emulator.output_words import Writers
from wmmadiag.ptx.meaning import Dataflow, meaning


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding for a store to an input, or for the lowest or highest byte of an instruction outside its array."""
    if raw["kind"] == "input":
        return _input(raw, context)
    if raw["kind"] not in ("low", "high"):
        return None
    pc, reached = int(raw["pc"]), int(raw["address"])
    placed = accessed_arrays(context.kernel).get(pc)
    if placed is None:
        return None
    start, end = placed.address, placed.address + placed.variable.size
    past = reached - end if raw["kind"] == "high" else start - reached
    if past <= 0:
        return None
    touched = reached - 1 if raw["kind"] == "high" else reached
    node = context.kernel.nodes[pc]
    does = meaning(node.text)
    loads = does.flow is Dataflow.LOAD
    name = MemoryExtent(placed.variable.name, "shared", start, placed.variable.size).label
    side = "past the end of" if raw["kind"] == "high" else "before the start of"
    other = context.extents.holding("shared", touched)
    lands = f"in {array_name(context, 'shared', touched)}" if other is not None else "outside every array"
    what = "fragment" if does.opcode == "wmma" else "matrix" if does.opcode.endswith("matrix") else "access"
    where = user_line(context, pc)
    return Finding(
        check="memory",
        kind="outside-array" if loads else "write-outside-array",
        level=Level.WARNING if loads else Level.ERROR,
        message=f"{'reads' if loads else 'writes'} {side} {name} ({placed.variable.size:,} bytes)",
        place=where,
        detail=(
            f"up to {past:,} bytes {side} {name}, {lands}",
            f"first: {thread_name(context, raw['block'], raw['warp'], raw['lane'] if what == 'access' else None)}, "
            f"{what} of {node.text}",
        ),
        hint=f"compare the index, the leading dimension and the tile's edge with the declared size of {name}",
        fragment=what == "fragment",
    )


def _input(raw: Raw, context: Context) -> Finding:
    address, where = int(raw["address"]), user_line(context, raw["pc"])
    extent = context.extents.holding("global", address)
    item = extent.item(address) if extent is not None else 1
    return Finding(
        check="memory",
        kind="write-to-input",
        level=Level.ERROR,
        message=f"writes to the input {array_name(context, 'global', address)}",
        place=where,
        count=max(int(raw["count"]) // max(item, 1), 1),
        detail=(
            f"first: {thread_name(context, raw['block'], raw['warp'], raw['lane'])} writes "
            f"{element_name(context, 'global', address, item)}",
        ),
        hint="compare this store's pointer with the kernel's outputs; a card says inout where it is meant",
    )


def inspect(context: Context) -> Iterator[Finding]:
    """Findings for stores outside an output's tensors, by line."""
    for output in outputs(context):
        if not output.views:
            continue
        for pc, positions in by_line(output, output.outside()):
            first = int(positions[0])
            writers = Writers(output.words[first : first + 1])
            thread = thread_name(context, int(writers.blocks[0]), int(writers.warps[0]))
            names = ", ".join(view.name for view in output.views)
            yield Finding(
                check="memory",
                kind="write-outside-view",
                level=Level.ERROR,
                message=f"writes to {output.name} outside the elements of {names}",
                place=user_line(context, pc),
                count=len(positions),
                detail=(f"first: {thread} writes the element {neighbours(output, first)}",),
                hint="compare the row's length and the strides at this line with those of the output",
            )


CHECK = Check(
    name="memory",
    summary="accesses that leave their shared array, stores to inputs and to an output's padding",
    levels={Level.ERROR: "it writes there", Level.WARNING: "it only reads there"},
    cost="low",
    default=True,
    native=("accesses", "outputs"),
    describe=describe,
    inspect=inspect,
)
