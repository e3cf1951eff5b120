"""Number types of host code: what g++ makes of NVIDIA's headers is what `wmmadiag.numerics` says, bit for bit."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_formats import decode, encode

from wmmadiag.compile.toolchain import toolchain

SOURCE = r"""
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#define CONVERSIONS(NAME, T, BITS, FROM_FLOAT, FROM_DOUBLE, TO_FLOAT)                                          \
  extern "C" void NAME##_from_float(const float* x, BITS* y, size_t n) {                                       \
    for (size_t i = 0; i < n; ++i) { T v = FROM_FLOAT(x[i]); __builtin_memcpy(y + i, &v, sizeof v); }          \
  }                                                                                                            \
  extern "C" void NAME##_from_double(const double* x, BITS* y, size_t n) {                                     \
    for (size_t i = 0; i < n; ++i) { T v = FROM_DOUBLE(x[i]); __builtin_memcpy(y + i, &v, sizeof v); }         \
  }                                                                                                            \
  extern "C" void NAME##_to_float(const BITS* x, float* y, size_t n) {                                         \
    for (size_t i = 0; i < n; ++i) { T v; __builtin_memcpy(&v, x + i, sizeof v); y[i] = TO_FLOAT(v); }         \
  }
CONVERSIONS(f16, __half, unsigned short, __float2half, __double2half, __half2float)
CONVERSIONS(bf16, __nv_bfloat16, unsigned short, __float2bfloat16, __double2bfloat16, __bfloat162float)
CONVERSIONS(e4m3, __nv_fp8_e4m3, unsigned char, __nv_fp8_e4m3, __nv_fp8_e4m3, float)
CONVERSIONS(e5m2, __nv_fp8_e5m2, unsigned char, __nv_fp8_e5m2, __nv_fp8_e5m2, float)
#define ARITHMETIC(NAME, T)                                                                                       \
  extern "C" void NAME##_arithmetic(const T* a, const T* b, T* sum, T* product, T* quotient, size_t n) {          \
    for (size_t i = 0; i < n; ++i) sum[i] = a[i] + b[i], product[i] = a[i] * b[i], quotient[i] = a[i] / b[i];     \
  }
ARITHMETIC(f16, __half)
ARITHMETIC(bf16, __nv_bfloat16)
"""

FORMATS = ("f16", "bf16", "e4m3", "e5m2")
WIDTHS = {"f16": np.uint16, "bf16": np.uint16, "e4m3": np.uint8, "e5m2": np.uint8}


@pytest.fixture(scope="session")
def headers(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    folder = tmp_path_factory.mktemp("host_numbers")
    source, library = folder / "numbers.cpp", folder / "numbers.so"
    source.write_text(SOURCE)
    includes = [f"-isystem{path}" for path in toolchain().includes]
    subprocess.run(
        [
            compiler,
            "-std=c++17",
            "-O1",
            "-ffp-contract=off",
            "-fPIC",
            "-shared",
            *includes,
            str(source),
            "-o",
            str(library),
        ],
        check=True,
    )
    return ctypes.CDLL(str(library))


def call(headers: ctypes.CDLL, name: str, *arrays: np.ndarray) -> None:
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    getattr(headers, name)(*pointers, ctypes.c_size_t(arrays[0].size))


def same(observed: np.ndarray, bits: np.ndarray, name: str) -> None:
    """Equal bits; of NaN only that it is one, since the host's keep their payload."""
    nan = np.isnan(decode(bits, name))
    np.testing.assert_array_equal(np.isnan(decode(observed, name)), nan)
    np.testing.assert_array_equal(observed[~nan], bits[~nan])


@pytest.mark.parametrize("name", FORMATS)
def test_every_pattern_of_a_host_type_means_what_numerics_says(headers: ctypes.CDLL, name: str) -> None:
    bits = np.arange(2 ** (8 * WIDTHS[name]().itemsize), dtype=np.uint32).astype(WIDTHS[name])
    values = np.empty(bits.size, np.float32)
    call(headers, f"{name}_to_float", bits, values)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wide = values.astype(np.float64)
    np.testing.assert_array_equal(wide, decode(bits, name))
    np.testing.assert_array_equal(
        np.signbit(values[~np.isnan(values)]), np.signbit(decode(bits, name)[~np.isnan(values)])
    )


def near(name: str, width: type[np.floating]) -> np.ndarray:
    """Every number of the format (of 16 bits: each 7th), the middles between them, and what lies beside a middle."""
    bits = np.arange(0, 2 ** (8 * WIDTHS[name]().itemsize), 7 if WIDTHS[name] is np.uint16 else 1, dtype=np.uint32)
    values = np.sort(decode(bits, name)[np.isfinite(decode(bits, name))])
    middles = ((values[1:] + values[:-1]) / 2).astype(width)
    ends = np.array(
        [np.inf, -np.inf, np.nan, values[-1] * 1.1, values[-1] * 4, -0.0, 1e-300, 3e-46], np.float64
    ).astype(width)
    return np.concatenate(
        [
            values.astype(width),
            middles,
            np.nextafter(middles, width(np.inf)),
            np.nextafter(middles, width(-np.inf)),
            ends,
        ]
    )


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("source", ["float", "double"])
def test_host_conversions_round_as_numerics_at_every_boundary(headers: ctypes.CDLL, name: str, source: str) -> None:
    with np.errstate(over="ignore", under="ignore"):
        x = near(name, np.float32 if source == "float" else np.float64)
    bits = np.empty(x.size, WIDTHS[name])
    call(headers, f"{name}_from_{source}", x, bits)
    same(bits, expected_bits(x, name), name)


def expected_bits(x: np.ndarray, name: str) -> np.ndarray:
    # The constructors of the fp8 types saturate (cuda_fp8.h: __NV_SATFINITE), infinities too; e5m2 has Inf otherwise.
    values = x.astype(np.float64)
    if name == "e5m2":
        values = np.clip(values, -57344.0, 57344.0)
    return encode(values, name)


@given(st.lists(st.floats(allow_nan=False, width=32), min_size=1, max_size=50))
def test_host_conversions_of_any_float(headers: ctypes.CDLL, numbers: list[float]) -> None:
    for name in FORMATS:
        x = np.array(numbers, np.float32)
        bits = np.empty(x.size, WIDTHS[name])
        call(headers, f"{name}_from_float", x, bits)
        same(bits, expected_bits(x, name), name)


@pytest.mark.parametrize("name", ["f16", "bf16"])
@given(st.lists(st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF)), min_size=1, max_size=50))
def test_host_arithmetic_is_that_of_float_rounded_once_more(
    headers: ctypes.CDLL, name: str, pairs: list[tuple[int, int]]
) -> None:
    a, b = (np.array(column, np.uint16) for column in zip(*pairs, strict=True))
    results = [np.empty(a.size, np.uint16) for _ in range(3)]
    call(headers, f"{name}_arithmetic", a, b, *results)
    left, right = (decode(bits, name).astype(np.float32) for bits in (a, b))
    with np.errstate(all="ignore"):
        expected = (left + right, left * right, left / right)
    for observed, value in zip(results, expected, strict=True):
        same(observed, encode(value.astype(np.float64), name), name)
