"""f32 and f64 arithmetic in every rounding mode against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from float_values import FORMATS, Format, Value, decode, encode, flushed, is_negative, operands, power, round_unbounded
from lane_registers import padded, run

MODES = ("rn", "rz", "rm", "rp")
F32, F64 = FORMATS["f32"], FORMATS["f64"]


def zero_sign(mode: str, *signs: bool) -> bool:
    """Sign of an exact zero sum of terms with these signs (IEEE 754, 6.3)."""
    return any(signs) if mode == "rm" else all(signs)


def add(a: int, b: int, form: Format, mode: str) -> tuple[Value, bool]:
    """The exact sum and the sign it has if it is zero."""
    x, y = decode(a, form), decode(b, form)
    if "nan" in (x, y) or (isinstance(x, str) and isinstance(y, str) and x != y):
        return "nan", False
    if isinstance(x, str) or isinstance(y, str):
        return (x if isinstance(x, str) else y), False
    return x + y, zero_sign(mode, is_negative(a, form), is_negative(b, form))


def mul(a: int, b: int, form: Format) -> tuple[Value, bool]:
    x, y = decode(a, form), decode(b, form)
    negative = is_negative(a, form) != is_negative(b, form)
    if "nan" in (x, y):
        return "nan", False
    if isinstance(x, str) or isinstance(y, str):
        return ("nan" if x == 0 or y == 0 else "-inf" if negative else "+inf"), negative
    return x * y, negative


def fma(a: int, b: int, c: int, form: Format, mode: str) -> tuple[Value, bool]:
    product, negative = mul(a, b, form)
    z = decode(c, form)
    if "nan" in (product, z) or (isinstance(product, str) and isinstance(z, str) and product != z):
        return "nan", False
    if isinstance(product, str) or isinstance(z, str):
        return (product if isinstance(product, str) else z), False
    return product + z, zero_sign(mode, negative, is_negative(c, form))


def div(a: int, b: int, form: Format) -> tuple[Value, bool]:
    x, y = decode(a, form), decode(b, form)
    negative = is_negative(a, form) != is_negative(b, form)
    infinity: Value = "-inf" if negative else "+inf"
    if "nan" in (x, y) or (isinstance(x, str) and isinstance(y, str)) or (x == 0 and y == 0):
        return "nan", False
    if isinstance(x, str) or y == 0:
        return infinity, negative
    if isinstance(y, str):
        return Fraction(0), negative
    return Fraction(x) / Fraction(y), negative


def finish(result: tuple[Value, bool], form: Format, mode: str, *, ftz: bool = False, sat: bool = False) -> int:
    """Round, flush what is tiny after rounding with an unbounded exponent, saturate."""
    value, negative = result
    if sat and value == "nan":
        return 0
    bits = encode(value, form, mode, negative_zero=negative)
    if ftz and isinstance(value, Fraction) and abs(round_unbounded(value, form, mode)) < form.smallest_normal:
        bits &= 1 << (form.bits - 1)
    return (0 if is_negative(bits, form) else min(bits, form.one)) if sat else bits


def same(got: np.ndarray, expected: list[int], form: Format) -> None:
    """Equal bits; f64 NaNs, which keep a payload, only need to be NaNs (test_f64_nan looks closer)."""
    want = np.array(expected, form.dtype)
    if form is F64:
        both = np.isnan(got.view(np.float64)) & np.isnan(want.view(np.float64))
        want = np.where(both, got, want)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_arithmetic(name: str, mode: str) -> None:
    form = FORMATS[name]
    a, b, c = operands(form, 3, size=256)
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    minus = 1 << (form.bits - 1)
    got = run(f"add.{name}", form.dtype, a, b, rounding=mode)
    same(got, [finish(add(x, y, form, mode), form, mode) for x, y in pairs], form)
    got = run(f"sub.{name}", form.dtype, a, b, rounding=mode)
    same(got, [finish(add(x, y ^ minus, form, mode), form, mode) for x, y in pairs], form)
    got = run(f"mul.{name}", form.dtype, a, b, rounding=mode)
    same(got, [finish(mul(x, y, form), form, mode) for x, y in pairs], form)
    got = run(f"div.{name}", form.dtype, a, b, rounding=mode)
    same(got, [finish(div(x, y, form), form, mode) for x, y in pairs], form)
    got = run(f"rcp.{name}", form.dtype, a, rounding=mode)
    same(got, [finish(div(form.one, x, form), form, mode) for x, _ in pairs], form)
    got = run(f"fma.{name}", form.dtype, a, b, c, rounding=mode)
    triples = zip(pairs, c, strict=True)
    same(got, [finish(fma(x, y, int(z), form, mode), form, mode) for (x, y), z in triples], form)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_sqrt(name: str, mode: str) -> None:
    form = FORMATS[name]
    (a,) = operands(form, 1)

    def sqrt(bits: int) -> int:
        value = decode(bits, form)
        if isinstance(value, str) or value <= 0:
            return bits if value in (0, "+inf") else form.nan
        scale = 2 * (form.mantissa + form.bias + 8)  # enough bits below the last one for a sticky one
        scaled = value * power(2 * scale)
        root = math.isqrt(int(scaled))
        exact = Fraction(root) + (Fraction(1, 2) if root * root != scaled else 0)
        return encode(exact * power(-scale), form, mode)

    same(run(f"sqrt.{name}", form.dtype, a, rounding=mode), [sqrt(int(x)) for x in a], form)


@pytest.mark.parametrize("sat", ["0", "1"])
@pytest.mark.parametrize("ftz", ["0", "1"])
@pytest.mark.parametrize("mode", MODES)
def test_ftz_and_sat(mode: str, ftz: str, sat: str) -> None:
    a, b, c = operands(F32, 3, size=256, seed=7)
    near = 2.0**-20 * (1 + np.arange(256) * 2.0**-23), 2.0**-106 * (1 - np.arange(256) * 2.0**-24)
    a = np.concatenate([a, np.float32(near[0]).view(np.uint32)])
    b = np.concatenate([b, np.float32(near[1]).view(np.uint32)])
    c = np.concatenate([c, np.zeros(256, np.uint32)])
    attributes = {"rounding": mode, "ftz": ftz, "sat": sat}
    how = {"ftz": ftz == "1", "sat": sat == "1"}
    values = [
        tuple(flushed(int(v), F32) if how["ftz"] else int(v) for v in triple) for triple in zip(a, b, c, strict=True)
    ]
    got = run("add.f32", np.uint32, a, b, **attributes)
    same(got, [finish(add(x, y, F32, mode), F32, mode, **how) for x, y, _ in values], F32)
    got = run("mul.f32", np.uint32, a, b, **attributes)
    same(got, [finish(mul(x, y, F32), F32, mode, **how) for x, y, _ in values], F32)
    got = run("fma.f32", np.uint32, a, b, c, **attributes)
    same(got, [finish(fma(x, y, z, F32, mode), F32, mode, **how) for x, y, z in values], F32)
    if sat == "0":
        got = run("div.f32", np.uint32, a, b, **attributes)
        same(got, [finish(div(x, y, F32), F32, mode, **how) for x, y, _ in values], F32)
        got = run("rcp.f32", np.uint32, a, **attributes)
        same(got, [finish(div(F32.one, x, F32), F32, mode, **how) for x, _, _ in values], F32)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_pairs_are_two_elements(name: str) -> None:
    a, b = operands(F32, 2)
    for attributes in ({}, {"rounding": "rz"}, {"ftz": "1"}):
        got = run(f"{name}.f32x2", np.uint64, a.view(np.uint64), b.view(np.uint64), **attributes).view(np.uint32)
        np.testing.assert_array_equal(got, run(f"{name}.f32", np.uint32, a, b, **attributes))


def test_pairs_of_fma() -> None:
    a, b, c = operands(F32, 3)
    got = run("fma.f32x2", np.uint64, a.view(np.uint64), b.view(np.uint64), c.view(np.uint64)).view(np.uint32)
    np.testing.assert_array_equal(got, run("fma.f32", np.uint32, a, b, c))


def test_f64_nan_keeps_the_payload() -> None:
    """Which operand's NaN survives was recorded on an H200: b's before a's, c's between; division prefers a's."""
    a, b, c = (padded([bits], np.uint64) for bits in (0x7FF0000000000001, 0xFFF8000000000002, 0x7FF0000000000003))
    one = padded([F64.one], np.uint64)
    quiet = 0x0008000000000000
    for name in ("add", "sub", "mul"):
        assert set(run(f"{name}.f64", np.uint64, a, b)) == {0xFFF8000000000002}
        assert set(run(f"{name}.f64", np.uint64, a, one)) == {0x7FF0000000000001 | quiet}
    assert set(run("div.f64", np.uint64, a, b)) == {0x7FF0000000000001 | quiet}
    assert set(run("fma.f64", np.uint64, a, b, c)) == {0xFFF8000000000002}
    assert set(run("fma.f64", np.uint64, a, one, c)) == {0x7FF0000000000003 | quiet}
    infinity = padded([F64.inf], np.uint64)
    assert set(run("sub.f64", np.uint64, infinity, infinity)) == {F64.nan}


def test_rounding_mode_is_restored() -> None:
    tenth, three = padded([0x3FB999999999999A], np.uint64), padded([0x4008000000000000], np.uint64)
    before = run("mul.f64", np.uint64, tenth, three)
    run("mul.f64", np.uint64, tenth, three, rounding="rp")
    run("fma.f32", np.uint32, *operands(F32, 3), rounding="rm")
    np.testing.assert_array_equal(run("mul.f64", np.uint64, tenth, three), before)
    assert 0.1 * 3.0 == 0.30000000000000004


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
def test_mixed_precision(half: str, mode: str) -> None:
    form = FORMATS[half]
    a, b = operands(form, 2, size=256, seed=3)
    (c,) = operands(F32, 1, seed=4, size=len(a) // 3 + 1)
    c = np.resize(c, len(a))
    wide = [(encode(decode(int(x), form), F32, negative_zero=is_negative(int(x), form))) for x in a]
    wide_b = [(encode(decode(int(x), form), F32, negative_zero=is_negative(int(x), form))) for x in b]
    for sat in ("0", "1"):
        attributes = {"rounding": mode, "sat": sat}
        got = run(f"add.f32.{half}", np.uint32, a, c, **attributes)
        sums = [add(x, int(z), F32, mode) for x, z in zip(wide, c, strict=True)]
        same(got, [finish(s, F32, mode, sat=sat == "1") for s in sums], F32)
        got = run(f"sub.f32.{half}", np.uint32, a, c, **attributes)
        differences = [add(x, int(z) ^ 1 << 31, F32, mode) for x, z in zip(wide, c, strict=True)]
        same(got, [finish(s, F32, mode, sat=sat == "1") for s in differences], F32)
        got = run(f"fma.f32.{half}", np.uint32, a, b, c, **attributes)
        fused = [fma(x, y, int(z), F32, mode) for x, y, z in zip(wide, wide_b, c, strict=True)]
        same(got, [finish(s, F32, mode, sat=sat == "1") for s in fused], F32)
