"""Random and hard operands of tensor-core instructions, as bit patterns."""

from __future__ import annotations

from typing import Any

import numpy as np

Bits = np.ndarray[Any, Any]

# (exponent bits, fraction bits) of the operand formats
FIELDS = {
    "f16": (5, 10), "bf16": (8, 7), "tf32": (8, 10), "f32": (8, 23), "f64": (11, 52),
    "e4m3": (4, 3), "e5m2": (5, 2), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1),
}  # fmt: skip
INTEGER_BITS = {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "s32": 32}
SMALL = ("e3m2", "e2m3", "e2m1")
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
BYTES = {"f64": 8, "f32": 4, "tf32": 4, "s32": 4, "f16": 2, "bf16": 2}

CASES = ("spread", "tiny", "special", "cancel", "any")
"""spread: over 2^-14 … 2^8; tiny: near the subnormals, half of C zero; special: with Inf, NaN and largest numbers;
cancel: ±0 and ±1 only, so that sums are often zero; any: all codes alike (integers: C at the ends of s32)."""


def bits_of(rng: np.random.Generator, shape: tuple[int, ...], name: str, case: str) -> Bits:
    """Random bit patterns of a type, one element in each unsigned integer."""
    dtype = DTYPES[BYTES.get(name, 1)]
    if name in INTEGER_BITS:
        codes = rng.integers(0, 2 ** INTEGER_BITS[name], shape, dtype=np.uint64)
        if name == "s32" and case == "any":
            codes = np.uint64(0x7FFFFFF0) + rng.integers(0, 32, shape, dtype=np.uint64)
        elif name == "s32":
            codes = codes >> np.uint64(12)
        return codes.astype(dtype)
    exponent_bits, fraction_bits = FIELDS[name]
    top = 2**exponent_bits - 1
    bias = top // 2
    sign = rng.integers(0, 2, shape).astype(np.uint64)
    if case == "cancel":
        magnitude = np.where(rng.random(shape) < 0.5, 0, bias << fraction_bits).astype(np.uint64)
    else:
        low, high = {
            "spread": (max(0, bias - 14), min(top - 1, bias + 8)),
            "tiny": (0, min(top - 1, 6)),
            "special": (max(0, bias - 3), min(top - 1, bias + 3)),
            "any": (0, top),
        }[case]
        exponent = rng.integers(low, high, shape, endpoint=True).astype(np.uint64)
        fraction = rng.integers(0, 2**fraction_bits, shape, dtype=np.uint64)
        magnitude = exponent << np.uint64(fraction_bits) | fraction
        magnitude[rng.random(shape) < 0.05] = 0
    if case == "special" and name not in SMALL:
        odd = rng.random(shape)
        magnitude[odd < 0.01] = top << fraction_bits  # Inf, in e4m3 an ordinary number
        magnitude[odd < 0.003] = (top << fraction_bits) + 2**fraction_bits - 1  # NaN
        magnitude[odd > 0.99] = (top << fraction_bits) - 1  # largest of the binade below
    bits = magnitude | sign << np.uint64(exponent_bits + fraction_bits)
    if name == "tf32":
        bits = bits << np.uint64(13) | rng.integers(0, 2**13, shape, dtype=np.uint64)  # low bits must not count
    return bits.astype(dtype)


def operands(
    rng: np.random.Generator,
    mnk: tuple[int, int, int],
    types: tuple[str, str, str],
    case: str,
    many: tuple[int, ...] = (),
) -> tuple[Bits, Bits, Bits]:
    """A [*many, m, k], B [*many, k, n] and C [*many, m, n]."""
    m, n, k = mnk
    a, b, c = (bits_of(rng, (*many, *s), t, case) for s, t in zip(((m, k), (k, n), (m, n)), types, strict=True))
    if case == "tiny":
        c[..., : m // 2, :] = 0
    return a, b, c
