"""Warps that do nothing: they store, copy, multiply and exchange nothing in any block.

More warps than tiles is legal, and a sign that the launch and the kernel disagree about the work of a warp.

Bad:
    int tile = threadIdx.x / 32;                  // launched with 8 warps
    if (tile < 4) { … the whole kernel … }

Good:
    for (int tile = threadIdx.x / 32; tile < tiles; tile += blockDim.x / 32) { … }
"""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.place import Place


def describe(raw: Raw, context: Context) -> Finding | None:
    """A finding when the same warps are idle in every block."""
    x, y, z = context.launch.grid
    idle, warps = int(raw["address"]), int(raw["bytes"])
    if idle == 0 or int(raw["count"]) != x * y * z or idle.bit_count() == warps:
        return None
    names = [str(warp) for warp in range(warps) if idle >> warp & 1]
    listed = f"warp {names[0]}" if len(names) == 1 else f"warps {', '.join(names)}"
    return Finding(
        check="coverage",
        kind="idle-warps",
        level=Level.ADVICE,
        message=f"{listed} of each block's {warps} {'does' if len(names) == 1 else 'do'} nothing",
        place=context.kernel.entry.place or Place("", 0),
        count=int(raw["count"]),
        hint="launch fewer threads, or divide the tiles among all warps",
    )


CHECK = Check(
    name="coverage",
    summary="warps that do no work",
    levels={Level.ADVICE: "they change nothing in any block"},
    cost="low",
    default=True,
    native=("coverage",),
    describe=describe,
)
