"""Tensor-core sums in plain Python: the definition, word for word, in exact arithmetic. Slow; for tests."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from native_parts import matrix_dtype
from numpy.typing import NDArray
from plain_formats import decode, encode, format_of

from wmmadiag.numerics.tensor_core import MmaRule

_NAN = {"f16": 0x7FFF, "f32": 0x7FFFFFFF}


def reference_mma(rule: MmaRule, a: NDArray[Any], b: NDArray[Any], c: NDArray[Any]) -> NDArray[Any]:
    """D = A·B + C in bits, as the rule says.

    Args:
        rule: the instruction's rule.
        a: [m, k] bit patterns, one element each (as `operands.pack_a` takes them).
        b: [k, n] likewise.
        c: [m, n] bit patterns of rule.c.

    Returns:
        [m, n] bit patterns of rule.d, dtype `operands.matrix_dtype(rule.d)`.
    """
    out = np.zeros((rule.m, rule.n), dtype=matrix_dtype(rule.d))
    for i in range(rule.m):
        for j in range(rule.n):
            out[i, j] = _output(rule, [int(x) for x in a[i]], [int(y) for y in b[:, j]], int(c[i, j]))
    return out


def _output(rule: MmaRule, a: list[int], b: list[int], c: int) -> int:
    if rule.d == "s32":
        return _integer(rule, a, b, c)
    if rule.d == "f64":
        return _fma64(a, b, c)
    half_sum = rule.c == rule.d == "f16" and not rule.software
    # mma.m8n8k4 in hardware (sm_70, sm_75) takes an f16 C as it is; elsewhere ptxas widens it to f32 first.
    half_addend = half_sum or (rule.c == "f16" and rule.k == 4 and not rule.software)
    if rule.c == "f16" and not half_addend:
        c = _convert(c, "f16", "f32")
    if rule.software:
        c = _software(a, b, c, pairs=rule.d == "f16")
    else:
        kind = "f16" if half_sum else "f32"
        addend = c
        if rule.widen:  # the first two elements of each register of four, then the last two; from 0
            order = sorted(range(rule.k), key=lambda p: p % 4 >= 2)
            a, b, c = [a[p] for p in order], [b[p] for p in order], 0
        for begin in range(0, rule.k, rule.step):
            end = begin + rule.step
            addend_kind = "f16" if begin == 0 and half_addend else kind
            c = fused_step(rule, a[begin:end], b[begin:end], c, kind, addend_kind)
        if rule.widen:
            x, y = (float(decode(np.array([bits]), kind)[0]) for bits in (c, addend))
            c = int(encode(np.array(_fused(1.0, x, y, kind)), kind))
    return _convert(c, "f32", "f16") if rule.d == "f16" and not half_sum else c


def fused_step(rule: MmaRule, a: list[int], b: list[int], c: int, kind: str, addend_kind: str = "") -> int:
    """One fused sum of up to `rule.step` products and C; bits in, bits out.

    Args:
        rule: the instruction's rule.
        a, b: the step's operands.
        c: bits of type `addend_kind`.
        kind: type of the result, "f16" or "f32".
        addend_kind: type of C; `kind` if empty.
    """
    addend_kind = addend_kind or kind
    xs = [float(x) for x in decode(np.array(a), rule.a)]
    ys = [float(y) for y in decode(np.array(b), rule.b)]
    z = float(decode(np.array([c]), addend_kind)[0])
    with np.errstate(invalid="ignore"):
        specials = [float(np.float64(x) * np.float64(y)) for x, y in zip(xs, ys, strict=True)]
    # Products of finite operands are finite in float64 (|x| < 2^129), so Inf and NaN show who is special.
    if any(v != v for v in specials) or z != z:
        return _NAN[kind]
    infinite = {v for v in [*specials, z] if v in (np.inf, -np.inf)}
    if len(infinite) == 2:
        return _NAN[kind]
    if infinite:
        return int(encode(np.array(infinite.pop()), kind))

    terms = [(Fraction(x) * Fraction(y), _exponent(rule, x, rule.a) + _exponent(rule, y, rule.b))
             for x, y in zip(xs, ys, strict=True)]  # fmt: skip
    terms.append((Fraction(z), _exponent(rule, z, addend_kind)))
    terms = [(value, exponent if value else rule.zero_exponent) for value, exponent in terms]
    unit = Fraction(2) ** (max(exponent for _, exponent in terms) - rule.fraction_bits)
    total = sum((int(value / unit) * unit for value, _ in terms), Fraction(0))  # int() truncates toward zero
    return _round(total, kind, rule.result_bits)


def _exponent(rule: MmaRule, value: float, name: str) -> int:
    """Exponent with the significand in [1, 2), or below 1 for a subnormal."""
    if rule.widen and name in ("e4m3", "e5m2"):
        name = "f16"
    least = format_of(name).min_exponent
    return max(int(np.frexp(value)[1]) - 1, least) if value else least


def _round(total: Fraction, kind: str, result_bits: int) -> int:
    """f32: toward zero to `result_bits` bits, Inf on overflow; f16: to nearest even. A zero result is +0."""
    if total == 0:
        return 0
    form = format_of(kind)
    bits = result_bits if kind == "f32" else form.fraction_bits
    exponent = _floor_log2(abs(total))
    quantum = Fraction(2) ** (max(exponent, form.min_exponent) - bits)
    whole = int(abs(total) / quantum) if kind == "f32" else round(abs(total) / quantum)  # round() is to even
    value = whole * quantum
    if value == 0:
        return 0
    if value >= Fraction(2) ** (form.max_exponent + 1):
        return int(encode(np.array(np.inf if total > 0 else -np.inf), kind))
    return int(encode(np.array(float(value if total > 0 else -value)), kind))


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _convert(bits: int, source: str, target: str) -> int:
    return int(encode(decode(np.array([bits]), source), target)[0])


def _software(a: list[int], b: list[int], c: int, pairs: bool) -> int:
    """f32 multiply-adds, each rounded to nearest even: a chain from +0 over k, then + C; or C + pair + pair."""
    products = list(zip(map(float, decode(np.array(a), "f16")), map(float, decode(np.array(b), "f16")), strict=True))
    total = float(decode(np.array([c]), "f32")[0])
    for group in zip(products[::2], products[1::2], strict=True) if pairs else (products,):
        part = -0.0 if pairs else 0.0
        for x, y in group:
            part = _fused(x, y, part, "f32")
        total = _fused(1.0, part, total, "f32")
    return int(encode(np.array(total), "f32"))


def _fma64(a: list[int], b: list[int], c: int) -> int:
    """f64 multiply-adds from C over k; a NaN of b, else the sum, else a is handed on, quieted (seen on an H200)."""
    bits = c
    for x, y in zip(a, b, strict=True):
        values = [float(v) for v in decode(np.array([x, y, bits], dtype=np.uint64), "f64")]
        nan = next((code for code, v in ((y, values[1]), (bits, values[2]), (x, values[0])) if v != v), None)
        if nan is not None:
            bits = nan | 1 << 51
            continue
        total = _fused(values[0], values[1], values[2], "f64")
        bits = 0xFFF8000000000000 if total != total else int(np.float64(total).view(np.uint64))
    return bits


def _fused(x: float, y: float, z: float, name: str) -> float:
    """x·y + z, rounded once to nearest even in f32 or f64."""
    if not np.isfinite(z) and np.isfinite(x) and np.isfinite(y):
        return z  # the product is finite, whether or not float64 can hold it
    if not all(np.isfinite(v) for v in (x, y, z)):
        with np.errstate(invalid="ignore", over="ignore"):
            return float(np.float64(x) * np.float64(y) + np.float64(z))
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    if exact == 0:  # IEEE 754: -0 only if both addends are
        negative_product = np.signbit(x) != np.signbit(y)
        return -0.0 if np.signbit(z) and negative_product and (x == 0 or y == 0) else 0.0
    form = format_of(name)
    quantum = Fraction(2) ** (max(_floor_log2(abs(exact)), form.min_exponent) - form.fraction_bits)
    value = round(exact / quantum) * quantum
    if abs(value) >= Fraction(2) ** (form.max_exponent + 1):
        return float(np.copysign(np.inf, 1.0 if exact > 0 else -1.0))
    return float(value) if value else float(np.copysign(0.0, 1.0 if exact > 0 else -1.0))


def _integer(rule: MmaRule, a: list[int], b: list[int], c: int) -> int:
    def signed(bits: int, name: str) -> int:
        width = int(name[1:])
        bits &= 2**width - 1
        return bits - 2**width if name[0] == "s" and bits >> (width - 1) else bits

    if rule.bit_op:
        pairs = ((x & y if rule.bit_op == "and_popc" else x ^ y) for x, y in zip(a, b, strict=True))
        total = sum(pairs) + c
    else:
        products = (signed(x, rule.a) * signed(y, rule.b) for x, y in zip(a, b, strict=True))
        total = sum(products) + signed(c, "s32")
    if rule.satfinite:
        total = min(max(total, -(2**31)), 2**31 - 1)
    return total % 2**32
