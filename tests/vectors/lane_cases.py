"""Cases for all lane operations: one kernel per operation, one row per combination of modifiers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from cases import Array, Case
from forms import Written, written

from wmmadiag.ptx.ir import Access, OperandSpec
from wmmadiag.ptx.types import CLASSES, WIDTHS

ELEMENTS = 2048
_BLOCK = 128
_LUTS = (0x80, 0x96, 0xCA, 0xE8, 0xFE, 0x1D, 0x00, 0x6A)
_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
# Operands that count bits: most values should be in range, some beyond.
_COUNTS = ("shl", "shr", "shf", "bfe", "bfi", "szext", "bmsk", "fns")
APPROXIMATE = (".approx", ".full")


def approximate(op: str) -> bool:
    """Whether the ISA gives the operation an error bound only."""
    return any(part in op for part in APPROXIMATE)


@dataclass(frozen=True)
class _Source:
    name: str
    type: str
    array: Array


def lane_cases(sm: int, elements: int = ELEMENTS) -> list[Case]:
    """All of them, in the order of the instruction table."""
    groups: dict[tuple[str, tuple[OperandSpec, ...]], list[Written]] = {}
    for one in written(sm):
        groups.setdefault((one.op, one.means.specs), []).append(one)
    found = []
    numbers: dict[str, int] = {}
    for (op, specs), members in groups.items():
        numbers[op] = numbers.get(op, 0) + 1
        key = op if numbers[op] == 1 else f"{op}#{numbers[op]}"
        found.append(_case(key, specs, members, elements))
    return found


def _paired(member: Written) -> bool:
    """Whether to ask for both destinations; ptxas allows one only for scalar halves."""
    return bool(member.means.pairs) and member.means.specs[1].type not in ("f16", "bf16")


def _seed(key: str) -> np.random.Generator:
    return np.random.default_rng([int(byte) for byte in key.encode()])


def _register(type_name: str) -> int:
    """Width of the register for a type, bits."""
    return max(16, WIDTHS[type_name])


def _case(key: str, specs: Sequence[OperandSpec], members: Sequence[Written], elements: int) -> Case:
    rng = _seed(key)
    op = members[0].op
    sources: list[_Source] = []
    for index, spec in enumerate(specs):
        if spec.access is Access.READ and spec.role != "immLut":
            array = values(rng, spec, op, elements)
            if sources and spec.type == sources[0].type:
                _relate(rng, array, sources[0].array, spec.type)
            sources.append(_Source(f"s{index}", "cc" if spec.role == "cc_in" else spec.type, array))
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
    return Case(key, ptx, [s.array for s in sources], outputs, [row for row, _ in rows], elements // _BLOCK, _BLOCK)


def _load(source: _Source) -> str:
    width = source.array.itemsize * 8
    name, address = source.name, f"%a_{source.name}"
    lines = (
        f".reg .b{width} %v_{name}; .reg .b64 {address}; "
        f"mad.wide.u32 {address}, %i, {source.array.itemsize}, %p_{name}; ld.global.b{width} %v_{name}, [{address}];"
    )
    if source.type == "pred":
        lines += f" .reg .pred %{name}; setp.ne.b32 %{name}, %v_{name}, 0;"
    return lines


def _declarations(specs: Sequence[OperandSpec], member: Written) -> list[str]:
    lines = [".reg .pred %q;"] if _paired(member) else []
    for index, spec in enumerate(specs):
        if spec.access is Access.WRITE:
            kind = "b32" if spec.role == "cc_out" else "pred" if spec.type == "pred" else f"b{_register(spec.type)}"
            lines.append(f".reg .{kind} %d{index};")
    return lines


def _statement(member: Written, specs: Sequence[OperandSpec], lut: int) -> str:
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


def values(rng: np.random.Generator, spec: OperandSpec, op: str, count: int) -> Array:
    """Bit patterns of a source operand: corner cases and random ones."""
    type_name = spec.type
    if type_name == "pred" or spec.role == "cc_in":
        return rng.integers(0, 2, count).astype(np.uint32)
    if type_name in ("f16x2", "bf16x2"):
        low, high = (floats(rng, type_name[:-2], count).astype(np.uint32) for _ in range(2))
        return low | high << np.uint32(16)
    if type_name in _FORMATS:
        return floats(rng, type_name, count)
    width = WIDTHS[type_name]
    found = integers(rng, width, count)
    if op.split(".")[0] in _COUNTS and type_name == "u32" and spec.role != "a":
        found = np.where(rng.random(count) < 0.8, rng.integers(0, 70, count).astype(np.uint64), found)
    return found.astype(f"u{max(16, width) // 8}")


def floats(rng: np.random.Generator, type_name: str, count: int) -> Array:
    """Bit patterns of floats: every kind of special value, near-integers, and random bits."""
    exponent_bits, fraction_bits = _FORMATS[type_name]
    top, one = (1 << exponent_bits) - 1, 1 << fraction_bits
    bias = top >> 1
    special = np.array(
        [
            0, 1, 2, one - 1, one, one + 1, (bias << fraction_bits) - 1, bias << fraction_bits,
            (bias << fraction_bits) + 1, (bias - 1) << fraction_bits, (bias + 1) << fraction_bits,
            (bias << fraction_bits) | (one >> 1), ((bias + 1) << fraction_bits) | (one >> 2),
            (top << fraction_bits) - 1, top << fraction_bits, (top << fraction_bits) | (one >> 1),
            (top << fraction_bits) | 1,
            (top << fraction_bits) | (one - 1), ((bias + fraction_bits) << fraction_bits) | 1,
            (bias + 7) << fraction_bits, (bias + 8) << fraction_bits, min(top - 1, bias + 15) << fraction_bits,
            min(top - 1, bias + 16) << fraction_bits, min(top - 1, bias + 31) << fraction_bits,
            min(top - 1, bias + 32) << fraction_bits, min(top - 1, bias + 63) << fraction_bits,
            min(top - 1, bias + 64) << fraction_bits,
        ],
        np.uint64,
    )  # fmt: skip
    fraction = rng.integers(0, one, count, dtype=np.uint64)
    # A few leading bits only: ties when rounding.
    leading = np.uint64(0xF << (fraction_bits - 4))
    fraction = np.where(rng.random(count) < 0.3, fraction & leading, fraction)
    near = rng.integers(max(0, bias - 20), min(top, bias + 68), count).astype(np.uint64)
    anywhere = rng.integers(0, top + 1, count).astype(np.uint64)
    kind = rng.random(count)
    magnitude = np.where(kind < 0.6, near, anywhere) << np.uint64(fraction_bits) | fraction
    magnitude = np.where(kind > 0.7, special[rng.integers(0, len(special), count)], magnitude)
    sign = rng.integers(0, 2, count).astype(np.uint64) << np.uint64(exponent_bits + fraction_bits)
    return np.asarray(magnitude | sign).astype(f"u{(1 + exponent_bits + fraction_bits) // 8}")


def integers(rng: np.random.Generator, width: int, count: int) -> Array:
    """Integers of all magnitudes, the ends of the range among them."""
    mask = np.uint64((1 << width) - 1)
    found = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> rng.integers(0, width, count).astype(np.uint64)
    half = mask >> np.uint64(1)
    ends = np.array([0, 1, 2, mask, mask - np.uint64(1), half, half + np.uint64(1)], np.uint64)
    found = np.where(rng.random(count) < 0.2, ends[rng.integers(0, len(ends), count)], found)
    found = np.where(rng.random(count) < 0.3, ~found, found)
    return np.asarray(found & mask)


def _relate(rng: np.random.Generator, array: Array, first: Array, type_name: str) -> None:
    """Make some elements equal to the first operand's, some its negation: equality and cancellation."""
    kind = rng.random(len(array))
    array[kind < 0.1] = first[kind < 0.1]
    if CLASSES[type_name] == "float":
        halves = 0x80008000 if type_name.endswith("x2") else 1 << (8 * array.itemsize - 1)
        negated = (kind > 0.1) & (kind < 0.15)
        array[negated] = first[negated] ^ array.dtype.type(halves)
