"""Every .approx and .full instruction, the arguments it is tried on, and how its results are summed up.

A digest is the sum, modulo 2⁶⁴, of a hash of (number of the argument, result) over a block of 2²³ arguments, so it can
be computed in any order, on a GPU too. For f32 the arguments are all 2³² bit patterns, and a block is one sign and
exponent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
BLOCK = 1 << 23
"""Arguments of one digest."""
U64 = np.uint64


@dataclass(frozen=True)
class Approximation:
    """An instruction, as PTX writes it and as the engine names it, and the kind of its arguments.

    kind: f32: all bit patterns; f64: all upper halves, with some lower half; f16, bf16: all; f16x2, bf16x2: all, each
    with another in the upper half; pair: two f32, f64 whole: pseudorandom (`pairs`, `wholes`).
    """

    text: str
    kind: str
    op: str
    ftz: bool

    @property
    def blocks(self) -> int:
        return 512 if self.kind in ("f32", "f64") else 1

    @property
    def count(self) -> int:
        """Arguments of one block."""
        return {"f32": BLOCK, "f64": BLOCK, "pair": 1 << 17, "whole": 1 << 17}.get(self.kind, 1 << 16)


def _approximation(text: str, kind: str | None = None) -> Approximation:
    *parts, type_name = text.split(".")
    op = ".".join([part for part in parts if part != "ftz"] + [type_name])
    return Approximation(text, kind or type_name, op, "ftz" in parts)


APPROXIMATIONS = [
    *(_approximation(f"{name}.approx{ftz}.f32") for name in ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos")
      for ftz in (".ftz", "")),
    _approximation("tanh.approx.f32"),
    *(_approximation(f"{name}.{type_name}")
      for type_name in ("f16", "f16x2") for name in ("ex2.approx", "tanh.approx")),
    *(_approximation(f"{name}.{type_name}")
      for type_name in ("bf16", "bf16x2") for name in ("ex2.approx.ftz", "tanh.approx")),
    *(_approximation(f"div.{form}.f32", "pair") for form in ("approx", "approx.ftz", "full", "full.ftz")),
    _approximation("rcp.approx.ftz.f64"),
    _approximation("rsqrt.approx.ftz.f64"),
    _approximation("rsqrt.approx.f64", "whole"),
]  # fmt: skip
BY_TEXT = {one.text: one for one in APPROXIMATIONS}


def mix(result: Array, number: Array) -> Array:
    """A 64-bit hash of each result and the number of its argument."""
    word = result.astype(U64)
    word *= U64(0x9E3779B97F4A7C15)
    word += number * U64(0xD1342543DE82EF95)
    word ^= word >> U64(32)
    word *= U64(0xD6E8FEB86659FD93)
    return word


def digest(results: Array, first: int) -> int:
    """Of the results for the arguments from number `first` on."""
    return int(mix(results, np.arange(first, first + len(results), dtype=U64)).sum(dtype=U64))


def _random(number: Array, stream: int) -> Array:
    word = mix(number, np.full(len(number), stream + 0x1234567, U64))
    word ^= word >> U64(29)
    return ((word * U64(0xBF58476D1CE4E5B9)) >> U64(32)).astype(np.uint32)


SPECIAL_32 = np.array(
    [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001, 1, 0x80000001, 0x7FFFFF, 0x807FFFFF, 0x800000,
     0x80800000, 0x400000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x7E800000, 0x7E800001, 0xFE800000,
     0x7F000000, 0x7EFFFFFF, 0x7E7FFFFF, 0x40490FDB, 0x34000000, 0x00FFFFFF, 0x01000000, 0x0C000000, 0x73000000,
     0x200000, 0x1FFFFF, 0x3EAAAAAB], np.uint32)  # fmt: skip
SPECIAL_64 = np.array(
    [0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF8 << 48, 0x7FF0000000000001, 0xFFF8 << 48, 1, 0xFFFFFFFFFFFFF, 1 << 52,
     0x7FEFFFFFFFFFFFFF, 0x8000000000000001, 0xBFF << 52, 0x3FF << 52, 0x400 << 52, 0x401 << 52], U64)  # fmt: skip


def pairs(number: Array) -> tuple[Array, Array]:
    """Dividend and divisor: any bits; moderate exponents; divisors near both ends of the range; special values."""
    a, b = _random(number, 1), _random(number, 2)
    part = number >> U64(15)
    keep, r3, r4, r5 = np.uint32(0x807FFFFF), _random(number, 3), _random(number, 4), _random(number, 5)
    a = np.where(part == 1, (a & keep) | ((100 + r3 % 56) << 23), a)
    b = np.where(part == 1, (b & keep) | ((100 + r4 % 56) << 23), b)
    a = np.where(part == 2, (a & keep) | ((r3 % 256) << 23), a)
    ends = np.where((r4 & 1).astype(bool), r5 % 4, 251 + r5 % 5)
    b = np.where(part == 2, (b & keep) | (ends << 23), b)
    special = (number & U64(31)).astype(int), (number >> U64(5) & U64(31)).astype(int)
    a = np.where((part == 3) & (number & U64(1024) == 0), SPECIAL_32[special[0]], a)
    b = np.where(part == 3, SPECIAL_32[special[1]], b)
    return a.astype(np.uint32), b.astype(np.uint32)


def wholes(number: Array) -> Array:
    """f64: any bits; positive; subnormal; near 1, some with an empty lower half; the first 16 special."""
    x = (_random(number, 1).astype(U64) << U64(32)) | _random(number, 2).astype(U64)
    part, r3, fraction = number >> U64(15), _random(number, 3).astype(U64), U64((1 << 52) - 1)
    x = np.where(part == 1, x & U64((1 << 63) - 1), x)
    x = np.where(part == 2, (x & fraction) >> (r3 % U64(52)), x)
    near = (x & fraction) | ((U64(1000) + r3 % U64(50)) << U64(52))
    near = np.where(number & U64(1) == 1, near & U64(0xFFFFFFFF00000000), near)
    x = np.where(part == 3, near, x)
    return np.where(number < 16, SPECIAL_64[(number & U64(15)).astype(int)], x)


def arguments(one: Approximation, first: int, count: int) -> list[Array]:
    """The operands number `first` to `first + count - 1`, as unsigned words."""
    number = np.arange(first, first + count, dtype=U64)
    if one.kind == "pair":
        return list(pairs(number))
    if one.kind == "whole":
        return [wholes(number)]
    if one.kind == "f64":
        low = (number * U64(0x9E3779B1)) & U64(0xFFFFFFFF)
        return [(number << U64(32)) | low]
    if one.kind.endswith("x2"):
        return [(number | ((number ^ U64(0x5A5A)) << U64(16))).astype(np.uint32)]
    return [number.astype(np.uint32 if one.kind == "f32" else np.uint16)]
