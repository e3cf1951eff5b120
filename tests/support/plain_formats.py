"""Number formats of tensor cores: encoding, decoding, rounding, ulp. All vectorised over NumPy arrays.

Sources: IEEE 754-2019 for f16, f32, f64; PTX ISA 9.0, "Alternate Floating-Point Data Formats" for bf16, tf32, e4m3,
e5m2, e3m2, e2m3, e2m1; OCP "8-bit Floating Point Specification" and "Microscaling Formats" for the special values of
the last five.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmmadiag.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes:
        name: as in PTX.
        exponent_bits, fraction_bits: widths of the fields; the sign has one more bit.
        storage_bits: bits of the integer that holds it (tf32: 32, with 13 low bits that count as zero).
        has_infinity: the all-ones exponent is Inf or NaN, as in IEEE 754.
        has_nan: there is a NaN (e4m3: only the code with all ones).
    """

    name: str
    exponent_bits: int
    fraction_bits: int
    storage_bits: int
    has_infinity: bool = True
    has_nan: bool = True

    @property
    def bias(self) -> int:
        """Exponent bias."""
        return int(2 ** (self.exponent_bits - 1)) - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number, and of the subnormals."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite number."""
        return int(2**self.exponent_bits) - 1 - self.bias - (1 if self.has_infinity else 0)

    @property
    def padding(self) -> int:
        """Low storage bits that hold nothing."""
        return 13 if self.name == "tf32" else 0

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Unsigned integer dtype of the bits."""
        return np.dtype(f"u{max(8, self.storage_bits) // 8}")


FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("f16", 5, 10, 16),
        Format("bf16", 8, 7, 16),
        Format("tf32", 8, 10, 32),
        Format("f32", 8, 23, 32),
        Format("f64", 11, 52, 64),
        Format("e4m3", 4, 3, 8, has_infinity=False),
        Format("e5m2", 5, 2, 8),
        Format("e3m2", 3, 2, 8, has_infinity=False, has_nan=False),
        Format("e2m3", 2, 3, 8, has_infinity=False, has_nan=False),
        Format("e2m1", 2, 1, 8, has_infinity=False, has_nan=False),
    )
}
"""Every format, by PTX name."""


def format_of(name: str) -> Format:
    """The format of that name.

    Raises:
        ConfigurationError: there is none.
    """
    if name not in FORMATS:
        raise ConfigurationError(f"unknown number format {name!r}", hint=f"known are {', '.join(FORMATS)}")
    return FORMATS[name]


def unit_roundoff(name: str) -> float:
    """Unit roundoff u = 2^-(p+1), p fraction bits: |round(x) - x| ≤ u·|x| for normal x, to nearest (Higham 2002)."""
    return float(2.0 ** -(format_of(name).fraction_bits + 1))


def smallest_subnormal(name: str) -> float:
    """The smallest positive number, 2^(e_min - p)."""
    form = format_of(name)
    return float(2.0 ** (form.min_exponent - form.fraction_bits))


def smallest_normal(name: str) -> float:
    """The smallest positive normal number, 2^e_min."""
    return float(2.0 ** format_of(name).min_exponent)


def largest_finite(name: str) -> float:
    """The largest finite number."""
    form = format_of(name)
    # e4m3 gives its largest fraction of the last binade to NaN.
    steps = 2**form.fraction_bits - (2 if form.has_nan and not form.has_infinity else 1)
    return float((1.0 + steps * 2.0**-form.fraction_bits) * 2.0**form.max_exponent)


def decode(bits: ArrayLike, name: str) -> NDArray[np.float64]:
    """The values of bit patterns; every format's values are exact in float64.

    Args:
        bits: unsigned integers, any shape; bits above the format's width are ignored.
        name: format.

    Returns:
        float64 array of the same shape; NaN for every NaN.
    """
    form = format_of(name)
    words = np.asarray(bits).astype(np.uint64)
    if name == "f64":
        return np.asarray(words.view(np.float64))
    words = words >> np.uint64(form.padding)
    fraction = words & np.uint64(2**form.fraction_bits - 1)
    biased = (words >> np.uint64(form.fraction_bits)) & np.uint64(2**form.exponent_bits - 1)
    negative = (words >> np.uint64(form.fraction_bits + form.exponent_bits)) & np.uint64(1)
    implicit = np.where(biased != 0, 2.0**form.fraction_bits, 0.0)
    exponent = np.maximum(biased, 1).astype(np.int32) - (form.bias + form.fraction_bits)
    value = np.ldexp(fraction.astype(np.float64) + implicit, exponent)
    top = biased == 2**form.exponent_bits - 1
    if form.has_infinity:
        value = np.where(top, np.where(fraction == 0, np.inf, np.nan), value)
    elif form.has_nan:
        value = np.where(top & (fraction == 2**form.fraction_bits - 1), np.nan, value)
    return np.asarray(np.where(negative == 1, -value, value))


def round_to(x: ArrayLike, name: str, mode: str = "rn") -> NDArray[np.float64]:
    """Round float64 values to a format, as values.

    Args:
        x: float64, any shape.
        name: format.
        mode: "rn" to nearest even, "rna" to nearest with ties away from zero (tf32's `cvt.rna`), "rz" toward zero.

    Returns:
        float64 array of the same shape. Signs of zero are kept. Where the format has Inf, too large a value becomes
        Inf ("rz": the largest finite); where it has none, the largest finite, as `cvt.satfinite` does. NaN stays NaN,
        but becomes the largest finite in formats without NaN (as `cvt.rn.satfinite` to e3m2, e2m3, e2m1).
    """
    form = format_of(name)
    value = np.asarray(x, dtype=np.float64)
    if mode not in ("rn", "rna", "rz"):
        raise ConfigurationError(f"unknown rounding mode {mode!r}", hint="rn, rna and rz are known")
    if name == "f64":
        return value.copy()
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        quantum = _binade(value, form) - form.fraction_bits
        scaled = np.ldexp(value, -quantum)
        if mode == "rn":
            whole = np.rint(scaled)
        elif mode == "rz":
            whole = np.trunc(scaled)
        else:
            whole = np.copysign(np.floor(np.abs(scaled) + 0.5), scaled)
        rounded = np.where(np.isfinite(value), np.ldexp(whole, quantum), value)
    largest = largest_finite(name)
    beyond = np.abs(rounded) > largest
    if form.has_infinity:
        limit = np.where((mode == "rz") & np.isfinite(value), largest, np.inf)
    else:
        limit = np.full_like(rounded, largest)
    rounded = np.where(beyond, np.copysign(limit, rounded), rounded)
    if not form.has_nan:
        rounded = np.where(np.isnan(rounded), largest, rounded)
    return np.asarray(rounded)


def encode(x: ArrayLike, name: str, mode: str = "rn") -> NDArray[np.unsignedinteger]:
    """Bit patterns of values, rounded to the format as by `round_to`.

    Returns:
        Array of the format's unsigned dtype and x's shape. NaN becomes the canonical pattern: positive, all ones
        (0x7FFF, 0x7FFFFFFF, 0x7F), as NVIDIA GPUs produce it (f64: 0x7FFFFFFFFFFFFFFF).
    """
    form = format_of(name)
    value = round_to(x, name, mode)
    sign = np.where(np.signbit(value) & ~np.isnan(value), np.uint64(1), np.uint64(0))
    magnitude = np.abs(value)
    top = np.uint64(2**form.exponent_bits - 1)
    finite = np.where(np.isfinite(magnitude), magnitude, 0.0)
    exponent = _binade(finite, form)
    whole = np.ldexp(finite, form.fraction_bits - exponent).astype(np.uint64)
    # The implicit bit of a normal number adds one to the exponent field.
    bits = ((exponent - form.min_exponent).astype(np.uint64) << np.uint64(form.fraction_bits)) + whole
    bits = np.where(np.isposinf(magnitude), top << np.uint64(form.fraction_bits), bits)
    ones = np.uint64(2 ** (form.exponent_bits + form.fraction_bits) - 1)
    bits = np.where(np.isnan(magnitude), ones, bits)
    bits = bits | (sign << np.uint64(form.exponent_bits + form.fraction_bits))
    bits = bits << np.uint64(form.padding)
    if form.padding:  # the canonical NaN is that of f32
        bits = np.where(np.isnan(magnitude), np.uint64(0x7FFFFFFF), bits)
    return np.asarray(bits.astype(form.dtype))


def ulp(x: ArrayLike, name: str) -> NDArray[np.float64]:
    """The distance between neighbouring numbers of the format at |x|: 2^(max(⌊log2|x|⌋, e_min) - p).

    Finite also at zero (the smallest subnormal) and beyond the largest finite number (that of the last binade); NaN
    for NaN and Inf.
    """
    form = format_of(name)
    value = np.abs(np.asarray(x, dtype=np.float64))
    exponent = np.minimum(_binade(np.where(np.isfinite(value), value, 1.0), form), form.max_exponent)
    return np.asarray(np.where(np.isfinite(value), np.ldexp(1.0, exponent - form.fraction_bits), np.nan))


def ulp_distance(x: ArrayLike, y: ArrayLike, name: str) -> NDArray[np.float64]:
    """How many numbers of the format lie between x and y: the difference of their ordinals.

    Args:
        x, y: float64 arrays of numbers of the format (others are rounded first), broadcast together.

    Returns:
        float64 ≥ 0 (exact up to 2^53); NaN where one of them is NaN; -0 and +0 are 0 apart, Inf is one beyond the
        largest finite number.
    """
    one, other = (_ordinal(value, name) for value in np.broadcast_arrays(x, y))
    distance = np.abs(one - other).astype(np.float64)
    either_nan = np.isnan(round_to(x, name)) | np.isnan(round_to(y, name))
    return np.asarray(np.where(either_nan, np.nan, distance))


def _binade(value: NDArray[np.float64], form: Format) -> NDArray[np.int32]:
    """⌊log2|value|⌋, but at least the format's smallest exponent; that for zero, too."""
    _, exponent = np.frexp(value)  # |value| in [2^(exponent-1), 2^exponent); 0 for zero
    return np.asarray(np.where(value == 0, form.min_exponent, np.maximum(exponent - 1, form.min_exponent)))


def _ordinal(x: ArrayLike, name: str) -> NDArray[np.float64]:
    form = format_of(name)
    bits = encode(x, name).astype(np.uint64) >> np.uint64(form.padding)
    sign_at = np.uint64(form.exponent_bits + form.fraction_bits)
    magnitude = bits & ((np.uint64(1) << sign_at) - np.uint64(1))
    negative = (bits >> sign_at) == 1
    return np.asarray(np.where(negative, -1.0, 1.0) * magnitude.astype(np.float64))
