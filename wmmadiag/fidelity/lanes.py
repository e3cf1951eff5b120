"""Cases of lane operations: one kernel per operation, one row per combination of modifiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from wmmadiag.fidelity.cases import Array, FidelityCase
from wmmadiag.fidelity.lane_operands import drawing, related, values
from wmmadiag.fidelity.written import WrittenInstruction, written
from wmmadiag.ptx.ir import Access, OperandSpec
from wmmadiag.ptx.types import WIDTHS

ELEMENTS = 2048
_BLOCK = 128
_LUTS = (0x80, 0x96, 0xCA, 0xE8, 0xFE, 0x1D, 0x00, 0x6A)
APPROXIMATE = (".approx", ".full")


def approximate(op: str) -> bool:
    """Whether the ISA gives the operation an error bound only."""
    return any(part in op for part in APPROXIMATE)


@dataclass(frozen=True)
class _LaneSource:
    name: str
    type: str
    array: Array


@cache
def lane_groups(sm: int) -> Mapping[str, tuple[WrittenInstruction, ...]]:
    """Key of a case → the instructions of one operation and list of operands, in the order of `instructions.txt`."""
    groups: dict[tuple[str, tuple[OperandSpec, ...]], list[WrittenInstruction]] = {}
    for one in written(sm):
        groups.setdefault((one.op, one.means.specs), []).append(one)
    found: dict[str, tuple[WrittenInstruction, ...]] = {}
    numbers: dict[str, int] = {}
    for (op, _), members in groups.items():
        numbers[op] = numbers.get(op, 0) + 1
        found[op if numbers[op] == 1 else f"{op}#{numbers[op]}"] = tuple(members)
    return found


def lane_case(sm: int, key: str, seed: int = 0, elements: int = ELEMENTS) -> FidelityCase:
    """One of them.

    Args:
        key: of `lane_groups`.
        seed: of the operands; 0: those of the committed records.
        elements: operands of each instruction, a multiple of 128.
    """
    members = lane_groups(sm)[key]
    return _case(key, members[0].means.specs, members, elements, seed)


def _paired(member: WrittenInstruction) -> bool:
    """Whether to ask for both destinations; ptxas allows one only for scalar halves."""
    return bool(member.means.pairs) and member.means.specs[1].type not in ("f16", "bf16")


def _register(type_name: str) -> int:
    """Width of the register for a type, bits."""
    return max(16, WIDTHS[type_name])


def _case(
    key: str, specs: Sequence[OperandSpec], members: Sequence[WrittenInstruction], elements: int, seed: int
) -> FidelityCase:
    rng = drawing(key, seed)
    op = members[0].op
    sources: list[_LaneSource] = []
    for index, spec in enumerate(specs):
        if spec.access is Access.READ and spec.role != "immLut":
            array = values(rng, spec, op, elements)
            if sources and spec.type == sources[0].type:
                related(rng, array, sources[0].array, spec.type)
            sources.append(_LaneSource(f"s{index}", "cc" if spec.role == "cc_in" else spec.type, array))
    rows: list[tuple[str, str]] = []
    for member in members:
        luts = _LUTS if any(spec.role == "immLut" for spec in specs) else (0,)
        for lut in luts:
            rows.append((f"{member.text} {lut:#x}" if len(luts) > 1 else member.text, _statement(member, specs, lut)))
    outputs: dict[str, Array] = {}
    stores: list[str] = []
    for index, spec in enumerate(specs):
        if spec.access is not Access.WRITE:
            continue
        name = "carry" if spec.role == "cc_out" else f"d{index}"
        width = 32 if spec.type == "pred" else _register(spec.type)
        outputs[name] = np.zeros((len(rows), elements), f"u{width // 8}")
        stores.append(_store(name, f"d{index}", "cc" if name == "carry" else spec.type, width))
        if _paired(members[0]) and index == 0:
            outputs["q"] = np.zeros((len(rows), elements), np.uint32)
            stores.append(_store("q", "q", "pred", 32))
    arguments = [*(source.name for source in sources), *outputs]
    body = [f".reg .b64 %p_{name}; ld.param.u64 %p_{name}, [x_{name}];" for name in arguments]
    body += [_load(source) for source in sources]
    for _, statement in rows:
        body += ["{", *_declarations(specs, members[0]), statement, *stores, "}"]
        body += [f"add.s64 %p_{name}, %p_{name}, {array.shape[1] * array.itemsize};" for name, array in outputs.items()]
    parameters = ", ".join(f".param .u64 x_{name}" for name in arguments)
    ptx = (
        f".version 8.8\n.target sm_{90 if members[0].means.sm <= 90 else members[0].means.sm}\n.address_size 64\n"
        f".visible .entry k({parameters})\n{{\n.reg .b32 %i, %n, %z; .reg .pred %true;\n"
        "mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mad.lo.u32 %i, %i, %n, 0; mov.u32 %n, %tid.x; add.u32 %i, %i, %n;\n"
        + "\n".join(body)
        + "\nret;\n}\n"
    )
    return FidelityCase(
        key, ptx, [s.array for s in sources], outputs, [row for row, _ in rows], elements // _BLOCK, _BLOCK
    )


def _load(source: _LaneSource) -> str:
    width = source.array.itemsize * 8
    name, address = source.name, f"%a_{source.name}"
    lines = (
        f".reg .b{width} %v_{name}; .reg .b64 {address}; "
        f"mad.wide.u32 {address}, %i, {source.array.itemsize}, %p_{name}; ld.global.b{width} %v_{name}, [{address}];"
    )
    if source.type == "pred":
        lines += f" .reg .pred %{name}; setp.ne.b32 %{name}, %v_{name}, 0;"
    return lines


def _declarations(specs: Sequence[OperandSpec], member: WrittenInstruction) -> list[str]:
    lines = [".reg .pred %q;"] if _paired(member) else []
    for index, spec in enumerate(specs):
        if spec.access is Access.WRITE:
            kind = "b32" if spec.role == "cc_out" else "pred" if spec.type == "pred" else f"b{_register(spec.type)}"
            lines.append(f".reg .{kind} %d{index};")
    return lines


def _statement(member: WrittenInstruction, specs: Sequence[OperandSpec], lut: int) -> str:
    operands, before, after = [], "", ""
    for index, spec in enumerate(specs):
        if spec.role == "cc_out":
            # sub leaves a borrow: only subc may read it.
            reader = "subc" if member.text.startswith("sub") else "addc"
            after = f" {reader}.u32 %d{index}, 0, 0;"
        elif spec.role == "cc_in":
            name = f"%v_s{index}"  # 0 or 1
            first = f"0, {name}" if member.text.startswith("sub") else f"{name}, -1"
            before = f"{'sub' if member.text.startswith('sub') else 'add'}.cc.u32 %z, {first}; "
        elif spec.role == "immLut":
            operands.append(hex(lut))
        elif spec.access is Access.WRITE:
            operands.append(f"%d{index}|%q" if _paired(member) and index == 0 else f"%d{index}")
        else:
            operands.append(f"%s{index}" if spec.type == "pred" else f"%v_s{index}")
    return f"{before}{member.text} {', '.join(operands)};{after}"


def _store(name: str, register: str, type_name: str, width: int) -> str:
    bytes_ = width // 8
    text = f"{{ .reg .b64 %t; mad.wide.u32 %t, %i, {bytes_}, %p_{name}; "
    if type_name == "pred":
        text += f".reg .b32 %w; selp.b32 %w, 1, 0, %{register}; st.global.b32 [%t], %w; }}"
    else:
        text += f"st.global.b{width} [%t], %{register}; }}"
    return text
