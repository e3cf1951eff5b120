"""The check `numbers`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

_LINE = """__global__ void k(const float* x, half* h, float* out) {
    int i = threadIdx.x;
    %s
}"""
BAD = {
    "conversion overflows": ("h[i] = __float2half(x[i] * 30000.0f);", {"overflow"}),
    "0/0": ("out[i] = (x[i] - x[i]) / (x[0] - x[0]);", {"nan"}),
    "infinity minus infinity": (
        "float m = x[i] < 100 ? -INFINITY : x[i]; out[i] = __expf(m - fmaxf(m, -INFINITY));",
        {"nan"},
    ),
    "1/0": ("out[i] = 1.0f / (x[i] - x[i]);", {"infinity"}),
    "half arithmetic": ("h[i] = __hmul(__float2half(x[i] * 100), __float2half(x[i] * 100));", {"overflow", "infinity"}),
    "a root of a negative number": ("out[i] = sqrtf(-1.0f - x[i]);", {"nan"}),
}
GOOD = {
    "a masked softmax": """float s = i < 5 ? x[i] : -INFINITY, m = s;
        for (int d = 16; d; d /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
        float p = __expf(s - m), t = p;
        for (int d = 16; d; d /= 2) t += __shfl_xor_sync(~0u, t, d);
        out[i] = p / t;""",
    "an infinity that is selected away": "float r = 1.0f / (x[i] - x[i]); out[i] = i < 40 ? x[i] : r;",
    "an infinity of the inputs": "h[i] = __float2half(x[i]);",
}


def _run(line: str) -> set[str]:
    x = np.arange(32, dtype=np.float32)
    h, out = np.zeros(32, np.float16), np.zeros(32, np.float32)
    return {one.kind for one in found("numbers", _LINE % line, x, h, out, names=("x", "h", "out"))}


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    line, expected = BAD[name]
    kinds = _run(line)
    assert kinds
    assert kinds <= expected


@pytest.mark.parametrize("name", GOOD)
def test_look_alike(name: str) -> None:
    assert _run(GOOD[name]) == set()


def test_what_only_passes_on() -> None:
    x = np.full(32, np.inf, np.float32)
    h, out = np.zeros(32, np.float16), np.zeros(32, np.float32)
    source = _LINE % "h[i] = __float2half(x[i] + 1); out[i] = x[i] * 2;"
    assert found("numbers", source, x, h, out) == ()


def test_an_fp16_accumulator_that_overflows() -> None:
    source = """__global__ void k(const half* x, half* out) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::fragment<wmma::accumulator, 16, 16, 16, half> c;
        wmma::fill_fragment(c, __float2half(0.0f));
        wmma::load_matrix_sync(a, x, 16);
        wmma::load_matrix_sync(b, x, 16);
        wmma::mma_sync(c, a, b, c);
        wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
    }"""
    x, out = np.full(256, 100, np.float16), np.zeros(256, np.float16)
    (finding,) = found("numbers", source, x, out, names=("x", "out"))
    assert (finding.kind, finding.message) == ("overflow", "line 11 overflows to infinity")
    assert found("numbers", source, np.ones(256, np.float16), out) == ()


_HALF_SUMS = """__global__ void k(const half* x, const half* y, half* out) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> c;
    wmma::fill_fragment(c, __float2half(0.0f));
    for (int i = 0; i < 8; ++i) {
        wmma::load_matrix_sync(a, x + 256 * i, 16);
        wmma::load_matrix_sync(b, y, 16);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
}"""


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        (16.0, 0.001, {("absorbed", 7 * 256)}),
        (16.0, 0.0, set()),  # nothing to add, nothing lost
        (1.0, 0.001, set()),  # a small sum loses little
        (16.0, 16.0, set()),  # what is added can be seen
        (16.0, 295.0, {("near-overflow", 256)}),
    ],
)
def test_growth_of_an_accumulator_in_half(first: float, later: float, expected: set[tuple[str, int]]) -> None:
    x = np.full((8, 16, 16), later, np.float16)
    x[0] = first
    findings = found("numbers", _HALF_SUMS, x, np.ones(256, np.float16), np.zeros(256, np.float16))
    assert {(one.kind, one.count) for one in findings} == expected
    assert {one.place.line for one in findings} <= {12}
