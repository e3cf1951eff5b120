"""Integer operands that matter, and two's complement in Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
from lane_registers import Array, combinations, random_bits

TYPES = {
    f"{kind}{width}": np.dtype(f"{letter}{width // 8}")
    for kind, letter in (("u", "u"), ("s", "i"))
    for width in (16, 32, 64)
}


def width_of(type_name: str) -> int:
    return int(type_name[1:])


def wrap(value: int, type_name: str) -> int:
    """`value` reduced to the type."""
    width = width_of(type_name)
    value &= (1 << width) - 1
    return value - (1 << width) if type_name[0] == "s" and value >> (width - 1) else value


def limits(type_name: str) -> tuple[int, int]:
    width = width_of(type_name)
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if type_name[0] == "s" else (0, (1 << width) - 1)


def clamp(value: int, type_name: str) -> int:
    low, high = limits(type_name)
    return min(max(value, low), high)


def specials(width: int) -> list[int]:
    half = 1 << (width - 1)
    small = [0, 1, 2, 3, 7, 31, 32, 33, 100, 255]
    return [*small, half - 1, half, half + 1, 2 * half - 1, 2 * half - 2, 0x5A5A5A5A5A5A5A5A]


def operands(type_name: str, count: int, *, seed: int = 0) -> list[Array]:
    """Tuples of special values, then random ones, one array per operand."""
    dtype: Any = TYPES[type_name]
    special = combinations(specials(width_of(type_name)), count, dtype, limit=512, seed=seed)
    return [np.concatenate([array, random_bits(128, dtype, seed + k + 1)]) for k, array in enumerate(special)]
