"""Matrices as the native core takes them: rows of A and columns of B, packed along k as in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

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
