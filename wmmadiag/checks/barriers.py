"""Who takes part in barriers: divergent, missing and exited threads, and warp masks that leave out a lane that runs.

`__syncthreads()` must be reached by every thread of the block that has not exited, and by the lanes of one warp
together, at one place; `__syncwarp(mask)`, `__shfl_sync(mask, …)` and their like by exactly the lanes that the mask
names. A barrier that some threads never reach ends the run with a deadlock, which is reported with where each warp
stands; this check finds what happens to end well. A shuffle from a lane that does not take part gives an undefined
value: an error where a run with another value there changes a result.

Bad:
    if (threadIdx.x % 32 < 16) { a(); __syncthreads(); } else { b(); __syncthreads(); }

Good:
    if (threadIdx.x % 32 < 16) a(); else b();
    __syncthreads();
"""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.flow import SharedBy as Among
from wmmadiag.checks.flow import flow_of
from wmmadiag.checks.naming import thread_name, user_line
from wmmadiag.checks.ranges import runs
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.place import Place

_NO_PC = 0xFFFFFFFF


def describe(raw: Raw, context: Context) -> Finding | None:  # noqa: C901 - one case a kind
    """The finding for one kind of participation."""
    place = user_line(context, raw["pc"])
    other = user_line(context, raw["other_pc"]) if raw["other_pc"] != _NO_PC else None
    text = context.kernel.nodes[raw["pc"]].text
    values, lanes = raw["values"], _lanes(raw["address"])
    first = f"first seen in {thread_name(context, raw['block'], raw['warp'])}: {lanes}"
    line = f"line {other.line}" if other is not None else ""
    hint = "let every thread of the block reach the same barrier: move it out of the branch"
    kind = raw["kind"]
    kept, loops, exits = _kept_away(context, raw["pc"])
    if kind.startswith("exited") and kept is not None and exits:
        other, line = kept, f"line {kept.line}"  # where they left the way, rather than the function's last line
    if kind == "places" and not loops and other is not None:
        swapped = _kept_away(context, raw["other_pc"])
        if swapped[1]:
            place, other, (kept, loops, exits), line = other, place, swapped, f"line {place.line}"
    match kind:
        case "divergent":
            level = Level.ERROR
            message = f"lanes of one warp are at this barrier while others of it are at the one of {line}"
            first += f" here, {_lanes(values[1])} there"
        case "places" if other == place:
            return None  # the compiler copied the line
        case "places":
            level = Level.WARNING
            message = f"warps meet at this barrier and at the one of {line}: both are number {values[0]}, so they pass"
            if kept is not None and loops:
                kind, level = "trips", Level.ERROR
                message = (
                    f"warps pass the loop of line {kept.line} unequally often: some are at the barrier in it "
                    f"while others are at the one of {line}"
                )
        case "exited-lanes" | "exited-warps" if kept is not None and not exits:
            kind, level = "conditional", Level.ERROR
            what = "leave its loop earlier than others" if loops else "never reach it"
            message = (
                f"only some threads of the block pass this barrier: the branch of line {kept.line} lets others {what}"
            )
            other = kept
        case "exited-lanes":
            level = Level.WARNING
            message = f"lanes of a warp wait at this barrier, others of it have exited at {line}"
            first += f" here, {_lanes(values[1])} have exited"
            hint = "guard the work, not the thread: let all lanes reach the barrier, and return after the last one"
        case "exited-warps":
            level = Level.ADVICE
            message = f"warps have exited at {line} before this barrier: it passes without them"
            first = f"first seen in {thread_name(context, raw['block'], values[1])}"
            hint = "guard the work, not the thread, where the tile needs all warps"
        case "unfinished":
            level = Level.WARNING
            message = f"the kernel ends while barrier {values[0]} is incomplete: nobody waits for this arrival"
            hint = "compare the thread counts of bar.arrive and bar.sync, and how often each side passes"
        case "mask":
            level = Level.ERROR
            message = f"a lane runs this with a mask that does not name it ({values[0] & 0xFFFFFFFF:#010x}): undefined"
            hint = "pass the lanes that run it: 0xffffffff where all do, __activemask() is no answer"
        case "stray":
            level = Level.ERROR
            message = f"a lane takes the value of lane {values[1]}, which does not take part here: undefined"
            first += f" with mask {values[0] & 0xFFFFFFFF:#010x}"
            hint = "let every source lane run the shuffle, or keep the exchange within the mask with its width argument"
        case "absent" if kept is not None and not exits:  # threads that returned are not waited for
            level = Level.ERROR
            message = (
                f"lanes wait here with a mask ({values[0] & 0xFFFFFFFF:#010x}) that names lanes which never come: "
                f"the branch of line {kept.line} keeps them away"
            )
            other = kept
            hint = "move it out of the branch, or name only the lanes that take the branch: __ballot_sync before it"
        case _:
            return None
    if kept is not None and kind in ("divergent", "places", "exited-lanes", "exited-warps"):
        first += f"; the branch at line {kept.line} parts the threads"
    pairs = ((raw["pc"], raw["pc"]),) if kind == "stray" else ()
    return Finding("barriers", kind, level, message, place, other, raw["count"],
                   (first, f"instruction: {text}"), hint, pairs)  # fmt: skip


def _kept_away(context: Context, pc: int) -> tuple[Place | None, bool, bool]:
    """The branch that keeps some threads from an operation; whether it leaves a loop around it, or ends the kernel."""
    flow = flow_of(context.kernel)
    block = flow.block(pc)
    above = flow.parting(block)
    if above is None:
        return None, False, False
    loops = any(block in loop and above in loop and set(flow.successors[above]) - loop for loop in flow.loops)
    exits = flow.control_after_exit[block] <= Among.BLOCK
    return user_line(context, flow.last(above)), loops, exits


def _lanes(mask: int) -> str:
    """Lanes of a mask in words: "lanes 0-15", "lane 3"."""
    stretches = runs(lane for lane in range(32) if mask >> lane & 1)
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in stretches]
    return f"lane{'s' * ((mask & 0xFFFFFFFF).bit_count() != 1)} {', '.join(parts)}"


CHECK = Check(
    name="barriers",
    summary="divergent, missing or exited participants of barriers, and warp masks",
    levels={
        Level.ERROR: "undefined: lanes of one warp at different barriers, a barrier that some threads pass by, "
        "a mask without a lane that runs or with one that never comes, a value of a lane that takes no part",
        Level.WARNING: "passes on today's chips because of what the barrier counts",
        Level.ADVICE: "whole warps have exited before a barrier",
    },
    cost="low",
    default=True,
    native=("barriers",),
    describe=describe,
)
