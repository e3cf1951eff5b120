"""Bulk copies (TMA without tensor maps): done where they are issued, by the thread that issues them, in 16 bytes each.

Their bytes count towards the mbarrier when they are there, so that only who waits for it knows of them.
"""

from __future__ import annotations

from wmmadiag.emulator.decoded import CODE_SHIFT, SPACES, Value
from wmmadiag.emulator.modifiers import pack
from wmmadiag.emulator.select_memory import BARRIER_OPS, store
from wmmadiag.emulator.selection import Selector, selects
from wmmadiag.ptx.ir import Instruction, Operand
from wmmadiag.ptx.types import WIDTHS

_STEP = 16


@selects("cp.async.bulk")
def bulk_copy(select: Selector, instruction: Instruction) -> None:
    number = len(select.nodes)
    again, over = select.frame.label(f"%bulk {number}"), select.frame.label(f"%bulk over {number}")
    select.skip_to(over)
    spaces = {role: instruction.attributes[name] for role, name in (("dst", "to"), ("src", "from"))}
    begins = {role: _wide(select, instruction.operand(role), space) for role, space in spaces.items()}
    size = select.resize(select.read(instruction.operand("size"), "u32"), 4)
    done, wide = select.temporary(4), select.temporary(8)
    select.lane("mov.b32", done, select.constant(0, 4))
    select.labels[again] = len(select.nodes)
    at_end = select.temporary(0)
    select.lane("setp.u32", at_end, done, size, modifiers=pack({"compare": "ge"}))
    copied = select.frame.label(f"%bulk copied {number}")
    select.branch_if(at_end, copied)
    select.lane("cvt.u64.u32", wide, done)
    words = [select.temporary(4) for _ in range(4)]
    for op, role in (("ld", "src"), ("st", "dst")):
        address = select.temporary(8)
        select.lane("add.u64", address, begins[role], wide)
        space = SPACES[spaces[role]]
        select.moving(op, words, writes=op == "ld", s=(address,), space=space, bytes=4, register_bytes=4)
    select.lane("add.u32", done, done, select.constant(_STEP, 4))
    select.emit("bra", target=again)
    select.labels[copied] = len(select.nodes)
    if (barrier := instruction.operand("mbar")) is not None:
        _complete(select, barrier, size)
    select.land(over)


@selects("cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
def bulk_group(select: Selector, _instruction: Instruction) -> None:
    select.emit("nop")


@selects("st.async")
def counted_store(select: Selector, instruction: Instruction) -> None:
    store(select, instruction)
    count = len(select.elements(instruction.operand("b")))
    size = count * WIDTHS[instruction.attributes["type"]] // 8
    _complete(select, instruction.operand("mbar"), select.constant(size, 4))


def _complete(select: Selector, barrier: Operand | None, size: Value) -> None:
    base, offset, flags, space = select.address(barrier, "shared")
    code = BARRIER_OPS.index("complete_tx") << CODE_SHIFT
    select.emit("mbarrier", s=(base, size), space=space, flags=flags | code, immediate=offset)


def _wide(select: Selector, operand: Operand | None, space: str) -> Value:
    """An address with its offset, in 64 bits."""
    base, offset, _, _ = select.address(operand, space)
    base = select.resize(base, 8)
    if not offset:
        return base
    d = select.temporary(8)
    select.lane("add.u64", d, base, select.constant(offset, 8))
    return d
