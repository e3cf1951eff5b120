"""Blocks that cannot tell which they are: a kernel that never asks for an axis of its block's index.

Those that differ in that axis alone do the same to what memory holds. So does one turn of them after another, each a
grid without that axis; and once a turn has changed nothing, none that follows changes anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from wmmadiag.launch import Dim3, Launch, RunStats
from wmmadiag.programs.repeats import Repeats

_TOLD_APART = re.compile(
    r"%(?:n?clusterid|cluster_|is_explicit|n?smid|n?warpid|clock|globaltimer|gridid|pm\d|envreg)"
    r"|(?<![\w.$%])(?:atom|red|fence|membar|mbarrier|multimem|nanosleep)\b"
    r"|\b(?:ld|st)\.(?:volatile|relaxed|acquire|release|mmio)|\bvprintf\b|\bcall\b[^;]*,\s*%"
)
"""What tells blocks apart besides their index, lets them wait for each other, or leaves more than memory holds."""
FEWEST, MOST = 3, 65535
"""Turns that are worth it, and that fit every axis of a grid."""


def unasked(bodies: Iterable[str]) -> str:
    """Those axes of "zyx" that none of these bodies of PTX asks for; "" where blocks may be told apart otherwise."""
    text = "\n".join(bodies)
    if _TOLD_APART.search(text):
        return ""
    return "".join(axis for axis in "zyx" if not re.search(rf"%n?ctaid(?:\.{axis}\b|(?!\.))", text))


@dataclass(frozen=True, slots=True)
class Turns:
    """A grid as turns of blocks, one after another in the order of blocks."""

    grid: Dim3  # of one turn
    count: int
    axis: int  # along which a grid of several turns may lie

    def several(self, count: int) -> Dim3:
        """The grid of some of them."""
        x, y, z = (side * (count if axis == self.axis else 1) for axis, side in enumerate(self.grid))
        return x, y, z


def turns_of(grid: Dim3, axes: str) -> Turns:
    """A grid's turns, by the axes that nobody asks for: the outer ones, since blocks come in the order of z, y, x."""
    sides, count, along = list(grid), 1, 2
    for axis in (2, 1, 0):
        if "xyz"[axis] in axes:
            along, count, sides[axis] = axis, count * sides[axis], 1
        elif sides[axis] != 1:
            break
    return Turns((sides[0], sides[1], sides[2]), count, along)


def in_turns(
    run: Callable[[Launch], RunStats], launch: Launch, turns: Turns, watch: Callable[[], None], repeats: Repeats
) -> tuple[RunStats, tuple[int, ...], bool]:
    """Run a launch turn by turn until one has changed nothing, or after the second all that are left at once.

    Args:
        watch: called before each turn; what it touched is then `repeats.touched`.

    Returns:
        What the launch took, the addresses of the allocations that it touched, and whether turns were left out.
    """
    instructions, touched, settled = 0, set[int](), False
    for count, left in ((1, turns.count), (1, turns.count - 1), (turns.count - 2, turns.count - 2)):
        before = {address: repeats.content(address) for address in touched} if left == turns.count - 1 else {}
        watch()
        stats = run(replace(launch, grid=turns.several(count)))
        now = repeats.touched()
        touched.update(now)
        instructions += stats.warp_instructions
        if before and all(before.get(address) == repeats.content(address) for address in now):
            instructions += (left - 1) * stats.warp_instructions
            settled = True
            break
    return replace(stats, warp_instructions=instructions), tuple(sorted(touched)), settled
