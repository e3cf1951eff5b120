"""Every tensor-core operation of an emulated run, done again on the GPU with the same operands.

It tells apart whether the chip multiplies otherwise than the emulator, or got other operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator import EmulatedKernel
from wmmadiag.emulator.faults import coordinates
from wmmadiag.errors import UnsupportedError, WmmadiagError
from wmmadiag.fragments import FragmentMap, mma_map, wmma_map
from wmmadiag.launch import Launch, LoadedKernel
from wmmadiag.ptx.instructions import lookup

MOST = 2048
"""Operations that are done again; the first ones of the run."""

Bits = NDArray[Any]
Load = Callable[[str], LoadedKernel]
"""Makes the kernel `k` of a PTX text ready on the device."""

_DTYPES = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


@dataclass(frozen=True, slots=True)
class _Operation:
    """One multiplication: where, and its matrices as bytes (A by rows, B by columns, C and D by rows)."""

    where: tuple[int, int, int]
    matrices: tuple[bytes, bytes, bytes, bytes]


class _Listener:
    def __init__(self) -> None:
        self.seen: list[_Operation] = []
        self.more = 0

    def on_tensor(
        self, where: tuple[int, int, int], a: bytes, b: bytes, c: bytes, d: bytes, _order: Sequence[int]
    ) -> None:
        # Columns may be in another order, the same one in B, C and D: a sum does not depend on its neighbours.
        if len(self.seen) < MOST:
            self.seen.append(_Operation(where, (a, b, c, d)))
        else:
            self.more += 1


def replay(emulated: EmulatedKernel, launch: Launch, arch: str, load: Load) -> str:
    """One sentence on the tensor-core operations of a launch; "" if it has none. Changes the launch's arrays.

    Args:
        arch: of the device.
        load: makes a kernel ready on the device.
    """
    listener = _Listener()
    try:
        EmulatedKernel(emulated.kernel, replace(emulated.options, observer=listener)).launch(launch)
    except WmmadiagError:
        return ""
    if not listener.seen:
        return ""
    by_text: dict[str, list[int]] = {}
    for number, one in enumerate(listener.seen):
        by_text.setdefault(emulated.kernel.nodes[one.where[2]].text, []).append(number)
    first: tuple[int, int, int] | None = None
    compared = 0
    for text, numbers in by_text.items():
        wrong = _differing(text, [listener.seen[number] for number in numbers], arch, load)
        if wrong is None:
            continue
        compared += len(numbers)
        for index, row, column in wrong[:1]:
            if first is None or numbers[index] < first[0]:
                first = (numbers[index], row, column)
    if not compared:
        return ""
    if first is None:
        which = f"all {compared:,}" if not listener.more else f"the first {compared:,}"
        return f"done again on the GPU with the same operands, {which} tensor-core operations give the emulator's bits"
    number, row, column = first
    block, warp, pc = listener.seen[number].where
    *_, place = emulated.kernel.place(pc).frames()
    return (
        f"the first tensor-core operation whose sum is another on the GPU with the same operands: "
        f"{emulated.kernel.nodes[pc].text} at {place}, block {coordinates(block, launch.grid)}, warp {warp}, "
        f"row {row}, column {column} of its tile"
    )


def _differing(text: str, operations: Sequence[_Operation], arch: str, load: Load) -> list[tuple[int, int, int]] | None:
    """(operation, row, column) of each first differing element; None if this form is not done again."""
    try:
        maps = _maps(text, arch)
    except UnsupportedError:
        return None
    if any(one.element_bits < 8 or one.tiles != 1 for one in maps):
        return None
    words = []
    for role, fragment in enumerate(maps[:3]):
        rows, columns = fragment.shape
        dtype = _DTYPES[fragment.element_bits]
        stack = np.stack([np.frombuffer(one.matrices[role], dtype) for one in operations])
        matrix = stack.reshape(-1, columns, rows).swapaxes(1, 2) if role == 1 else stack.reshape(-1, rows, columns)
        words.append(to_registers(fragment, matrix))
    result = maps[3]
    out = np.zeros((len(operations), result.registers, 32), _DTYPES[result.register_bits])
    try:
        load(kernel_text(text, maps)).launch(Launch((len(operations), 1, 1), (32, 1, 1), [*words, out]))
    except WmmadiagError:
        return None
    found = to_matrices(result, out)
    expected = np.stack([np.frombuffer(one.matrices[3], found.dtype) for one in operations]).reshape(found.shape)
    wrong = []
    for index in np.flatnonzero((found != expected).any(axis=(1, 2))):
        row, column = np.argwhere(found[index] != expected[index])[0]
        wrong.append((int(index), int(row), int(column)))
    return wrong


def _maps(text: str, arch: str) -> tuple[FragmentMap, FragmentMap, FragmentMap, FragmentMap]:
    means = lookup(text)[0]
    attributes = means.attributes
    shape = attributes["shape"]
    made = []
    for matrix in "abcd":
        type_name = attributes[f"{matrix}type"]
        if means.op.startswith("wmma"):
            made.append(wmma_map(shape, matrix, type_name, arch))
        else:
            layout = attributes.get(f"{matrix}layout", "") if shape == "m8n8k4" and type_name != "f64" else ""
            made.append(mma_map(shape, matrix, type_name, layout))
    return made[0], made[1], made[2], made[3]


def kernel_text(text: str, maps: Sequence[FragmentMap]) -> str:
    """A PTX kernel that does one operation per block: registers [operation][register][lane] in, and out."""
    specs = {spec.role: spec for spec in lookup(text)[0].specs}
    lines = [
        ".version 8.0", ".target sm_80", ".address_size 64",
        ".visible .entry k(.param .u64 x_a, .param .u64 x_b, .param .u64 x_c, .param .u64 x_d)", "{",
        ".reg .b32 %lane, %block, %at; .reg .b64 %p;", "mov.u32 %lane, %tid.x; mov.u32 %block, %ctaid.x;",
    ]  # fmt: skip
    after = []
    for role, fragment in zip("abcd", maps, strict=True):
        count, size = fragment.registers, fragment.register_bits // 8
        type_name = specs[role].type if specs[role].type in ("f32", "f64") else f"b{fragment.register_bits}"
        lines.append(f".reg .{type_name} %{role}<{count}>; .reg .b64 %p{role};")
        lines.append(f"ld.param.u64 %p, [x_{role}]; mad.lo.u32 %at, %block, {32 * count}, %lane;")
        lines.append(f"mad.wide.u32 %p{role}, %at, {size}, %p;")
        for index in range(count):
            address = f"[%p{role}+{32 * size * index}]"
            if role == "d":
                after.append(f"st.global.{type_name} {address}, %d{index};")
            else:
                lines.append(f"ld.global.{type_name} %{role}{index}, {address};")
    operands = [
        "{" + ", ".join(f"%{role}{index}" for index in range(specs[role].count)) + "}" for role in ("d", "a", "b", "c")
    ]
    return "\n".join([*lines, f"{text} {', '.join(operands)};", *after, "ret;", "}"]) + "\n"


def to_registers(fragment: FragmentMap, matrices: Bits) -> Bits:
    """Registers [n, registers, 32] of matrices [n, rows, columns] of bits."""
    elements = matrices[:, fragment.row, fragment.col].astype(np.uint64)
    split = elements.reshape(len(matrices), 32, fragment.registers, fragment.per_register)
    shifts = np.arange(fragment.per_register, dtype=np.uint64) * np.uint64(fragment.element_bits)
    words = np.bitwise_or.reduce(split << shifts, axis=-1)
    return np.ascontiguousarray(words.transpose(0, 2, 1).astype(_DTYPES[fragment.register_bits]))


def to_matrices(fragment: FragmentMap, words: Bits) -> Bits:
    """Matrices [n, rows, columns] of registers [n, registers, 32]."""
    shifts = np.arange(fragment.per_register, dtype=np.uint64) * np.uint64(fragment.element_bits)
    mask = np.uint64(2**fragment.element_bits - 1)
    split = (words.astype(np.uint64).transpose(0, 2, 1)[..., None] >> shifts) & mask
    out = np.zeros((len(words), *fragment.shape), _DTYPES[fragment.element_bits])
    out[:, fragment.row, fragment.col] = split.reshape(len(words), 32, fragment.elements).astype(out.dtype)
    return out
