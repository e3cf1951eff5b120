"""Which lane holds which element, and which shapes and types an architecture has."""

from __future__ import annotations

from wmmadiag.fragments.map import ELEMENT_BITS, FragmentMap
from wmmadiag.fragments.memory_access import FragmentAccess, memory_access
from wmmadiag.fragments.mma import ldmatrix_map, mma_map
from wmmadiag.fragments.wmma import wmma_map, wmma_shapes

__all__ = [
    "ELEMENT_BITS",
    "FragmentAccess",
    "FragmentMap",
    "ldmatrix_map",
    "memory_access",
    "mma_map",
    "registers",
    "wmma_map",
    "wmma_shapes",
]


def registers(instruction: str, shape: str, matrix: str, type: str, arch: str = "sm_80") -> int:
    """Registers of one lane's fragment ("wmma" or "mma"); 64-bit registers for f64, else 32-bit.

    Raises:
        UnsupportedError: no such fragment.
    """
    if instruction == "wmma":
        return wmma_map(shape, matrix, type, arch).registers
    return mma_map(shape, matrix, type, "row" if shape == "m8n8k4" and type != "f64" else "").registers
