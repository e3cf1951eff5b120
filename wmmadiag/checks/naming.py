"""Words for memory, threads and lines: declared names, elements, blocks, warps and lanes."""

from __future__ import annotations

from wmmadiag.checks.registry import Context
from wmmadiag.emulator.faults import Extent, coordinates
from wmmadiag.place import Place
from wmmadiag.ptx.demangle import demangle
from wmmadiag.subject.check import own_place


def user_line(context: Context, pc: int) -> Place:
    """The place of an instruction in the user's code: not in a CUDA header, where every WMMA call ends."""
    return own_place(context.kernel.place(pc))


def extent_at(context: Context, space: str, address: int) -> Extent | None:
    """The named memory that holds an address, or None. `space`: "global", "shared" or "local"."""
    return next((e for e in context.extents if e.space == space and e.start <= address < e.start + e.size), None)


def declared_name(extent: Extent) -> str:
    """The name in the source: of `_ZZ4attnPfE2sK` it is `sK`."""
    readable = demangle(extent.name)
    return readable if readable == extent.name else readable.rpartition("::")[2]


def array_name(context: Context, space: str, address: int) -> str:
    """The declared name of the array that holds an address, or words for the memory where it has none."""
    extent = extent_at(context, space, address)
    return declared_name(extent) if extent is not None else f"{space} memory"


def element_name(context: Context, space: str, address: int, size: int = 1) -> str:
    """An element in units of `size` bytes, "sK[37]"; "sK, byte 75" between elements."""
    extent = extent_at(context, space, address)
    if extent is None:
        return f"{space} address {address:#x}"
    name, offset = declared_name(extent), address - extent.start
    return f"{name}[{offset // size}]" if size > 1 and offset % size == 0 else f"{name}, byte {offset}"


def thread_name(context: Context, block: int, warp: int, lane: int | None = None) -> str:
    """ "block (0, 0, 0), warp 2, lane 5"; without the lane when it is None or no lane."""
    words = f"block {coordinates(block, context.launch.grid)}, warp {warp}"
    return words if lane is None or lane >= 32 else f"{words}, lane {lane}"
