"""Data of `cp.async` used before it is there, and memory used again while a copy into it is in flight.

A copy is done for the thread that issued it after `cp.async.wait_group N` (`__pipeline_wait_prior(N)`), when at most
its N newest closed groups are still in flight; for other threads after a barrier that follows. On the emulator copies
land as late as they may, so whatever was read too early is stale there; on a chip it often is not.

Bad:
    __pipeline_memcpy_async(&tile[t], &x[t], 16);
    __pipeline_wait_prior(0);               // the group is closed only afterwards
    __pipeline_commit();
    use(tile[t]);

Good:
    __pipeline_memcpy_async(&tile[t], &x[t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    use(tile[t]);
"""

from __future__ import annotations

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, element_name, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw

_VERBS = {"in-flight-read": "reads", "in-flight-write": "writes"}


def describe(raw: Raw, context: Context) -> Finding | None:
    """The finding for an access to the destination of a copy in flight."""
    if raw["kind"] not in _VERBS:
        return None
    own, state, wait_pc, pending, age = raw["values"]
    place, issued = user_line(context, raw["pc"]), user_line(context, raw["other_pc"])
    array = array_name(context, raw["space"], raw["address"])
    element = element_name(context, raw["space"], raw["address"], raw["bytes"])
    waited = f"the wait at line {user_line(context, wait_pc).line}" if wait_pc >= 0 else ""
    if state == 0:
        why, hint = "nothing has waited for it", "wait for its group (cp.async.wait_group, __pipeline_wait_prior) first"
    elif state == 1 and pending >= 0:
        why = f"its group was not closed before {waited}"
        hint = "commit the group (cp.async.commit_group, __pipeline_commit) before waiting for it"
    elif pending >= 0:
        groups = f"{pending} group{'s' * (pending != 1)}"
        newest = "the newest" if age == 1 else f"one of the {age} newest"
        why = f"{waited} lets {groups} stay in flight, and the copy's group is {newest}"
        hint = (
            f"wait_group {age - 1} (__pipeline_wait_prior({age - 1})) there would have covered it; or close one group "
            "(commit, even an empty one) in each iteration, so that N groups are N stages"
        )
    else:
        why, hint = f"it was issued after {waited}", "wait for it before this line"
    if raw["kind"] == "in-flight-write":
        hint = "wait for the copies, then a barrier, before this memory is used again"
    return Finding(
        "async",
        raw["kind"],
        Level.ERROR,
        f"this line {_VERBS[raw['kind']]} {array} while the cp.async of line {issued.line} into it is in flight: {why}",
        place,
        issued,
        raw["count"],
        (
            f"first seen at {element}: {thread_name(context, raw['block'], raw['warp'], raw['lane'])}; issued by "
            + ("the same thread" if own else f"warp {raw['other_warp']}, lane {raw['other_lane']}"),
        ),
        hint,
        ((raw["pc"], raw["other_pc"]),),
    )


CHECK = Check(
    name="async",
    summary="cp.async data used before its wait, memory used again under a copy in flight",
    levels={Level.ERROR: "a legal order of the copy gives other values"},
    cost="low",
    default=True,
    native=("races",),
    describe=describe,
)
