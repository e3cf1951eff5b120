"""Accesses that leave the array that they start in, and land in a neighbour or between arrays.

Every access stays inside the block's shared memory (what leaves it ends the run), yet the byte that it touches belongs
to another array, or to none: an index, a leading dimension or a tile's edge is wrong. Where the other array lies is the
compiler's choice. Fragments, matrices and vectors count with all the bytes that they touch. An array that is carved
out of one buffer is one array here.

Bad:
    __shared__ float a[32], b[32];
    a[threadIdx.x + 1] = x[threadIdx.x];      // thread 31 writes b[0], or whatever lies there

Good:
    __shared__ float a[33], b[32];
    a[threadIdx.x + 1] = x[threadIdx.x];
"""

from __future__ import annotations

from wmmadiag.checks.array_bases import accessed_arrays
from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, declared_name, extent_at, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.emulator.faults import Extent


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding when the lowest or the highest byte that an instruction touched is outside its array."""
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
    node = context.kernel.nodes[pc]
    loads = node.op in ("ld", "wmma.load", "ldmatrix")
    name = declared_name(Extent(placed.variable.name, "shared", start, placed.variable.size))
    side = "past the end of" if raw["kind"] == "high" else "before the start of"
    touched = reached - 1 if raw["kind"] == "high" else reached
    other = extent_at(context, "shared", touched)
    lands = f"in {array_name(context, 'shared', touched)}" if other is not None else "outside every array"
    what = "fragment" if node.op.startswith("wmma") else "matrix" if node.op.endswith("matrix") else "access"
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
    )


CHECK = Check(
    name="memory",
    summary="accesses that leave the shared array that they start in",
    levels={
        Level.ERROR: "it writes there",
        Level.WARNING: "it only reads there",
    },
    cost="low",
    default=True,
    native=("accesses",),
    describe=describe,
)
