"""Parts of the native core by themselves: an operation in lanes, a sum of a tensor core, matrices as it takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmmadiag.emulator.native import engine
from wmmadiag.fragments.map import FragmentMap
from wmmadiag.numerics.tensor_core import MmaRule

_WORDS: dict[str, str] = {
    "f64": "u8", "f32": "u4", "tf32": "u4", "s32": "u4", "f16": "u2", "bf16": "u2",
    **dict.fromkeys(("e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "b1"), "u1"),
}  # fmt: skip

# `.kind::f8f6f4`: an e2m1 element sits in bits 5:2 of its byte, the others in its low bits (PTX ISA 9.0, mma).
E2M1_SHIFT = 2


def matrix_dtype(element: str) -> np.dtype[Any]:
    """Unsigned dtype of a dense matrix of that element type (one element each; C and D of the native core, too)."""
    return np.dtype(_WORDS[element])


def pack_a(bits: NDArray[Any], element: str) -> NDArray[Any]:
    """A as the native core takes it.

    Args:
        bits: [m, k] bit patterns, one element each, in the low bits (e2m1: 4 bits, s4: two's complement, b1: 0 or 1).
        element: element type.

    Returns:
        C-contiguous [m, words]: unsigned elements; s4 and u4 two to a uint8, b1 32 to a uint32.
    """
    words = np.ascontiguousarray(bits).astype(matrix_dtype(element))
    if element in ("s4", "u4"):
        return np.ascontiguousarray((words[:, 0::2] & 15) | ((words[:, 1::2] & 15) << 4))
    if element == "b1":
        return np.packbits(words & 1, axis=1, bitorder="little").view("<u4")
    if element == "e2m1":
        return np.ascontiguousarray((words & 15) << E2M1_SHIFT)
    return words


def pack_b(bits: NDArray[Any], element: str) -> NDArray[Any]:
    """B [k, n] as the native core takes it: as `pack_a` of its transpose."""
    return pack_a(np.ascontiguousarray(bits.T), element)


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def lane_op(
    name: str,
    modifiers: int,
    active: int,
    sources: Sequence[NDArray[Any]],
    d: NDArray[Any],
    d2: NDArray[Any] | None = None,
    *,
    registers: int = 1,
    isa: str | None = None,
) -> None:
    """Run one lane operation: `sources`, `d` and `d2` hold 32 lanes (predicates: one uint32 mask).

    With `registers` it runs that many times, on arrays of as many times 32 lanes. `d` and `d2` must be C-contiguous;
    they are changed in place in the lanes of `active`.
    """
    outputs = [None if out is None else out.reshape(-1).view(np.uint8) for out in (d, d2)]
    inputs = [_bytes(source) for source in sources]
    engine(isa).lane_op(name, modifiers, active, inputs, outputs[0], outputs[1], registers)


_ELEMENT_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "f32": 4, "f64": 8, "s32": 4}
_ELEMENT_BITS = {"s4": 4, "u4": 4, "b1": 1}


def _operand_bytes(element: str, rows: int, columns: int) -> int:
    return rows * columns * _ELEMENT_BITS.get(element, 8 * _ELEMENT_BYTES.get(element, 1)) // 8


def mma(
    rule: MmaRule, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], *, reference: bool = False, isa: str | None = None
) -> NDArray[np.uint8]:
    """D = A·B + C of one tile, operands and result packed as in `tensor_core.hpp`, as bytes.

    `a`: m lines of k elements; `b`: n lines (columns of B) of k elements; `c`: m lines of n elements.

    Raises:
        ValueError: an operand has the wrong size.
    """
    sizes = [
        _operand_bytes(rule.a, rule.m, rule.k),
        _operand_bytes(rule.b, rule.n, rule.k),
        _operand_bytes(rule.c, rule.m, rule.n),
    ]
    operands = [_bytes(operand) for operand in (a, b, c)]
    for name, operand, size in zip("abc", operands, sizes, strict=True):
        if operand.size != size:
            raise ValueError(f"operand {name} has {operand.size} bytes, not {size}")
    d = np.zeros(_operand_bytes(rule.d, rule.m, rule.n), np.uint8)
    engine(isa).mma(rule, *operands, d, reference)
    return d


def from_registers(map_: FragmentMap, words: NDArray[Any]) -> NDArray[Any]:
    """Elements [n, 32, elements] of registers [n, registers, 32]."""
    shifts = np.arange(map_.per_register, dtype=np.uint64) * np.uint64(map_.element_bits)
    mask = np.uint64(2**map_.element_bits - 1)
    split = (words.astype(np.uint64).transpose(0, 2, 1)[..., None] >> shifts) & mask
    return split.reshape(len(words), 32, map_.elements)
