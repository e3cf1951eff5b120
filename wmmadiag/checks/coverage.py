"""Who writes what: output elements that nobody writes, results that another warp or block replaces, idle warps.

An element that is written twice is normal (zeroed and then set, a running sum, split-k by atomics). Found is a store
that replaces a value which another warp or block had stored, nothing had read, and which was neither zero nor the same.
More warps than tiles is legal, and a sign that the launch and the kernel disagree about the work of a warp.

Bad:
    int tile = threadIdx.x / 32 % 3;              // 4 warps, 4 tiles: one is done twice, one never
    wmma::store_matrix_sync(o + tile * 16 * ld, acc, ld, wmma::mem_row_major);

Good:
    for (int tile = threadIdx.x / 32; tile < tiles; tile += blockDim.x / 32) { … }
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import element_name, thread_name, user_line
from wmmadiag.checks.ranges import elements, numbers
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.checks.views import Output, outputs
from wmmadiag.emulator.extents import ExtentPart
from wmmadiag.emulator.faults import coordinates
from wmmadiag.emulator.output_words import Writers
from wmmadiag.launch import ArgumentView
from wmmadiag.place import Place
from wmmadiag.ptx.meaning import meaning

_MOST_WARPS = 8
_ORDERING = frozenset({"atom", "red", "membar", "fence"})  # opcodes by which blocks may agree on an order


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding when the same warps are idle in every block, or a result was replaced."""
    if raw["kind"] == "lost":
        return _lost(raw, context)
    if raw["kind"] != "idle":
        return None
    x, y, z = context.launch.grid
    idle, warps = int(raw["address"]), int(raw["bytes"])
    if idle == 0 or int(raw["count"]) != x * y * z or idle.bit_count() == warps:
        return None
    names = [warp for warp in range(warps) if idle >> warp & 1]
    listed = f"warp {names[0]}" if len(names) == 1 else f"warps {', '.join(map(str, names))}"
    return Finding(
        check="coverage",
        kind="idle-warps",
        level=Level.ADVICE,
        message=f"{listed} of each block's {warps} {'does' if len(names) == 1 else 'do'} nothing",
        place=context.kernel.entry.place or Place("", 0),
        count=int(raw["count"]),
        hint="launch fewer threads, or divide the tiles among all warps",
    )


def _lost(raw: Raw, context: Context) -> Finding:
    before, between_blocks = int(raw["values"][0]), bool(raw["values"][1])
    where, earlier = user_line(context, raw["pc"]), user_line(context, raw["other_pc"])
    address = int(raw["address"])
    extent = context.extents.holding("global", address)
    unordered = between_blocks and not any(meaning(node.text).opcode in _ORDERING for node in context.kernel.nodes)
    who = "another block" if between_blocks else "another warp"
    return Finding(
        check="coverage",
        kind="lost-result",
        level=Level.ERROR if unordered else Level.WARNING,
        message=f"replaces values in {extent.array(address) if extent else 'memory'} that {who} has stored at line "
        f"{earlier.line} and nothing has read",
        place=where,
        other=earlier,
        count=int(raw["count"]),
        detail=(
            f"first: {thread_name(context, raw['block'], raw['warp'])} writes "
            f"{element_name(context, 'global', address, 1)} with another value than "
            f"{thread_name(context, before, raw['other_warp'])} had",
            *(("blocks run in no order: which value stays is chance",) if unordered else ()),
        ),
        hint="compare the tile of each warp and block: two compute the same one",
    )


def inspect(context: Context) -> Sequence[Finding]:
    """Findings for outputs that the finished run left unwritten in part."""
    if not context.finished:
        return ()
    return [
        found
        for output in outputs(context)
        for view in output.views
        if view.complete and (found := _unwritten(context, output, view)) is not None
    ]


def _unwritten(context: Context, output: Output, view: ArgumentView) -> Finding | None:
    writers = output.of(view)
    written = writers.written
    missing = int(np.count_nonzero(~written))
    if missing == 0:
        return None
    part = output.part(view)
    place = context.kernel.entry.place or Place("", 0)
    detail: list[str] = []
    if missing < written.size:
        lines, counts = np.unique(writers.lines[written], return_counts=True)
        place = user_line(context, int(lines[np.argmax(counts)]))
        detail = _who(context, part, writers, written)
    return Finding(
        check="coverage",
        kind="unwritten",
        level=Level.ERROR,
        message=f"{missing:,} of {written.size:,} elements of {view.name} are never written",
        place=place,
        detail=(f"not written: {elements(part, ~written, comma=True)}", *detail),
        hint="compare the tiles that blocks and warps take with the output's extents",
    )


def _who(context: Context, part: ExtentPart, writers: Writers, written: NDArray[np.bool_]) -> list[str]:
    """Which blocks wrote the rest; and of the first of them, which warp wrote which elements."""
    x, y, z = context.launch.grid
    blocks = np.unique(writers.blocks[written])
    idle = np.setdiff1d(np.arange(x * y * z), blocks.astype(np.int64))
    lines = [f"{len(blocks):,} of {x * y * z:,} blocks wrote to it"]
    if 0 < len(idle) <= _MOST_WARPS:
        lines[0] += f"; not {', '.join(f'block {coordinates(int(one), context.launch.grid)}' for one in idle)}"
    first = int(blocks[0])
    by_first = written & (writers.blocks == np.uint64(first))
    warps = np.unique(writers.warps[by_first])
    threads = context.launch.block[0] * context.launch.block[1] * context.launch.block[2]
    if threads <= 32:
        return [*lines, f"block {coordinates(first, context.launch.grid)} wrote {elements(part, by_first, comma=True)}"]
    for warp in warps[:_MOST_WARPS]:
        chosen = by_first & (writers.warps == warp)
        thread = thread_name(context, first, int(warp))
        lines.append(f"{thread} wrote {elements(part, chosen, comma=True)}")
    absent = np.setdiff1d(np.arange(-(-threads // 32)), warps.astype(np.int64))
    if len(absent):
        lines.append(f"of that block's warps {numbers(absent)} wrote nothing to it")
    return lines


CHECK = Check(
    name="coverage",
    summary="output elements that nobody writes or two write, warps that do no work",
    levels={
        Level.ERROR: "elements of an output are never written; two blocks store different values in no order",
        Level.WARNING: "two warps store different values, one after the other",
        Level.ADVICE: "warps change nothing in any block",
    },
    cost="low",
    default=True,
    native=("coverage", "outputs"),
    describe=describe,
    inspect=inspect,
)
