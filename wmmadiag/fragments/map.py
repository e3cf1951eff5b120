"""What a fragment map is: the matrix element behind each lane's registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LANES = 32

ELEMENT_BITS: dict[str, int] = {
    "f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "s4": 4, "u4": 4, "b1": 1,
    **dict.fromkeys(("s8", "u8", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1"), 8),
}  # fmt: skip
"""Bits that one element takes in a register (PTX ISA, "Matrix Data-types"); fp6 and fp4 sit in a byte each."""


@dataclass(frozen=True, slots=True, eq=False)
class FragmentMap:
    """Which matrix element each (lane, element of the lane's fragment) is.

    Elements are numbered register by register, low bits first: element e is in register e // per_register, at bit
    (e % per_register) × element_bits.
    """

    # row, col: int16[32, elements]; A is (row, k), B is (k, column), C and D are (row, column). Read-only.
    row: NDArray[np.int16]
    col: NDArray[np.int16]
    tile: NDArray[np.int16]  # int16[32, elements], which of `tiles` independent matrices (only mma.m8n8k4 f16 has four)
    shape: tuple[int, int]  # (rows, columns) of the matrix
    element_bits: int  # 1 to 64
    register_bits: int  # 32 or 64
    used_registers: int  # how many of the first registers the multiplication reads; the rest repeat elements
    tiles: int = 1  # number of matrices
    source: str = ""  # where the map is from

    @property
    def elements(self) -> int:
        """Elements in one lane's fragment, repeated ones included."""
        return int(self.row.shape[1])

    @property
    def per_register(self) -> int:
        """Elements in one register."""
        return self.register_bits // self.element_bits

    @property
    def registers(self) -> int:
        """Registers of one lane's fragment."""
        return self.elements // self.per_register


def fragment_map(
    row: NDArray[np.int_],
    col: NDArray[np.int_],
    shape: tuple[int, int],
    element: str,
    source: str,
    *,
    tile: NDArray[np.int_] | None = None,
    tiles: int = 1,
    used_registers: int | None = None,
) -> FragmentMap:
    """A `FragmentMap` from integer index arrays [32, elements]; `element` is a type of `ELEMENT_BITS`."""
    arrays = [np.asarray(index, dtype=np.int16) for index in (row, col, np.zeros_like(row) if tile is None else tile)]
    for array in arrays:
        array.setflags(write=False)
    bits = ELEMENT_BITS[element]
    register_bits = max(32, bits)
    registers = arrays[0].shape[1] * bits // register_bits
    return FragmentMap(
        row=arrays[0],
        col=arrays[1],
        tile=arrays[2],
        shape=shape,
        element_bits=bits,
        register_bits=register_bits,
        used_registers=registers if used_registers is None else used_registers,
        tiles=tiles,
        source=source,
    )


def packed_along_k(
    offsets: tuple[tuple[int, int], ...], element: str, matrix: str
) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """(row, col)[32, elements] of an A or B fragment whose registers hold consecutive k.

    Lane l is in group g = l >> 2 and is t = l & 3 in it; a register of E elements holds k = E·t … E·t + E-1 of row
    (A) or column (B) g, moved by the register's offset.

    Args:
        offsets: for each register, (row or column offset, k offset).
        element: element type.
        matrix: "a" or "b".
    """
    per_register = max(32, ELEMENT_BITS[element]) // ELEMENT_BITS[element]
    lane = np.arange(LANES)[:, None]
    group, thread = lane >> 2, lane & 3
    inner = np.tile(np.arange(per_register), len(offsets))[None, :]
    outer_offset = np.repeat([outer for outer, _ in offsets], per_register)[None, :]
    k_offset = np.repeat([k for _, k in offsets], per_register)[None, :]
    outer = group + outer_offset
    k = per_register * thread + inner + k_offset
    return (outer, k) if matrix == "a" else (k, outer)


def accumulator(offsets: tuple[tuple[int, int], ...]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """(g + offset, 2t + e0 + offset)[32, 2·len(offsets)]: accumulator elements come in pairs of neighbours."""
    lane = np.arange(LANES)[:, None]
    major = (lane >> 2) + np.repeat([offset for offset, _ in offsets], 2)[None, :]
    minor = 2 * (lane & 3) + np.tile([0, 1], len(offsets))[None, :] + np.repeat([o for _, o in offsets], 2)[None, :]
    return major, minor
