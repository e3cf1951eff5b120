"""Headers that are read first because their names are missed, and what torch's types compute."""

from __future__ import annotations

import numpy as np
import pytest

from wmmadiag.compile.diagnostics import parse_log
from wmmadiag.compile.driver import compile_text
from wmmadiag.compile.standard import missing_headers
from wmmadiag.emulator import load
from wmmadiag.launch import Launch


@pytest.mark.parametrize(
    ("message", "header"),
    [
        ('identifier "curandState_t" is undefined', "curand_kernel.h"),
        ('identifier "curand_init" is undefined', "curand_kernel.h"),
        ('identifier "FLT_MAX" is undefined', "cfloat"),
        ('namespace "std" has no member "array"', "array"),
        ('identifier "accuracy" is undefined', None),
    ],
)
def test_a_missing_name_tells_its_header(message: str, header: str | None) -> None:
    found = missing_headers(parse_log(f"kernel.cu(3): error: {message}\n"))
    assert found == ({header} if header else set())


ARITHMETIC = """
#include <torch/extension.h>
template <typename scalar_t> __global__ void mixed(const scalar_t* x, float* out) {
  scalar_t a = x[0], b = x[1];
  a += b * scalar_t(2) - a / b;
  float sum = 0.f;
  sum += a; sum = sum + a * 0.5f + 2 * b;
  scalar_t least = b < a && !(a == b) ? b : -a;
  out[0] = sum; out[1] = a; out[2] = least; out[3] = a > 1.0f && 0 < a && a != 7 && a >= 0.5 ? 1 : 0;
}
template __global__ void mixed<TYPE>(const TYPE*, float*);
"""


@pytest.mark.parametrize(("type_", "bits"), [("c10::Half", (0x4200, 0x3E00)), ("at::BFloat16", (0x4040, 0x3FC0))])
def test_torchs_sixteen_bit_types_calculate(type_: str, bits: tuple[int, int]) -> None:
    kernel = load(compile_text(ARITHMETIC.replace("TYPE", type_), "k.cu").ptx)
    out = np.zeros(4, np.float32)
    kernel.launch(Launch((1, 1, 1), (1, 1, 1), (np.array(bits, np.uint16), out)))
    assert list(out) == [4.0 + 2.0 + 3.0, 4.0, 1.5, 1.0]
