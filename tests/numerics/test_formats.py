"""Number formats against ml_dtypes, NumPy and their own definitions."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_formats import (
    FORMATS,
    decode,
    encode,
    largest_finite,
    round_to,
    smallest_normal,
    smallest_subnormal,
    ulp,
    ulp_distance,
    unit_roundoff,
)

from wmmadiag.errors import ConfigurationError

DTYPES: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip
SMALL = [name for name, form in FORMATS.items() if 1 + form.exponent_bits + form.fraction_bits <= 16]
WIDTH = {name: 1 + form.exponent_bits + form.fraction_bits for name, form in FORMATS.items()}


def _codes(name: str) -> np.ndarray[Any, Any]:
    return np.arange(2 ** WIDTH[name], dtype=np.uint32).astype(FORMATS[name].dtype)


@pytest.mark.parametrize("name", SMALL)
def test_decode_every_code(name: str) -> None:
    codes = _codes(name)
    with np.errstate(invalid="ignore"):
        expected = codes.view(DTYPES[name]).astype(np.float64)
    got = decode(codes, name)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(expected[~np.isnan(expected)]))


@pytest.mark.parametrize("name", SMALL)
def test_encode_inverts_decode(name: str) -> None:
    codes = _codes(name)
    values = decode(codes, name)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(encode(values, name)[number], codes[number])
    assert (round_to(values, name)[number] == values[number]).all()


@pytest.mark.parametrize("name", ["f16", "bf16", "f32"])
def test_rounding_agrees_with_numpy(name: str) -> None:
    rng = np.random.default_rng(5)
    form = FORMATS[name]
    exponents = rng.integers(form.min_exponent - form.fraction_bits - 3, form.max_exponent + 3, 20000)
    values = np.ldexp(rng.uniform(-2, 2, exponents.shape).astype(np.float32).astype(np.float64), exponents)
    with np.errstate(over="ignore"):
        # bf16 through float32 would round twice; its inputs here have float32's bits and mostly its range
        if name == "bf16":
            values = values.astype(np.float32).astype(np.float64)
        expected = values.astype(np.float32 if name == "bf16" else DTYPES[name]).astype(DTYPES[name])
    np.testing.assert_array_equal(round_to(values, name), expected.astype(np.float64))


@given(st.floats(allow_nan=False), st.sampled_from(sorted(FORMATS)))
def test_rounding_is_to_a_nearest_number(x: float, name: str) -> None:
    rounded = float(round_to(x, name))
    if abs(x) <= largest_finite(name):
        assert abs(rounded - x) <= float(ulp(x, name)) / 2
        if abs(x) >= smallest_normal(name):
            assert abs(rounded - x) <= unit_roundoff(name) * abs(x)
    assert float(round_to(rounded, name)) == rounded
    assert np.signbit(rounded) == np.signbit(x)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(sorted(FORMATS)))
def test_rounding_toward_zero_never_grows(x: float, name: str) -> None:
    rounded = float(round_to(x, name, "rz"))
    assert abs(rounded) <= abs(x)
    assert abs(rounded) <= largest_finite(name)
    if abs(x) <= largest_finite(name):
        assert abs(x) - abs(rounded) < float(ulp(x, name))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("rn", [1.0, 1.0 + 2**-9, -1.0]),
        ("rna", [1.0 + 2**-10, 1.0 + 2**-9, -(1.0 + 2**-10)]),
        ("rz", [1.0, 1.0 + 2**-10, -1.0]),
    ],
)
def test_ties(mode: str, expected: list[float]) -> None:
    ties = np.array([1 + 2**-11, 1 + 3 * 2**-11, -(1 + 2**-11)])
    np.testing.assert_array_equal(round_to(ties, "tf32", mode), expected)


@pytest.mark.parametrize(
    ("name", "u", "tiny", "huge"),
    [
        ("f16", 2**-11, 2**-24, 65504.0),
        ("bf16", 2**-8, 2**-133, float.fromhex("0x1.fep127")),
        ("tf32", 2**-11, 2**-136, float.fromhex("0x1.ffcp127")),
        ("f32", 2**-24, 2**-149, float(np.finfo(np.float32).max)),
        ("f64", 2**-53, 5e-324, float(np.finfo(np.float64).max)),
        ("e4m3", 2**-4, 2**-9, 448.0),
        ("e5m2", 2**-3, 2**-16, 57344.0),
        ("e3m2", 2**-3, 2**-4, 28.0),
        ("e2m3", 2**-4, 2**-3, 7.5),
        ("e2m1", 2**-2, 0.5, 6.0),
    ],
)
def test_published_ranges(name: str, u: float, tiny: float, huge: float) -> None:
    assert (unit_roundoff(name), smallest_subnormal(name), largest_finite(name)) == (u, tiny, huge)


def test_overflow_and_special_codes() -> None:
    assert list(encode([65520.0, 65519.0, -np.inf, np.nan], "f16")) == [0x7C00, 0x7BFF, 0xFC00, 0x7FFF]
    assert list(encode([500.0, np.inf, np.nan], "e4m3")) == [0x7E, 0x7E, 0x7F]
    assert list(encode([100.0, np.nan, -0.0], "e2m1")) == [7, 7, 8]
    assert encode(np.nan, "f32") == 0x7FFFFFFF
    assert encode(1.0 + 2**-10, "tf32") == 0x3F802000


def test_tf32_ignores_the_low_bits() -> None:
    assert decode(0x3F801FFF, "tf32") == 1.0
    assert np.isinf(decode(0x7F800001, "tf32"))


def test_ulp_and_distance() -> None:
    np.testing.assert_array_equal(ulp([1.0, 1.99, 2.0, 0.0, 1e9], "f16"), [2**-10, 2**-10, 2**-9, 2**-24, 32.0])
    assert np.isnan(ulp(np.inf, "f16"))
    assert ulp_distance(1.0, 1.0 + 2**-10, "f16") == 1
    assert ulp_distance(-(2.0**-24), 2.0**-24, "f16") == 2
    assert ulp_distance(0.0, -0.0, "f16") == 0
    assert ulp_distance(65504.0, np.inf, "f16") == 1
    assert np.isnan(ulp_distance(np.nan, 1.0, "f16"))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="f17"):
        unit_roundoff("f17")
    with pytest.raises(ConfigurationError, match="up"):
        round_to(1.0, "f16", "up")
