"""Loads, stores, atomics, asynchronous copies, mbarriers."""

from __future__ import annotations

from wmmadiag.emulator import decoded
from wmmadiag.emulator.modifiers import pack
from wmmadiag.emulator.selection import Selector, selects, width_of
from wmmadiag.ptx.ir import Immediate, Instruction, Operand
from wmmadiag.ptx.types import WIDTHS


def _order(instruction: Instruction) -> int:
    """Flags for what a load, store or atomic promises about the order of memory accesses (PTX ISA, memory model)."""
    attributes = instruction.attributes
    sem = attributes.get("sem", "")
    flags = decoded.STRONG if sem or attributes.get("volatile") or attributes.get("mmio") else 0
    flags |= decoded.ACQUIRE if sem in ("acquire", "acq_rel") else 0
    flags |= decoded.RELEASE if sem in ("release", "acq_rel") else 0
    # A cluster is one block here. No scope: gpu for atomics, sys for volatile accesses (PTX ISA, atom; Scope).
    flags |= decoded.BLOCK_SCOPE if attributes.get("scope", "") in ("cta", "cluster") else 0
    return flags | (decoded.READ_ONLY if attributes.get("nc") else 0)


@selects("ld")
def load(select: Selector, instruction: Instruction) -> None:
    type_name = instruction.attributes["type"]
    base, offset, flags, space = select.address(instruction.operand("addr"), instruction.attributes["space"])
    targets = [select.write(element, type_name) for element in select.elements(instruction.operand("d"))]
    widths = {value.bytes for value in targets if value is not None}
    if len(widths) > 1:
        raise select.unsupported(f"{instruction.text} into registers of different sizes")
    register_bytes = widths.pop() if widths else width_of(type_name)
    if type_name.startswith("s"):
        flags |= decoded.SIGN_EXTEND
    select.moving(
        "ld", targets, writes=True, s=(base,), space=space, bytes=WIDTHS[type_name] // 8,
        register_bytes=register_bytes, flags=flags | _order(instruction), immediate=offset,
    )  # fmt: skip


@selects("st")
def store(select: Selector, instruction: Instruction) -> None:
    type_name = instruction.attributes["type"]
    base, offset, flags, space = select.address(instruction.operand("addr"), instruction.attributes["space"])
    sources = [select.read(element, type_name) for element in select.elements(instruction.operand("b"))]
    register_bytes = max(value.bytes for value in sources)
    sources = [select.resize(value, register_bytes) for value in sources]
    select.moving(
        "st", sources, writes=False, s=(base,), space=space, bytes=WIDTHS[type_name] // 8,
        register_bytes=register_bytes, flags=flags | _order(instruction), immediate=offset,
    )  # fmt: skip


_ATOMIC_OPS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")
_ATOMIC_TYPES = ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "b16", "b128")
_UNTYPED = {"b32": "u32", "b64": "u64"}


@selects("atom", "red")
def atomic(select: Selector, instruction: Instruction) -> None:
    operation, type_name = instruction.attributes["operation"], instruction.attributes["type"]
    engine_type = _UNTYPED.get(type_name, type_name)
    if operation in ("exch", "cas"):  # bits, not numbers: NaN compares by its bits
        engine_type = {2: "b16", 4: "u32", 8: "u64", 16: "b128"}[width_of(type_name)]
    float_only_add = engine_type in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
    if engine_type not in _ATOMIC_TYPES or (float_only_add and operation != "add"):
        raise select.unsupported(f"{instruction.text} is not emulated")
    base, offset, flags, space = select.address(instruction.operand("addr"), instruction.attributes["space"])
    targets = select.elements(instruction.operand("d"))
    b, c = select.elements(instruction.operand("b")), select.elements(instruction.operand("c"))
    if len(b) > 1 and engine_type in ("f16", "bf16", "f16x2", "bf16x2"):
        raise select.unsupported(f"{instruction.text} is not emulated")
    extra: list[decoded.Value | int | None] = []
    for i in range(len(b)):
        extra.append(select.write(targets[i], type_name) if targets else None)
        extra.append(select.read(b[i], type_name))
        extra.append(select.read(c[i], type_name) if c else None)
    code = _ATOMIC_OPS.index(operation) | _ATOMIC_TYPES.index(engine_type) << 8
    select.emit(
        "atom",
        s=(base,),
        extra=extra,
        writes_extra=tuple(range(0, len(extra), 3)),
        space=space,
        count=len(b),
        flags=flags | _order(instruction) | code << decoded.CODE_SHIFT,
        immediate=offset,
    )


@selects("cp.async")
def copy_async(select: Selector, instruction: Instruction) -> None:
    to, to_offset, flags, space = select.address(instruction.operand("dst"), "shared")
    source, source_offset, source_flags, _ = select.address(instruction.operand("src"), "global")
    if source_flags:
        source = select.resize(source, 8)
    size = instruction.operand("size")
    if not isinstance(size, Immediate):
        raise select.malformed("cp.async: the size must be a literal")
    src_size, ignore = instruction.operand("src_size"), instruction.operand("ignore")
    read_bytes = None if src_size is None else select.resize(select.read(src_size, "u32"), 4)
    ignored, negated = (None, False) if ignore is None else select.read_predicate(ignore)
    select.emit(
        "cp.async",
        s=(to, source, read_bytes, ignored),
        extra=[source_offset & 0xFFFFFFFF, source_offset >> 32 & 0xFFFFFFFF],
        space=space,
        bytes=size.value,
        flags=flags,
        immediate=to_offset,
        modifiers=pack({"neg_c": "1"} if negated else {}),
    )


@selects("cp.async.commit_group")
def commit_group(select: Selector, _instruction: Instruction) -> None:
    select.emit("cp.async.commit_group")


MOST_GROUPS = (1 << 31) - 1
"""No thread has as many: to wait until no more are pending is not to wait."""


@selects("cp.async.wait_group", "cp.async.wait_all")
def wait_group(select: Selector, instruction: Instruction) -> None:
    groups = -1
    if instruction.op == "cp.async.wait_group":
        operand = instruction.operand("n")
        if not isinstance(operand, Immediate) or operand.type != "int" or operand.value < 0:
            raise select.malformed("cp.async.wait_group: the number of groups must be a literal, 0 or more")
        groups = min(operand.value, MOST_GROUPS)
    select.emit("cp.async.wait_group", immediate=groups)


BARRIER_OPS = (
    *("init", "inval", "arrive", "arrive_drop", "test_wait", "try_wait"),
    *("async_arrive", "async_arrive_noinc", "expect_tx", "complete_tx"),
)


def _barrier(
    select: Selector,
    instruction: Instruction,
    op: str,
    d: decoded.Value | None,
    operand: Operand | None,
    flags: int = 0,
) -> None:
    base, offset, address_flags, space = select.address(instruction.operand("addr"), instruction.attributes["space"])
    source = None if operand is None else select.read(operand, "b64" if flags & decoded.WIDE_STATE else "u32")
    select.emit(
        "mbarrier",
        d=d,
        s=(base, source),
        space=space,
        flags=flags | address_flags | BARRIER_OPS.index(op) << decoded.CODE_SHIFT,
        immediate=offset,
    )


@selects("mbarrier.init", "mbarrier.inval", "mbarrier.arrive", "mbarrier.arrive_drop")
def barrier_arrive(select: Selector, instruction: Instruction) -> None:
    if "expect_tx" in instruction.attributes:
        _barrier(select, instruction, "expect_tx", None, instruction.operand("tx"))
    state = instruction.operand("state")
    _barrier(
        select, instruction, instruction.op.removeprefix("mbarrier."), select.write(state), instruction.operand("count")
    )


@selects("mbarrier.expect_tx", "mbarrier.complete_tx")
def barrier_bytes(select: Selector, instruction: Instruction) -> None:
    _barrier(select, instruction, instruction.op.removeprefix("mbarrier."), None, instruction.operand("tx"))


@selects("mbarrier.test_wait", "mbarrier.try_wait")
def barrier_wait(select: Selector, instruction: Instruction) -> None:
    parity = instruction.operand("parity")
    d = select.write(instruction.operands[0], "pred") or select.temporary(0)
    op = instruction.op.removeprefix("mbarrier.")
    waited, flags = (instruction.operand("state"), decoded.WIDE_STATE) if parity is None else (parity, 0)
    _barrier(select, instruction, op, d, waited, flags)


@selects("cp.async.mbarrier.arrive")
def async_arrive(select: Selector, instruction: Instruction) -> None:
    noinc = instruction.attributes.get("noinc") == "1"
    _barrier(select, instruction, "async_arrive_noinc" if noinc else "async_arrive", None, None)


@selects("mbarrier.pending_count")
def pending_count(select: Selector, instruction: Instruction) -> None:
    d = select.write(instruction.operands[0])
    select.emit("mbarrier.pending_count", d=d or select.temporary(4), s=(select.read(instruction.operands[1], "b64"),))


@selects("prefetch", "prefetchu", "applypriority", "discard")
def hint(select: Selector, instruction: Instruction) -> None:
    """Hints to caches: nothing that a program could see, except for `discard`, after which the bytes are undefined."""
    if instruction.op == "discard":
        raise select.unsupported("discard leaves memory undefined and is not emulated")
    select.emit("nop")


@selects("createpolicy")
def policy(select: Selector, instruction: Instruction) -> None:
    """A cache policy is opaque and changes no value: any number will do."""
    d = select.write(instruction.operands[0])
    if d is not None:
        select.lane("mov.b64", d, select.constant(0, 8))
