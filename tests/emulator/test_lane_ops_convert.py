"""cvt between all types, in all rounding modes, against exact fractions; packed conversions; cvt.pack."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import integer_values
import numpy as np
import pytest
from float_values import FORMATS, Format, Value, decode, encode, flushed, is_negative, round_integer, round_unbounded
from float_values import operands as float_operands
from lane_registers import Array, combinations, padded, random_bits, run

INTEGERS = [f"{kind}{width}" for width in (8, 16, 32, 64) for kind in "us"]
FLOATS = ["f16", "bf16", "f32", "f64"]
TO_FLOAT, TO_INTEGER = ("rn", "rz", "rm", "rp"), ("rni", "rzi", "rmi", "rpi")


def register(type_name: str) -> np.dtype[Any]:
    """Storage of a type: 8-bit values live in 16-bit registers."""
    return FORMATS[type_name].dtype if type_name in FORMATS else np.dtype(f"u{max(int(type_name[1:]), 16) // 8}")


def stored(value: int, type_name: str) -> int:
    """An integer as its register holds it: wrapped to the type, then extended to the register."""
    return integer_values.wrap(value, type_name) & ((1 << 8 * register(type_name).itemsize) - 1)


def integer_operands(type_name: str) -> Array:
    """Register contents; the upper half of an 8-bit operand's register is garbage."""
    width = int(type_name[1:])
    pool = [*integer_values.specials(width), *((1 << i) + d for i in range(width) for d in (-1, 0, 1))]
    (special,) = combinations(pool, 1, register(type_name))
    return np.concatenate([special, random_bits(128, register(type_name), width)])


def operands_of(type_name: str) -> tuple[Array, list[Any]]:
    """Registers and their values: Python integers or bits of floats."""
    if type_name in FORMATS:
        (a,) = float_operands(FORMATS[type_name], 1, size=160)
        limits = [
            sign * 2.0**k + d for k in (0, 7, 8, 15, 16, 31, 32, 63, 64) for d in (-1, -0.5, 0, 0.5) for sign in (1, -1)
        ]
        exact = [encode(Fraction(value), FORMATS[type_name]) for value in limits]
        a = np.concatenate([a, padded(exact, a.dtype)])
        return a, [int(x) for x in a]
    a = integer_operands(type_name)
    return a, [integer_values.wrap(int(x), type_name) for x in a]


def float_to_integer(value: Value, source: str, target: str, mode: str) -> int:
    width = int(target[1:])
    if value == "nan":
        return 1 << (width - 1) if width == 64 or source == "f64" else 0
    low, high = integer_values.limits(target)
    if isinstance(value, str):
        return high if value == "+inf" else low
    return integer_values.clamp(round_integer(value, mode), target)


def float_to_float(bits: int, source: Format, target: Format, mode: str, attributes: dict[str, str]) -> int:
    ftz = "ftz" in attributes and target.bits != 16
    if ftz and source.bits == 32:
        bits = flushed(bits, source)
    value, negative = decode(bits, source), is_negative(bits, source)
    if value == "nan":
        if "sat" in attributes:
            return 0
        if 64 not in (source.bits, target.bits):
            return target.nan
        if ftz and source.bits == 32:  # the f32 operand was made canonical first
            bits, negative = FORMATS["f32"].nan, False
        payload = (bits & ((1 << source.mantissa) - 1)) << 52 >> source.mantissa
        sign = 1 << (target.bits - 1) if negative else 0
        return sign | target.inf | 1 << (target.mantissa - 1) | payload >> (52 - target.mantissa)
    if mode in TO_INTEGER and isinstance(value, Fraction):
        value, mode = Fraction(round_integer(value, mode)), "rn"
    result = encode(value, target, mode, negative_zero=negative)
    if ftz and target.bits == 32 and isinstance(value, Fraction):
        tiny = abs(round_unbounded(value, target, mode)) < target.smallest_normal
        result &= 1 << 31 if tiny else 0xFFFFFFFF
    return (0 if is_negative(result, target) else min(result, target.one)) if "sat" in attributes else result


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source: str) -> None:
    a, values = operands_of(source)
    for target in INTEGERS:
        want = [stored(value, target) for value in values]
        got = run(f"cvt.{target}.{source}", register(target), a)
        np.testing.assert_array_equal(got, np.array(want, register(target)), err_msg=target)
        want = [stored(integer_values.clamp(value, target), target) for value in values]
        got = run(f"cvt.{target}.{source}", register(target), a, sat="1")
        np.testing.assert_array_equal(got, np.array(want, register(target)), err_msg=f"sat {target}")


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_float(source: str) -> None:
    a, values = operands_of(source)
    for target in FLOATS:
        for mode in TO_FLOAT:
            want = [encode(Fraction(value), FORMATS[target], mode) for value in values]
            got = run(f"cvt.{target}.{source}", register(target), a, rounding=mode)
            np.testing.assert_array_equal(got, np.array(want, register(target)), err_msg=f"{target} {mode}")


@pytest.mark.parametrize("source", FLOATS)
def test_float_to_integer(source: str) -> None:
    a, bits = operands_of(source)
    form = FORMATS[source]
    for target in INTEGERS:
        for mode in TO_INTEGER:
            for attributes in ({}, {"sat": "1"}, {"ftz": "1"}) if source == "f32" else ({},):
                values = [decode(flushed(x, form) if "ftz" in attributes else x, form) for x in bits]
                want = [stored(float_to_integer(value, source, target, mode), target) for value in values]
                got = run(f"cvt.{target}.{source}", register(target), a, rounding=mode, **attributes)
                np.testing.assert_array_equal(got, np.array(want, register(target)), err_msg=f"{target} {mode}")


@pytest.mark.parametrize("source", FLOATS)
def test_float_to_float(source: str) -> None:
    a, bits = operands_of(source)
    for target in FLOATS:
        modes = TO_INTEGER if source == target else TO_FLOAT
        for mode in modes:
            for attributes in ({}, {"sat": "1"}, {"ftz": "1"}, {"ftz": "1", "sat": "1"}):
                if (source, target, mode, attributes) == ("bf16", "f32", "rn", {}):
                    continue  # moves bits: test_same_bits
                got = run(f"cvt.{target}.{source}", register(target), a, rounding=mode, **attributes)
                want = [float_to_float(x, FORMATS[source], FORMATS[target], mode, attributes) for x in bits]
                message = f"{target} {mode} {attributes}"
                np.testing.assert_array_equal(got, np.array(want, register(target)), err_msg=message)


def test_same_bits() -> None:
    """Without modifiers these only move bits, NaN payloads included (recorded on an H200)."""
    for name in ("f32", "f64"):
        a, _ = operands_of(name)
        np.testing.assert_array_equal(run(f"cvt.{name}.{name}", a.dtype, a), a)
    a, _ = operands_of("bf16")
    np.testing.assert_array_equal(run("cvt.f32.bf16", np.uint32, a), a.astype(np.uint32) << 16)


@pytest.mark.parametrize(
    "attributes", [{}, {"relu": "1"}, {"satfinite": "1"}, {"relu": "1", "satfinite": "1"}], ids=str
)
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_relu_and_satfinite(mode: str, attributes: dict[str, str]) -> None:
    a, bits = operands_of("f32")
    for target in ("f16", "bf16", "tf32"):
        form = FORMATS[target]
        want = []
        for x in bits:
            value = decode(x, FORMATS["f32"])
            result = encode(value, form, mode, negative_zero=bool(x >> 31), finite="satfinite" in attributes)
            want.append(0 if "relu" in attributes and value != "nan" and is_negative(result, form) else result)
        dtype = np.uint32 if target == "tf32" else np.uint16
        expected = np.array(want, np.uint32) << (13 if target == "tf32" else 0)
        got = run(f"cvt.{target}.f32", dtype, a, rounding=mode, **attributes)
        np.testing.assert_array_equal(got, expected.astype(dtype))


def test_tf32_away_from_zero() -> None:
    """Finite values round to nearest, ties away. Infinity and NaN are truncated; .satfinite steps back from both."""
    a, bits = operands_of("f32")
    for attributes in ({}, {"satfinite": "1"}):
        want = []
        for x in bits:
            value = decode(x, FORMATS["f32"])
            if isinstance(value, Fraction):
                result = encode(value, FORMATS["tf32"], "rna", negative_zero=bool(x >> 31)) << 13
            else:
                result = x & ~0x1FFF
            special = result & 0x7F800000 == 0x7F800000
            want.append(result - 0x2000 if attributes and special else result)
        got = run("cvt.tf32.f32", np.uint32, a, rounding="rna", **attributes)
        np.testing.assert_array_equal(got, np.array(want, np.uint32))


NARROW = {"e4m3": 8, "e5m2": 8, "e2m3": 8, "e3m2": 8, "e2m1": 4}  # distance between the two elements


@pytest.mark.parametrize("relu", ["0", "1"])
@pytest.mark.parametrize("target", [*NARROW, "f16", "bf16"])
def test_pairs_from_f32(target: str, relu: str) -> None:
    form, step = FORMATS[target], NARROW.get(target, 16)
    a, bits_a = operands_of("f32")
    b = np.roll(a, 5)
    attributes = {"rounding": "rn", "relu": relu} | ({"satfinite": "1"} if target in NARROW else {})

    def element(x: int) -> int:
        value = decode(x, FORMATS["f32"])
        if relu == "1" and value != "nan" and x >> 31:
            return 0
        return encode(value, form, negative_zero=bool(x >> 31), finite=target in NARROW)

    want = [element(x) << step | element(int(y)) for x, y in zip(bits_a, b, strict=True)]
    dtype = np.uint16 if target in NARROW else np.uint32
    np.testing.assert_array_equal(run(f"cvt.{target}x2.f32", dtype, a, b, **attributes), np.array(want, dtype))


@pytest.mark.parametrize("target", NARROW)
def test_pairs_from_and_to_halves(target: str) -> None:
    form, step = FORMATS[target], NARROW[target]
    for half in ("f16", "bf16"):
        (a,) = float_operands(FORMATS[half], 1, size=208)
        want = [encode(decode(int(x), FORMATS[half]), form, negative_zero=bool(x >> 15), finite=True) for x in a]
        got = run(f"cvt.{target}x2.{half}x2", np.uint16, a.view(np.uint32), satfinite="1")
        np.testing.assert_array_equal(
            got, [low | high << step for low, high in zip(want[::2], want[1::2], strict=True)]
        )
        every = np.arange(1 << 2 * step if step == 4 else 1 << 16, dtype=np.uint16)
        mask = (1 << form.bits) - 1
        table = np.array(
            [encode(decode(x, form), FORMATS[half], negative_zero=bool(x >> (form.bits - 1))) for x in range(mask + 1)],
            np.uint32,
        )
        got = run(f"cvt.{half}x2.{target}x2", np.uint32, every)
        np.testing.assert_array_equal(got, table[every >> step & mask] << 16 | table[every & mask])


def test_scales() -> None:
    """ue8m0 is a bare exponent: 2^(bits - 127), 0xff is NaN."""
    values = [0.0, 1.0, 1.5, 2.0, 3.0, 2.0**-126, 2.0**-127, 2.0**-149, 1e38, float("inf"), float("nan"), -6.0]
    a = np.resize(np.array(values, np.float32), 32)
    down = [0, 127, 127, 128, 128, 1, 0, 0, 253, 254, 255, 129]
    up = [0, 127, 128, 128, 129, 1, 0, 0, 254, 254, 255, 130]
    for mode, want in (("rz", down), ("rp", up)):
        got = run("cvt.ue8m0x2.f32", np.uint16, a, np.ones(32, np.float32), rounding=mode, satfinite="1")
        np.testing.assert_array_equal(got, np.resize(np.array(want) << 8 | 127, 32))
    scales = np.arange(256, dtype=np.uint16)
    got = run("cvt.bf16x2.ue8m0x2", np.uint32, scales)
    wide = (got << 16).view(np.float32)[:255]
    np.testing.assert_array_equal(wide, np.ldexp(1.0, np.arange(255) - 127).astype(np.float32))
    assert got[255] & 0xFFFF == 0x7FFF
    np.testing.assert_array_equal(run("cvt.ue8m0x2.bf16x2", np.uint16, got, rounding="rz") & 0xFF, np.arange(256))


@pytest.mark.parametrize("target", ["s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"])
def test_pack(target: str) -> None:
    width = int(target[1:])
    a, b = integer_values.operands("s32", 2)
    c = random_bits(len(a), np.uint32, 9)
    mask = (1 << width) - 1

    def pair(x: int, y: int) -> int:
        return (integer_values.clamp(x, target) & mask) << width | integer_values.clamp(y, target) & mask

    pairs = [pair(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    if width == 16:
        np.testing.assert_array_equal(run(f"cvt.pack.{target}.s32", np.uint32, a, b), np.array(pairs, np.uint32))
        return
    want = [(int(z) << 2 * width | value) & 0xFFFFFFFF for z, value in zip(c, pairs, strict=True)]
    got = run(f"cvt.pack.{target}.s32.b32", np.uint32, a, b, c)
    np.testing.assert_array_equal(got, np.array(want, np.uint32))
