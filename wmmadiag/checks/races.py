"""Accesses to one place that nothing orders, at least one of them a write.

Judged by happens-before, as the memory model of the PTX ISA has it (docs/memory-model.md says what that is and what is
taken for ordered besides): barriers of the block, named barriers, `__syncwarp` and tiles, mbarriers, the waits of
`cp.async`, and fences with atomics or volatile flags, each within its scope; so what is found does not depend on the
order in which the warps happened to run. Fragment loads and stores, `ldmatrix`, vector accesses and asynchronous copies
count with the bytes that they really touch.

An error was shown: the launch was run again with the two accesses the other way round, which the model allows as well,
and a result changed; the finding says which. Where none changes, a race is a warning. Two volatile or atomic accesses
that nothing orders are no data race: an error where their order changes a result, else no finding. Between lanes of one
warp a race is a warning: the lanes run together on today's chips, but nothing promises it.

Initialising and invalidating an mbarrier are writes of it: who arrives at it or looks at it has to know that it was
made, and who ends it or makes it anew, that the others are through with it. The other order is undefined, so that no
run is needed to show an error.

Where a barrier is missing, the finding names both accesses; `wmmadiag diagnose` tries where it must stand. Several
warps or blocks that store different values to one element at one line need elements of their own, not a barrier. A flag
orders what came before the writer's `__threadfence()` or release, for those who pass a fence, a barrier or an acquire
after they have read it. Between blocks of a launch that needs no order (no buffer is both read and written) only stores
are compared. The first guess of a loop around `atomicCAS` may be read without order; where it decides whether there is
anything to do, too, unless another order changes a result. A source of `cp.async` past the
end of its array is a fault, not a race.

Bad:
    sK[threadIdx.x] = K[threadIdx.x];
    wmma::load_matrix_sync(b, sK, 64);      // other warps' elements may not be there yet

Good:
    sK[threadIdx.x] = K[threadIdx.x];
    __syncthreads();
    wmma::load_matrix_sync(b, sK, 64);
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.checks.naming import array_name, element_name, thread_name, user_line
from wmmadiag.checks.registry import Check, Context, Raw
from wmmadiag.checks.validated import is_guess, is_validated
from wmmadiag.emulator.decoded import BLOCK_SCOPE
from wmmadiag.place import Place, own_place
from wmmadiag.ptx.ir import Special


@dataclass(frozen=True, slots=True)
class _RaceWords:
    level: Level
    verb: str  # what the first line does
    other: str  # what the second line did
    missing: str
    hint: str


_BARRIER = "put __syncthreads() between the two, where every thread of the block passes"
_LANES = "put __syncwarp() between the two"
_SEVERAL = "__syncthreads() instead where blocks have several warps"
_WARP = 32  # threads
_BLOCKS = "only atomics with __threadfence(), or two launches, order blocks"
_ACQUIRE = "put __threadfence() (or __threadfence_block() within a block) behind the loop that waits for the flag"
_SCOPE = "use the form without _block (scope device, .gpu): only that counts between blocks"
_RELAXED = "both are volatile or atomic, which is no data race, but nothing orders them and the order matters"
_MADE = "no barrier orders them"
_OWN = "give each {whose} its own elements of {array}, let one of them store, or add atomically"
_ATOMIC = "this line changes what it has read: let atomicAdd or its like do both, or give each {whose} its own element"
_ONCE = "these stores agree; unless that is meant, launch fewer {whose}s, or give each its own elements of {array}"
_KINDS = {
    "read-write": _RaceWords(Level.ERROR, "reads", "writes", "no barrier orders them", _BARRIER),
    "write-write": _RaceWords(Level.ERROR, "writes", "writes, too", "no barrier orders them", _BARRIER),
    "write-same": _RaceWords(Level.WARNING, "writes", "writes, too",
                             "no barrier orders them, but both write the same value here", _BARRIER),
    "atomic-write": _RaceWords(Level.ERROR, "and", "access",
                               "one is atomic, the other is not, and no barrier orders them", _BARRIER),
    "atomic-read": _RaceWords(Level.ERROR, "reads", "changes atomically", "no barrier orders them", _BARRIER),
    "lanes-read-write": _RaceWords(Level.WARNING, "reads", "writes",
                                   "other lanes of the same warp, and no __syncwarp() is between", _LANES),
    "lanes-write-write": _RaceWords(Level.WARNING, "writes", "writes, too",
                                    "other lanes of the same warp, and no __syncwarp() is between", _LANES),
    "blocks-read-write": _RaceWords(Level.ERROR, "reads", "writes", "in another block", _BLOCKS),
    "blocks-write-write": _RaceWords(Level.ERROR, "writes", "writes, too", "in another block", _BLOCKS),
    "blocks-atomic-write": _RaceWords(Level.ERROR, "and", "access",
                                      "in different blocks, and one of them is not atomic", "make both atomic"),
    "no-acquire": _RaceWords(Level.ERROR, "uses", "is ordered before it by a flag",
                             "but no fence follows the read of the flag", _ACQUIRE),
    "blocks-no-acquire": _RaceWords(Level.ERROR, "uses", "in another block is ordered before it by a flag",
                                    "but no fence follows the read of the flag", _ACQUIRE),
    "blocks-write-same": _RaceWords(Level.WARNING, "writes", "writes, too",
                                    "in another block, the same value here", _BLOCKS),
    "blocks-scope": _RaceWords(Level.ERROR, "and", "access",
                               "in different blocks, and one of them counts within its block only", _SCOPE),
    "mbarrier-made": _RaceWords(Level.ERROR, "uses the mbarrier", "initialises or invalidates it", _MADE, _BARRIER),
    "lanes-mbarrier-made": _RaceWords(Level.WARNING, "uses the mbarrier", "initialises or invalidates it",
                                      "other lanes of the same warp, and no __syncwarp() is between", _LANES),
    "mbarrier-made-twice": _RaceWords(Level.WARNING, "initialises or invalidates the mbarrier", "does so, too", _MADE,
                                      "let one thread do it"),
    "mbarrier-ended": _RaceWords(Level.ERROR, "initialises or invalidates the mbarrier", "uses it", _MADE, _BARRIER),
    "relaxed": _RaceWords(Level.ERROR, "and", "access", _RELAXED, _BARRIER),
    "lanes-relaxed": _RaceWords(Level.ERROR, "and", "access", f"lanes of one warp: {_RELAXED}", _LANES),
    "blocks-relaxed": _RaceWords(Level.ERROR, "and", "access", f"in different blocks: {_RELAXED}", _BLOCKS),
}  # fmt: skip

_UPDATES = frozenset({"lanes-read-write", "blocks-read-write", "blocks-write-same"})
UNDEFINED = frozenset({"mbarrier-made", "mbarrier-ended"})
"""Kinds whose other order means nothing: a use of what is no mbarrier then. No run is needed to show that."""
LATENT = frozenset({"lanes-read-write", "lanes-write-write"})
"""Kinds of warnings about values that are right only as long as the lanes of a warp run together."""


def describe(raw: Raw, context: Context) -> Finding | None:
    """The finding for one pair of instructions."""
    finding = _described(raw, context)
    if finding is None or not finding.kind.startswith("lanes") or math.prod(context.launch.block) > _WARP:
        return finding
    # What lanes of the one warp of a block do, warps of a larger one may do, too, where the code asks how large it is.
    operands = (operand for one in context.kernel.entry.instructions for operand in one.operands)
    any_block = any(isinstance(one, Special) and one.name.startswith("%ntid") for one in operands)
    return replace(finding, hint=f"{finding.hint}; {_SEVERAL}") if any_block else finding


def _described(raw: Raw, context: Context) -> Finding | None:
    if raw["kind"] == "one-instruction":
        return _one_instruction(raw, context)
    kind = _KINDS.get(raw["kind"])
    unordered = is_guess if raw["kind"] in LATENT else is_validated
    if kind is None or any(unordered(context.kernel, pc) for pc in (raw["pc"], raw["other_pc"])):
        return None
    place, other = user_line(context, raw["pc"]), user_line(context, raw["other_pc"])
    array = array_name(context, raw["space"], raw["address"])
    if kind.verb == "and":
        what = "change" if raw["kind"].endswith("atomic-write") else "use"
        message = f"this line and {_line(other, place)} both {what} {array}; {kind.missing}"
    else:
        message = f"this line {kind.verb} {array}, {_line(other, place)} {kind.other}; {kind.missing}"
    first, second = _who(raw, context, place == other)
    element = element_name(context, raw["space"], raw["address"], raw["bytes"])
    finding = Finding(
        "races",
        raw["kind"],
        kind.level,
        message,
        place,
        other,
        raw["count"],
        (f"first seen at {element}: {first}, and {second}", *_instructions(raw, context)),
        kind.hint,
        ((raw["pc"], raw["other_pc"]),),
    )
    if raw["kind"] in ("read-write", "write-write", "atomic-write", "atomic-read") and raw["values"][1:] == [1]:
        return _without_fence(finding, raw)
    if raw["kind"] in ("no-acquire", "blocks-no-acquire", "blocks-scope"):
        return finding
    if place == other and (whose := _updates(raw, context)):
        # Its store is told with the read.
        return replace(finding, hint=_ATOMIC.format(whose=whose)) if raw["kind"].endswith("read-write") else None
    if raw["kind"].startswith("blocks"):
        finding = _narrow_fences(finding, context)
    if place == other and raw["kind"].endswith("write-same"):
        return _same_work(finding, array, "block" if raw["kind"].startswith("blocks") else "warp")
    whose = "block" if raw["kind"].startswith("blocks") else "warp"
    once = whose == "block" or raw["pass"] == raw["other_pass"]  # in another pass, another one of a loop's
    if once and raw["pc"] == raw["other_pc"] and raw["kind"] in ("write-write", "blocks-write-write"):
        return _same_elements(finding, array, whose)
    return finding


def _updates(raw: Raw, context: Context) -> str:
    """Who changes at one line what it has read there, where no barrier could stand between the two: "block", "lane"."""
    whose = "block" if raw["kind"].startswith("blocks") else "lane"
    once = whose == "block" or (raw["kind"] in LATENT and raw["pass"] == raw["other_pass"])
    if not once or raw["kind"] not in _UPDATES:
        return ""
    nodes = context.kernel.nodes
    stored = nodes[max(raw["pc"], raw["other_pc"])]
    read = (
        one.op == "ld" and one.place == stored.place and (one.s[:1], one.immediate) == (stored.s[:1], stored.immediate)
        for one in nodes
    )
    return whose if stored.op == "st" and any(read) else ""


def _who(raw: Raw, context: Context, one_line: bool) -> tuple[str, str]:
    """The two threads in words; where both are at one line, also how often each had come there."""
    first = thread_name(context, raw["block"], raw["warp"], raw["lane"])
    second = thread_name(context, raw["other_block"], raw["other_warp"], raw["other_lane"])
    if raw["block"] == raw["other_block"]:
        lane = f"lane {raw['other_lane']}" if raw["other_lane"] < 32 else ""
        own = raw["warp"] == raw["other_warp"]
        second = (lane or "other lanes of it") if own else f"warp {raw['other_warp']}" + (f", {lane}" if lane else "")
    if one_line and raw["pass"] and raw["other_pass"]:
        first += f" ({_pass(raw['pass'], raw['pc'], context)})"
        second += f" ({_pass(raw['other_pass'], raw['other_pc'], context)})"
    return first, second


def _pass(count: int, pc: int, context: Context) -> str:
    """How often a warp had come to an instruction, and which of the copies of its line that an unrolled loop has."""
    nodes = context.kernel.nodes
    copies = [i for i, one in enumerate(nodes) if one.op == nodes[pc].op and one.place == nodes[pc].place]
    which = f"copy {copies.index(pc) + 1} of {len(copies)} by unrolling, " if len(copies) > 1 else ""
    return f"{which}pass {count}"


def _narrow_fences(finding: Finding, context: Context) -> Finding:
    """Between blocks, where the program has fences or strong accesses that only count within a block."""
    narrow = next(
        (n for n in context.kernel.nodes if n.flags & BLOCK_SCOPE and n.op in ("fence", "atom", "ld", "st")), None
    )
    if narrow is None:
        return finding
    line = own_place(narrow.place).line
    return replace(finding, hint=f"line {line} ({narrow.text}) orders threads of one block only; {_SCOPE}")


def _same_elements(finding: Finding, array: str, whose: str) -> Finding:
    """Several warps or blocks that compute one tile, or whose tiles overlap: no barrier helps."""
    return replace(
        finding,
        kind="same-store" if whose == "warp" else "blocks-same-store",
        message=f"{whose}s store different values to the same elements of {array} at this line: the last one stays",
        other=None,
        hint=_OWN.format(whose=whose, array=array),
    )


def _same_work(finding: Finding, array: str, whose: str) -> Finding:
    """Several warps or blocks that compute the same: the result is right, the work is done more than once."""
    return replace(
        finding,
        message=f"{whose}s store the same values to the same elements of {array} at this line",
        other=None,
        hint=_ONCE.format(whose=whose, array=array),
    )


def _without_fence(finding: Finding, raw: Raw) -> Finding:
    """A flag that is passed on, but nothing makes what came before it visible."""
    call = "__threadfence()" if raw["space"] == "global" else "__threadfence_block()"
    earlier = finding.other if raw["values"][0] and finding.other is not None else finding.place
    return replace(
        finding,
        message=finding.message.replace("no barrier orders them", "a flag passes between them, but no fence before it"),
        hint=f"put {call} after line {earlier.line}, before the flag is set, and one behind the wait",
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
        ((raw["pc"], raw["pc"]),),
    )


CHECK = Check(
    name="races",
    summary="accesses to one place that no barrier, fence or atomic orders",
    levels={
        Level.ERROR: "another legal order of the two accesses was run, and gave other results",
        Level.WARNING: "no result of this launch changes by the order, or it is between lanes of one warp",
    },
    cost="low",
    default=True,
    native=("races",),
    describe=describe,
)
