"""Exchange between lanes, barriers of warp and block, and instructions that only time can tell."""

from __future__ import annotations

from wmmadiag.emulator.decoded import ACQUIRE, BLOCK_SCOPE, CODE_SHIFT, RELEASE
from wmmadiag.emulator.modifiers import pack
from wmmadiag.emulator.selection import Selector, selects
from wmmadiag.ptx.ir import Immediate, Instruction


def _require_sync(select: Selector, instruction: Instruction) -> None:
    if instruction.attributes.get("sync") == "0":
        raise select.unsupported(
            f"{instruction.text} without .sync does not exist from sm_70 on", "use the _sync form with a member mask"
        )


@selects("shfl")
def shuffle(select: Selector, instruction: Instruction) -> None:
    _require_sync(select, instruction)
    d, p = select.write_pair(instruction.operands[0])
    a, b, c, mask = (select.read(operand, "u32") for operand in instruction.operands[1:])
    mode = ("up", "down", "bfly", "idx").index(instruction.attributes["mode"])
    select.emit("shfl", d=d, d2=p, s=(a, b, c, mask), flags=mode << CODE_SHIFT)


@selects("vote")
def vote(select: Selector, instruction: Instruction) -> None:
    _require_sync(select, instruction)
    mode = instruction.attributes["mode"]
    d = select.write(instruction.operands[0]) or select.temporary(4 if mode == "ballot" else 0)
    predicate, negated = select.read_predicate(instruction.operands[1])
    mask = select.read(instruction.operands[2], "u32")
    code = ("all", "any", "uni", "ballot").index(mode)
    modifiers = pack({"neg_a": "1"} if negated else {})
    select.emit("vote", d=d, s=(predicate, mask), flags=code << CODE_SHIFT, modifiers=modifiers)


@selects("match")
def match(select: Selector, instruction: Instruction) -> None:
    type_name = instruction.attributes["type"]
    d, p = select.write_pair(instruction.operands[0])
    value, mask = select.read(instruction.operands[1], type_name), select.read(instruction.operands[2], "u32")
    code = ("any", "all").index(instruction.attributes["mode"])
    select.emit("match", d=d or select.temporary(4), d2=p, s=(value, mask), flags=code << CODE_SHIFT, bytes=value.bytes)


_REDUCTIONS = ("add", "min.u32", "max.u32", "min.s32", "max.s32", "and", "or", "xor", "min.f32", "max.f32")


@selects("redux")
def redux(select: Selector, instruction: Instruction) -> None:
    operation = instruction.attributes["operation"]
    if operation in ("min", "max"):
        operation += "." + instruction.attributes["type"]
    value, mask = select.read(instruction.operands[1], "b32"), select.read(instruction.operands[2], "u32")
    modifiers = pack({name: "1" for name in ("abs", "nan") if instruction.attributes.get(name) == "1"})
    d = select.write(instruction.operands[0]) or select.temporary(4)
    select.emit("redux", d=d, s=(value, mask), flags=_REDUCTIONS.index(operation) << CODE_SHIFT, modifiers=modifiers)


@selects("elect")
def elect(select: Selector, instruction: Instruction) -> None:
    d, p = select.write_pair(instruction.operands[0])
    select.emit("elect", d=d, d2=p, s=(select.read(instruction.operands[1], "u32"),))


@selects("activemask")
def active_mask(select: Selector, instruction: Instruction) -> None:
    select.emit("activemask", d=select.write(instruction.operands[0]) or select.temporary(4))


@selects("bar.warp.sync")
def warp_barrier(select: Selector, instruction: Instruction) -> None:
    select.emit("bar.warp.sync", s=(select.read(instruction.operands[0], "u32"),))


@selects("bar.sync", "bar.arrive", "bar.red")
def block_barrier(select: Selector, instruction: Instruction) -> None:
    identity = select.read(instruction.operand("a"), "u32")
    count = instruction.operand("b")
    threads = None
    if count is not None:
        if isinstance(count, Immediate) and (count.value % 32 or not count.value):
            raise select.malformed(f"{instruction.text}: {count.value} threads are no multiple of the warp size, 32")
        threads = select.read(count, "u32")
    if instruction.op != "bar.red":
        select.emit(instruction.op, s=(identity, threads))
        return
    predicate, negated = select.read_predicate(instruction.operand("c"))
    operation = instruction.attributes["operation"]
    d = select.write(instruction.operands[0]) or select.temporary(4 if operation == "popc" else 0)
    code = ("popc", "and", "or").index(operation)
    modifiers = pack({"neg_c": "1"} if negated else {})
    select.emit("bar.red", d=d, s=(identity, threads, predicate), flags=code << CODE_SHIFT, modifiers=modifiers)


@selects("membar", "fence")
def order(select: Selector, instruction: Instruction) -> None:
    """Memory is sequentially consistent here, so fences have nothing to do; but observers hear of them."""
    attributes = instruction.attributes
    sem = attributes.get("sem", "acq_rel" if instruction.op == "membar" else "")
    flags = ACQUIRE if sem in ("sc", "acq_rel", "acquire") else 0
    flags |= RELEASE if sem in ("sc", "acq_rel", "release") else 0
    # fence.proxy orders ways to one place, not threads; a cluster is one block here.
    scope = attributes.get("scope") or attributes.get("level", "")
    select.emit("fence", flags=flags | (BLOCK_SCOPE if scope in ("cta", "cluster") else 0))


@selects("griddepcontrol", "setmaxnreg", "pmevent")
def guidance(select: Selector, _instruction: Instruction) -> None:
    """These only guide the hardware."""
    select.emit("nop")


@selects("nanosleep")
def sleep(select: Selector, _instruction: Instruction) -> None:
    select.emit("nanosleep")
