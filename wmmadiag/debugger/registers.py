"""Registers of a warp, and fragments in them: which lane's register holds which element of a matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.decoded import Decoded, Value
from wmmadiag.emulator.lower import LoweredKernel
from wmmadiag.emulator.observer import register_values
from wmmadiag.emulator.registers import LANES
from wmmadiag.ptx.meaning import Dataflow, meaning

_FLOATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "s32": np.int32, "s8": np.int8,
}  # fmt: skip
_WORDS: dict[int, Any] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
LETTERS = "abcd"


@dataclass(frozen=True, slots=True)
class RegisterLayout:
    """Where the elements of one operand of a fragment operation lie."""

    letter: str  # "a", "b", "c" or "d"; of a load or store the matrix that it names
    type: str  # of an element, such as "f16"
    bits: int  # of an element in a register
    values: tuple[Value, ...]  # the registers, in order
    # lane, register, element: int (rows, columns): who holds each element, in which of `values`, at which position in
    # it; the first where several do
    lane: NDArray[np.int64]
    register: NDArray[np.int64]
    element: NDArray[np.int64]
    tiles: int = 1  # independent matrices, which stand below each other

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.lane.shape[0], self.lane.shape[1]

    @property
    def position(self) -> NDArray[np.int64]:
        """Index i of `frag.x[i]` in the lane, int (rows, columns)."""
        per_register = self.values[0].bytes * 8 // self.bits
        return self.register * per_register + self.element


def layout(kernel: LoweredKernel, node: Decoded, letter: str) -> RegisterLayout | None:
    """The layout of an operand; None where the operation has no such operand.

    Args:
        letter: of a multiplication "a" to "d"; of a load or store its only fragment, whatever the letter.
    """
    spec = node.tensor
    if spec is None:
        return None
    rule: Any = spec.rule
    order: tuple[int, ...] = ()
    if rule is None:
        does = meaning(node.text)
        matrix = does.attributes.get("matrix", "d")
        number, values, kind = spec.maps[3], spec.registers[3], does.type
    else:
        matrix = letter
        at = LETTERS.index(letter)
        number, values, kind = spec.maps[at], spec.registers[at], str(getattr(rule, letter))
        order = spec.column_order if letter != "a" else ()
    lines, width, registers, per_register, bits, _, data = kernel.maps[number]
    index = np.frombuffer(bytes(data), "<i2").reshape(registers, per_register, LANES).astype(np.int64)
    line, inside = index // width, index % width
    natural = np.argsort(np.array(order)) if order else None
    tiles = spec.tiles
    if matrix == "b":
        columns = lines // tiles
        tile, column = line // columns, line % columns
        row = inside + tile * width
        column = natural[column] if natural is not None else column
        shape = (width * tiles, columns)
    else:
        row, column = line, natural[inside] if natural is not None else inside
        shape = (lines, width)
    holder = np.full((3, *shape), -1, np.int64)
    register, element, lane = np.indices(index.shape)
    for source, to in zip((lane, register, element), holder, strict=True):
        to[row.reshape(-1)[::-1], column.reshape(-1)[::-1]] = source.reshape(-1)[::-1]
    return RegisterLayout(matrix, kind, bits, tuple(values), holder[0], holder[1], holder[2], tiles)


def raw_register(kernel: LoweredKernel, value: Value, registers: bytes) -> NDArray[Any]:
    """A register of all lanes as unsigned integers (32,); bool for a predicate; a constant is broadcast."""
    if value.constant is not None:
        kind = _WORDS.get(value.bytes * 8, np.uint64)
        return np.full(LANES, value.constant & ((1 << max(value.bytes, 1) * 8) - 1), kind)
    return register_values(kernel, value, registers)


def fragment_values(kernel: LoweredKernel, where: RegisterLayout, registers: bytes) -> NDArray[Any]:
    """The matrix (rows, columns) that a layout finds in a register file, in its element type."""
    raw = np.stack([raw_register(kernel, value, registers).astype(np.uint64) for value in where.values])
    words = raw[where.register, where.lane] >> (where.element * where.bits).astype(np.uint64)
    return decoded(words & np.uint64((1 << where.bits) - 1), where.type, where.bits)


def decoded(words: NDArray[np.uint64], kind: str, bits: int) -> NDArray[Any]:
    """Bits as numbers of an element type; those narrower than a byte become small integers."""
    if bits < 8:
        signed = words.astype(np.int64)
        if kind == "s4":
            signed = np.where(signed >= 8, signed - 16, signed)
        return signed
    unsigned = words.astype(_WORDS[bits])
    numbers: NDArray[Any] = unsigned.view(_FLOATS.get(kind, unsigned.dtype))
    return numbers


def register_numbers(raw: NDArray[Any], kind: str) -> NDArray[Any]:
    """A register's bits as what an instruction's type says they are."""
    if raw.dtype == bool or raw.ndim > 1:
        return raw
    if kind in ("f16x2", "bf16x2") and raw.dtype == np.uint32:
        pairs: NDArray[Any] = raw.view(_FLOATS[kind[:-2]])
        return pairs.reshape(LANES, 2)
    chosen = _FLOATS.get(kind)
    if chosen is not None and np.dtype(chosen).itemsize == raw.dtype.itemsize:
        numbers: NDArray[Any] = raw.view(chosen)
        return numbers
    if kind.startswith("s"):
        return raw.view(raw.dtype.str.replace("u", "i"))
    return raw


def nan_table(kernel: LoweredKernel, kinds: dict[str, int]) -> bytes:
    """One byte per instruction: how a NaN that its arithmetic makes would show (`NAN_KINDS`), 0: it makes none."""
    table = bytearray(len(kernel.nodes))
    for pc, node in enumerate(kernel.nodes):
        if node.op == "mma" and node.tensor is not None:
            table[pc] = kinds.get(str(getattr(node.tensor.rule, "d", "")), 0)
        elif node.d is not None and (does := meaning(node.text)).flow in (Dataflow.COMPUTE, Dataflow.CONVERT):
            kind = does.type
            if kinds.get(kind, 0) and node.d.bytes == _BYTES.get(kind, 0):
                table[pc] = kinds[kind]
    return bytes(table)


_BYTES = {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "f32": 4, "tf32": 4, "f64": 8, "f32x2": 8}
