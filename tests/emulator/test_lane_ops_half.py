"""f16 and bf16 arithmetic against exact fractions; abs, neg, min, max, copysign and testp of all formats."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from float_values import FORMATS, Format, decode, encode, flushed, is_negative, operands, round_unbounded, specials
from lane_registers import Array, combinations, padded, run
from test_lane_ops_float import add, fma, mul

HALVES = ("f16", "bf16")


def finish(result: tuple[object, bool], form: Format, attributes: dict[str, str]) -> int:
    value, negative = result
    bits = encode(value, form, negative_zero=negative)  # type: ignore[arg-type]
    if "ftz" in attributes and isinstance(value, Fraction):
        tiny = abs(round_unbounded(value, form, "rn")) < form.smallest_normal
        bits &= 1 << 15 if tiny else 0xFFFF
    if "sat" in attributes:
        return 0 if value == "nan" or is_negative(bits, form) else min(bits, form.one)
    return 0 if "relu" in attributes and value != "nan" and is_negative(bits, form) else bits


def sources(form: Format, attributes: dict[str, str], *, count: int = 3) -> tuple[list[Array], list[tuple[int, ...]]]:
    """Operands, and their bits after .ftz."""
    arrays = operands(form, count, size=384)
    values = [
        tuple(flushed(int(v), form) if "ftz" in attributes else int(v) for v in group)
        for group in zip(*arrays, strict=True)
    ]
    return arrays, values


@pytest.mark.parametrize("attributes", [{}, {"ftz": "1"}, {"sat": "1"}, {"ftz": "1", "sat": "1"}], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_arithmetic(name: str, attributes: dict[str, str]) -> None:
    if name == "bf16" and attributes:
        pytest.skip("bf16 has neither .ftz nor .sat")
    form = FORMATS[name]
    (a, b, c), values = sources(form, attributes)
    expected = {
        "add": [finish(add(x, y, form, "rn"), form, attributes) for x, y, _ in values],
        "sub": [finish(add(x, y ^ 0x8000, form, "rn"), form, attributes) for x, y, _ in values],
        "mul": [finish(mul(x, y, form), form, attributes) for x, y, _ in values],
        "fma": [finish(fma(x, y, z, form, "rn"), form, attributes) for x, y, z in values],
    }
    for operation, want in expected.items():
        arrays = [a, b, c] if operation == "fma" else [a, b]
        np.testing.assert_array_equal(run(f"{operation}.{name}", np.uint16, *arrays, **attributes), want)
        packed = [array.view(np.uint32) for array in arrays]
        got = run(f"{operation}.{name}x2", np.uint32, *packed, **attributes).view(np.uint16)
        np.testing.assert_array_equal(got, want, err_msg=f"{operation}x2")


@pytest.mark.parametrize("name", HALVES)
def test_fma_relu(name: str) -> None:
    form = FORMATS[name]
    (a, b, c), values = sources(form, {})
    want = [finish(fma(x, y, z, form, "rn"), form, {"relu": "1"}) for x, y, z in values]
    np.testing.assert_array_equal(run(f"fma.{name}", np.uint16, a, b, c, relu="1"), want)


@pytest.mark.parametrize("name", HALVES)
def test_fma_rounds_once(name: str) -> None:
    """1 + 2^-p is halfway between two results; only the product's last bits say which way."""
    form = FORMATS[name]
    tie = form.one + (1 << (form.mantissa - 1))  # a, so that a * a has a long tail
    a = padded([tie + i for i in range(64)], np.uint16)
    c = padded([(form.bias - k) << form.mantissa for k in range(20)], np.uint16)
    a, b, c = (np.resize(array, 1280) for array in (a, np.roll(a, 7), np.repeat(c, 64)))
    want = [encode(fma(int(x), int(y), int(z), form, "rn")[0], form) for x, y, z in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(run(f"fma.{name}", np.uint16, a, b, c), want)


@pytest.mark.parametrize("name", HALVES)
def test_out_of_bounds_marker(name: str) -> None:
    """Recorded on an H200: as a factor 0x7ff7 gives zero, as the addend it is a NaN like others."""
    marker, one = padded([0x7FF7, 0xFFF7], np.uint16), padded([FORMATS[name].one], np.uint16)
    assert set(run(f"fma.{name}", np.uint16, marker, one, one, oob="1")) == {0}
    assert set(run(f"fma.{name}", np.uint16, one, marker, one, oob="1")) == {0}
    assert set(run(f"fma.{name}", np.uint16, one, one, marker, oob="1")) == {0x7FFF}
    assert set(run(f"fma.{name}", np.uint16, marker, one, one)) == {0x7FFF}


def nan_of(form: Format, bits: int) -> int:
    return bits | 1 << 51 if form.bits == 64 else form.nan


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_sign_operations(name: str) -> None:
    form = FORMATS[name]
    (a,) = operands(form, 1)
    minus = 1 << (form.bits - 1)
    for ftz in ("0", "1") if name in ("f16", "f32") else ("0",):
        values = [flushed(int(x), form) if ftz == "1" else int(x) for x in a]
        nans = [decode(x, form) == "nan" for x in values]
        want = [nan_of(form, x) if nan else x & ~minus for x, nan in zip(values, nans, strict=True)]
        np.testing.assert_array_equal(run(f"abs.{name}", form.dtype, a, ftz=ftz), np.array(want, form.dtype))
        want = [nan_of(form, x) if nan else x ^ minus for x, nan in zip(values, nans, strict=True)]
        np.testing.assert_array_equal(run(f"neg.{name}", form.dtype, a, ftz=ftz), np.array(want, form.dtype))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_copysign(name: str) -> None:
    form = FORMATS[name]
    a, b = operands(form, 2)
    minus = 1 << (form.bits - 1)
    want = [int(x) & minus | int(y) & ~minus for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(run(f"copysign.{name}", form.dtype, a, b), np.array(want, form.dtype))


def extreme(form: Format, values: tuple[int, ...], maximum: bool, attributes: dict[str, str]) -> int:
    """IEEE minNum and maxNum with -0 < +0; .NaN propagates; .xorsign.abs takes magnitudes and the product of signs."""
    minus = 1 << (form.bits - 1)
    signs = 0
    if "ftz" in attributes:
        values = tuple(flushed(value, form) for value in values)
    for value in values:
        signs ^= value & minus
    if "abs" in attributes:
        values = tuple(value & ~minus for value in values)
    nans = [value for value in values if decode(value, form) == "nan"]
    numbers = [value for value in values if decode(value, form) != "nan"]
    if not numbers or (nans and "nan" in attributes):
        return nan_of(form, nans[-1])

    def key(value: int) -> tuple[object, bool]:
        decoded = decode(value, form)
        return (float(decoded) if isinstance(decoded, str) else decoded), value & minus == 0

    result = (max if maximum else min)(numbers, key=key)
    return result & ~minus | signs if "xorsign" in attributes else result


@pytest.mark.parametrize("maximum", [False, True], ids=["min", "max"])
@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_min_and_max(name: str, maximum: bool) -> None:
    form = FORMATS[name]
    a, b, c = operands(form, 3, size=512)
    op = f"{'max' if maximum else 'min'}.{name}"
    forms: list[dict[str, str]] = [{}]
    if name != "f64":
        forms += [{"nan": "1"}, {"abs": "1", "xorsign": "1"}, {"nan": "1", "abs": "1", "xorsign": "1"}]
    if name in ("f16", "f32"):
        forms += [{"ftz": "1"}]
    for attributes in forms:
        pairs = zip(a, b, strict=True)
        want = [extreme(form, (int(x), int(y)), maximum, attributes) for x, y in pairs]
        np.testing.assert_array_equal(run(op, form.dtype, a, b, **attributes), np.array(want, form.dtype))
        if form.bits == 16:
            got = run(f"{op}x2", np.uint32, a.view(np.uint32), b.view(np.uint32), **attributes).view(np.uint16)
            np.testing.assert_array_equal(got, np.array(want, np.uint16))
        if name == "f32":
            triples = zip(a, b, c, strict=True)
            want = [extreme(form, (int(x), int(y), int(z)), maximum, attributes) for x, y, z in triples]
            np.testing.assert_array_equal(run(op, form.dtype, a, b, c, **attributes), np.array(want, form.dtype))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_testp(name: str) -> None:
    form = FORMATS[name]
    (a,) = combinations(specials(form), 1, form.dtype)
    x = a.view(np.float32 if name == "f32" else np.float64)
    subnormal = (x != 0) & (np.abs(x) < float(form.smallest_normal))
    expected = {
        "finite": np.isfinite(x),
        "infinite": np.isinf(x),
        "number": ~np.isnan(x),
        "notanumber": np.isnan(x),
        "normal": np.isfinite(x) & ~subnormal,  # zeros count as normal
        "subnormal": subnormal,
    }
    for mode, want in expected.items():
        np.testing.assert_array_equal(run(f"testp.{name}", bool, a, mode=mode), want, err_msg=mode)
