"""From the engine's faults to errors that say where, what and what next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmmadiag.emulator.extents import NamedExtents
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.native import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_SIZE
from wmmadiag.emulator.select_control import ENDS, RECURSION
from wmmadiag.errors import BudgetError, KernelFault, UnsupportedError, WmmadiagError
from wmmadiag.launch import Dim3
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class LaunchView:
    """What a message about a launch needs: the kernel, the grid, and the named memory."""

    kernel: LoweredKernel
    grid: Dim3
    extents: NamedExtents


HINTS: Mapping[str, str] = {
    "out-of-bounds": "compare the index at this line with the array's size; `wmmadiag ptx` shows the instruction",
    "misaligned": "what is read or written at once must lie at a multiple of its own size: compare the index, and the "
    "offset of the pointer that was cast, with it",
    "read-only": "the kernel writes to constant memory or to an argument that was passed as read-only",
    "wrong-space": "a shared or local pointer is used as a global one (or the reverse)",
    "trap": "compilers also put a trap where they found undefined behaviour; the notes of `wmmadiag check` say where",
    "assertion": "the kernel's own assert does not hold",
    "deadlock": "every thread of the block must reach the same barriers; see where each warp stands",
    "partial-warp": "a warp-wide operation needs all 32 lanes: move it out of the branch, and launch whole warps",
    "bad-operand": "the operand is outside what the PTX ISA defines",
}
"""Fault kind → the next step for the user."""
_MISALIGNED_FRAGMENT = "declare the array with __align__(32), or make the leading dimension a multiple of 16 bytes"


_STANDING = 40  # groups of lanes that are listed
_FAR = 1 << 30
"""Bytes from the nearest allocation from which on naming it says nothing."""
_NULL = 1 << 16

_FRAGMENTS = ("wmma.", "ldmatrix", "stmatrix")
_LINE = re.compile(r"line (\d+) of the fragment")  # as native/execute_tensor.cpp writes it


def coordinates(block: int, grid: Dim3) -> Dim3:
    """(x, y, z) of a block's linear index."""
    return block % grid[0], block // grid[0] % grid[1], block // grid[0] // grid[1]


def fault_error(fault: Mapping[str, Any], standings: Sequence[tuple[Any, ...]], view: LaunchView) -> WmmadiagError:
    """The error for a fault that the engine reported."""
    kind = str(fault["kind"])
    node = view.kernel.nodes[fault["pc"]]
    block = coordinates(fault["block"], view.grid)
    where = f"block {block}, warp {fault['warp']}, lane {fault['lane']}"
    if kind == "unsupported" or node.text.startswith(RECURSION):
        return UnsupportedError(
            f"{fault['text'] or node.text} is not emulated",
            place=node.place,
            detail=where,
            hint="docs/limits.md lists what is not; guard it with #if to check the rest",
        )
    detail = [where] if node.text in ENDS else [where, f"instruction: {node.text}"]
    address, space, write = None, "", None
    if kind in ("out-of-bounds", "misaligned", "read-only", "wrong-space"):
        message, address, more = _memory(kind, fault, view)
        space, write = _space(fault), bool(fault["write"])
        detail += more
        if fault["text"]:
            detail.append(f"at {fault['text']}")
    elif kind == "deadlock":
        message = "deadlock: no warp of the block can go on"
        detail = [where, *standing_lines(standings, view)]
    elif kind == "partial-warp":
        lanes = int(fault["address"]).bit_count()
        message = f"{node.text} runs with {lanes} of the warp's 32 lanes; the others have exited or do not exist"
    elif kind == "trap":
        message = node.text if node.text in ENDS else "the kernel executed a trap"
    elif kind == "assertion":
        message = str(fault["text"])
    else:
        message = f"{node.text}: {fault['text']}"
    return KernelFault(
        message,
        kind=kind,
        place=node.place,
        block=block,
        warp=fault["warp"],
        lane=fault["lane"],
        address=address,
        detail="\n".join(f"  {line}" for line in detail),
        hint=_MISALIGNED_FRAGMENT
        if kind == "misaligned" and node.op.startswith(_FRAGMENTS)
        else ENDS.get(node.text, HINTS[kind]),
        op=node.text.split()[0] if node.text else node.op,
        space=space,
        write=write,
        fragment_line=int(line[1]) if (line := _LINE.match(str(fault["text"]))) else None,
    )


def _space(fault: Mapping[str, Any]) -> str:
    """Where an access really goes: a generic address in the window of shared or local memory lies there."""
    space, address = str(fault["space"]), int(fault["address"])
    if space not in ("generic", "global"):
        return space
    for name, window in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        if 0 <= address - window < WINDOW_SIZE:
            return name
    return "global"


def _memory(kind: str, fault: Mapping[str, Any], view: LaunchView) -> tuple[str, int, list[str]]:
    """Message, address and further lines of a memory fault."""
    address, length, space = int(fault["address"]), int(fault["bytes"]), str(fault["space"])
    if space == "generic":
        space = "global"
    verb = "write" if fault["write"] else "read"
    if kind == "misaligned":
        message = f"misaligned {verb}: {space} address {address:#x} is no multiple of {length}"
    elif kind == "read-only":
        message = f"write of {length} bytes to read-only memory at {address:#x}"
    elif kind == "wrong-space":
        message = f"{verb} of {length} bytes at {address:#x}, which is no {space} address"
    else:
        message = f"{verb} of {length} bytes out of bounds of {space} memory at {address:#x}"
    near = [extent.describe(address, length) for extent in view.extents.of_space(space)]
    gap, words = min(near, default=(_FAR, ""))
    if gap < _FAR:
        return message, address, [words]
    return message, address, ["a null pointer, or close to one" if address < _NULL else "no allocation is near"]


def standing_lines(standings: Sequence[tuple[Any, ...]], view: LaunchView) -> Iterator[str]:
    """One line for each group of lanes: where it stands and what it waits for."""
    for block, warp, pc, lanes, state, barrier in standings[:_STANDING]:
        doing = {
            "ready": "running",
            "barrier": f"waits at barrier {barrier}",
            "sync": "waits for other lanes of its warp",
        }[state]
        node = view.kernel.nodes[min(pc, len(view.kernel.nodes) - 1)]
        who = f"block {coordinates(block, view.grid)}, warp {warp}, lanes {lanes:#010x}"
        yield f"{who}: {doing} at {user_place(node.place)} ({node.text})"
    if len(standings) > _STANDING:
        yield f"… and {len(standings) - _STANDING} more"


def user_place(place: Place) -> Place:
    """The outermost frame: the user's own line, whatever was inlined there."""
    *_, outermost = place.frames()
    return outermost


def budget_error(
    outcome: str, standings: Sequence[tuple[Any, ...]], view: LaunchView, instructions: int, seconds: float
) -> BudgetError:
    """The error for a run that used up its budget."""
    used = f"{instructions:,} warp instructions" if outcome == "out-of-instructions" else f"{seconds:.3g} s"
    place = user_place(view.kernel.place(standings[0][2])) if standings else view.kernel.entry.place
    return BudgetError(
        f"the run did not end within its budget of {used}",
        place=place,
        detail="\n".join(f"  {line}" for line in standing_lines(standings, view)),
        hint="look for an endless loop where the warps stand, take a smaller case, or raise the budget",
    )
