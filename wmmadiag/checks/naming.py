"""Words for memory, threads and lines: declared names, elements, blocks, warps and lanes."""

from __future__ import annotations

from wmmadiag.checks.registry import Context
from wmmadiag.emulator.faults import coordinates
from wmmadiag.place import Place, own_place


def user_line(context: Context, pc: int) -> Place:
    """The place of an instruction in the user's code: not in a CUDA header, where every WMMA call ends."""
    return own_place(context.kernel.place(pc))


def array_name(context: Context, space: str, address: int) -> str:
    """The declared name of the array that holds an address, or words for the memory where it has none."""
    extent = context.extents.holding(space, address)
    return extent.array(address) if extent is not None else f"{space} memory"


def element_name(context: Context, space: str, address: int, size: int = 1) -> str:
    """An element as the source indexes it, "sK[3][5]" or "O[0,1,17,3]"; else in units of `size` bytes, "sK[37]"."""
    extent = context.extents.holding(space, address)
    return extent.element(address, size) if extent is not None else f"{space} address {address:#x}"


def thread_name(context: Context, block: int, warp: int, lane: int | None = None) -> str:
    """ "block (0, 0, 0), warp 2, lane 5"; without the lane when it is None or no lane."""
    words = f"block {coordinates(block, context.launch.grid)}, warp {warp}"
    return words if lane is None or lane >= 32 else f"{words}, lane {lane}"
