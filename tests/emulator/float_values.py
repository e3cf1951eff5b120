"""Exact arithmetic on floats: formats decoded to fractions and rounded back, in Python only.

A value is a `Fraction`, or "nan", "+inf", "-inf"; the sign of a zero is kept apart by the caller where it matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from lane_registers import Array, combinations, random_bits

Value = Fraction | Literal["nan", "+inf", "-inf"]


@dataclass(frozen=True)
class Format:
    """A binary format. `nan`: canonical NaN bits; formats without infinity overflow to `top`, the largest magnitude."""

    exponent: int
    mantissa: int
    nan: int
    infinity: bool = True
    top: int = 0

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def inf(self) -> int:
        return ((1 << self.exponent) - 1) << self.mantissa

    @property
    def largest(self) -> int:
        return self.top or self.inf - 1

    @property
    def smallest_normal(self) -> Fraction:
        return power(1 - self.bias)

    @property
    def one(self) -> int:
        return self.bias << self.mantissa

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(f"u{max(self.bits, 16) // 8}")


FORMATS = {
    "f16": Format(5, 10, 0x7FFF),
    "bf16": Format(8, 7, 0x7FFF),
    "f32": Format(8, 23, 0x7FFFFFFF),
    "f64": Format(11, 52, 0xFFF8000000000000),
    "tf32": Format(8, 10, 0x3FFFF),
    "e4m3": Format(4, 3, 0x7F, False, 0x7E),
    "e5m2": Format(5, 2, 0x7F),
    "e2m3": Format(2, 3, 0x1F, False, 0x1F),
    "e3m2": Format(3, 2, 0x1F, False, 0x1F),
    "e2m1": Format(2, 1, 0x7, False, 0x7),
}


def power(exponent: int) -> Fraction:
    return Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent)


def is_negative(bits: int, form: Format) -> bool:
    return bool(bits >> (form.bits - 1) & 1)


def decode(bits: int, form: Format) -> Value:
    sign = -1 if is_negative(bits, form) else 1
    magnitude = bits & ((1 << (form.bits - 1)) - 1)
    if magnitude > form.largest:
        return ("+inf" if sign > 0 else "-inf") if form.infinity and magnitude == form.inf else "nan"
    field, fraction = magnitude >> form.mantissa, magnitude & ((1 << form.mantissa) - 1)
    significand = fraction + ((1 << form.mantissa) if field else 0)
    return sign * significand * power(max(field, 1) - form.bias - form.mantissa)


def floor_log2(value: Fraction) -> int:
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if value >= power(exponent) else exponent - 1


def round_integer(value: Fraction, mode: str) -> int:
    """To an integer: modes rn, rz, rm, rp, rna and their integer names rni, …"""
    low = math.floor(value)
    rest = value - low
    if mode in ("rm", "rmi"):
        return low
    if mode in ("rp", "rpi"):
        return math.ceil(value)
    if mode in ("rz", "rzi"):
        return math.trunc(value)
    if rest == Fraction(1, 2):
        return low + (value > 0) if mode == "rna" else low + (low & 1)
    return low + (rest > Fraction(1, 2))


def round_unbounded(value: Fraction, form: Format, mode: str) -> Fraction:
    """To the format's precision, with no limit of the exponent."""
    if value == 0:
        return value
    step = power(floor_log2(abs(value)) - form.mantissa)
    return round_integer(value / step, mode) * step


def encode(value: Value, form: Format, mode: str = "rn", *, negative_zero: bool = False, finite: bool = False) -> int:
    """Rounded once. `finite`: overflow and infinities give the largest finite value (.satfinite)."""
    if value == "nan":
        return form.nan
    top = form.largest if finite or not form.infinity else form.inf
    if isinstance(value, str):
        return top | (1 << (form.bits - 1) if value == "-inf" else 0)
    sign = (1 << (form.bits - 1)) if value < 0 or (value == 0 and negative_zero) else 0
    step = power(max(floor_log2(abs(value)) if value else 0, 1 - form.bias) - form.mantissa) if value else Fraction(1)
    rounded = abs(round_integer(value / step, mode)) * step
    if rounded == 0:
        return sign
    exponent = max(floor_log2(rounded), 1 - form.bias)
    significand = int(rounded / power(exponent - form.mantissa))
    bits = ((exponent + form.bias - 1) << form.mantissa) + significand
    if bits > form.largest:
        away = mode in ("rn", "rna") or (mode == "rp" and value > 0) or (mode == "rm" and value < 0)
        bits = top if away else form.largest
    return sign | bits


def flushed(bits: int, form: Format) -> int:
    """A subnormal as the zero of its sign."""
    return bits & (1 << (form.bits - 1)) if bits & form.inf == 0 else bits


def specials(form: Format) -> list[int]:
    """Bits of zeros, subnormals, extremes, infinities, NaNs and plain values, both signs."""
    top = 1 << form.mantissa
    positive = [
        *(0, 1, top - 1, top, top + 1, form.one, form.one + 1, form.one - 1, form.one + top // 2, form.one + top),
        *((form.bias + 5) << form.mantissa, form.inf - 1, form.inf, form.inf + 1, form.inf + top // 2 + 5),
    ]
    return [*positive, *(value | 1 << (form.bits - 1) for value in positive)]


def operands(form: Format, count: int, *, seed: int = 0, size: int = 512) -> list[Array]:
    """Bit patterns: tuples of special values, random bits, and values close to each other."""
    special = combinations(specials(form), count, form.dtype, limit=size, seed=seed)
    rng = np.random.default_rng(seed)
    near = (rng.integers(-20, 21, (count, size)) << (form.mantissa - 1)) + (
        form.one + rng.integers(0, 64, (count, size))
    )
    signs = rng.integers(0, 2, (count, size)).astype(np.uint64) << np.uint64(form.bits - 1)
    close = (near.astype(np.uint64) | signs).astype(form.dtype)
    return [
        np.concatenate([array, random_bits(size, form.dtype, seed + 100 + k), close[k]])
        for k, array in enumerate(special)
    ]
