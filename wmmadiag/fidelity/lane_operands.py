"""Operands of lane operations, as bit patterns: corner cases and random ones."""

from __future__ import annotations

import numpy as np

from wmmadiag.fidelity.cases import Array
from wmmadiag.ptx.ir import OperandSpec
from wmmadiag.ptx.types import CLASSES, WIDTHS

_FORMATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
# Operands that count bits: most values should be in range, some beyond.
_COUNTS = ("shl", "shr", "shf", "bfe", "bfi", "szext", "bmsk", "fns")


def drawing(key: str, seed: int = 0) -> np.random.Generator:
    """Random numbers of a case; seed 0 is what the committed records were made with."""
    return np.random.default_rng([*key.encode(), *([seed] if seed else [])])


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


def related(rng: np.random.Generator, array: Array, first: Array, type_name: str) -> None:
    """Make some elements equal to the first operand's, some its negation: equality and cancellation."""
    kind = rng.random(len(array))
    array[kind < 0.1] = first[kind < 0.1]
    if CLASSES[type_name] == "float":
        halves = 0x80008000 if type_name.endswith("x2") else 1 << (8 * array.itemsize - 1)
        negated = (kind > 0.1) & (kind < 0.15)
        array[negated] = first[negated] ^ array.dtype.type(halves)
