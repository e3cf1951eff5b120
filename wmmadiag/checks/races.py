"""Accesses to one place that nothing orders, at least one of them a write.

Judged by happens-before: barriers of the block, named barriers, `__syncwarp`, fences with atomics, mbarriers and the
waits of `cp.async`, so the result does not depend on the order in which the warps happened to run. Fragment loads and
stores, `ldmatrix`, vector accesses and asynchronous copies count with the bytes that they really touch. Between warps
or blocks a race is an error: another schedule gives other values. Between lanes of one warp it is a warning: the lanes
run together on today's chips, but nothing promises it. A write that leaves the value as it was is a warning, too.

Bad:
    sK[threadIdx.x] = K[threadIdx.x];
    wmma::load_matrix_sync(b, sK, 64);      // other warps' elements may not be there yet

Good:
    sK[threadIdx.x] = K[threadIdx.x];
    __syncthreads();
    wmma::load_matrix_sync(b, sK, 64);
"""

from __future__ import annotations

from dataclasses import dataclass

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, element_name, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.emulator.faults import coordinates
from wmmadiag.place import Place


@dataclass(frozen=True, slots=True)
class _Kind:
    level: Level
    verb: str  # what the first line does
    other: str  # what the second line did
    missing: str
    hint: str


_BARRIER = "put __syncthreads() between the two, where every thread of the block passes"
_LANES = "put __syncwarp() between the two"
_BLOCKS = "only atomics with __threadfence(), or two launches, order blocks"
_KINDS = {
    "read-write": _Kind(Level.ERROR, "reads", "writes", "no barrier orders them", _BARRIER),
    "write-write": _Kind(Level.ERROR, "writes", "writes, too", "no barrier orders them", _BARRIER),
    "write-same": _Kind(
        Level.WARNING, "writes", "writes, too", "no barrier orders them, but both write the same value here", _BARRIER
    ),
    "atomic-write": _Kind(
        Level.ERROR, "and", "access", "one is atomic, the other is not, and no barrier orders them", _BARRIER
    ),
    "atomic-read": _Kind(Level.ERROR, "reads", "changes atomically", "no barrier orders them", _BARRIER),
    "lanes-read-write": _Kind(
        Level.WARNING, "reads", "writes", "other lanes of the same warp, and no __syncwarp() is between", _LANES
    ),
    "lanes-write-write": _Kind(
        Level.WARNING, "writes", "writes, too", "other lanes of the same warp, and no __syncwarp() is between", _LANES
    ),
    "blocks-read-write": _Kind(Level.ERROR, "reads", "writes", "in another block", _BLOCKS),
    "blocks-write-write": _Kind(Level.ERROR, "writes", "writes, too", "in another block", _BLOCKS),
    "blocks-write-same": _Kind(
        Level.WARNING, "writes", "writes, too", "in another block, the same value here", _BLOCKS
    ),
}


def describe(raw: Raw, context: Context) -> Finding | None:
    """The finding for one pair of instructions."""
    if raw["kind"] == "one-instruction":
        return _one_instruction(raw, context)
    kind = _KINDS.get(raw["kind"])
    if kind is None:
        return None
    place, other = user_line(context, raw["pc"]), user_line(context, raw["other_pc"])
    array = array_name(context, raw["space"], raw["address"])
    if raw["kind"] == "atomic-write":
        message = f"this line and {_line(other, place)} both change {array}; {kind.missing}"
    else:
        message = f"this line {kind.verb} {array}, {_line(other, place)} {kind.other}; {kind.missing}"
    first = thread_name(context, raw["block"], raw["warp"], raw["lane"])
    second = f"warp {raw['other_warp']}" if raw["other_warp"] < 32 else "it"
    if raw["other_lane"] < 32:
        second += f", lane {raw['other_lane']}"
    if raw["kind"].startswith("blocks") and len(raw["values"]) > 1:
        second = f"block {coordinates(raw['values'][1], context.launch.grid)}"
    element = element_name(context, raw["space"], raw["address"], raw["bytes"])
    return Finding(
        "races",
        raw["kind"],
        kind.level,
        message,
        place,
        other,
        raw["count"],
        (f"first seen at {element}: {first}, and {second}", *_instructions(raw, context)),
        kind.hint,
    )


def _line(other: Place, place: Place) -> str:
    if other == place:
        return "the same line in another thread"
    return f"line {other.line}" if other.file == place.file else str(other)


def _instructions(raw: Raw, context: Context) -> tuple[str, ...]:
    nodes = context.kernel.nodes
    first, second = nodes[raw["pc"]].text, nodes[raw["other_pc"]].text
    return (f"instructions: {first}  and  {second}",) if first != second else (f"instruction: {first}",)


def _one_instruction(raw: Raw, context: Context) -> Finding:
    place = user_line(context, raw["pc"])
    array = array_name(context, raw["space"], raw["address"])
    element = element_name(context, raw["space"], raw["address"], raw["bytes"])
    level = Level.ERROR if raw["space"] == "global" else Level.WARNING
    return Finding(
        "races",
        "one-instruction",
        level,
        f"lanes of one warp store different values to one element of {array} at once: which one stays is undefined",
        place,
        None,
        raw["count"],
        (
            f"first seen at {element}: {thread_name(context, raw['block'], raw['warp'], raw['lane'])}, "
            f"and lane {raw['other_lane']}",
        ),
        "let one lane store, or give each lane its own element",
    )


CHECK = Check(
    name="races",
    summary="accesses to one place that no barrier, fence or atomic orders",
    levels={
        Level.ERROR: "between warps or blocks: another schedule gives other values",
        Level.WARNING: "between lanes of one warp, or every write leaves the value as it is",
    },
    cost="low",
    default=True,
    native=("races",),
    describe=describe,
)
