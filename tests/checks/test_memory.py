"""The check `memory`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Level

_TWO = """__global__ void k(const float* x, float* out) {
    __shared__ float a[32], b[64];
    for (int i = threadIdx.x; i < 64; i += 32) b[i] = x[i];
    %s
    __syncthreads();
    out[threadIdx.x] = a[threadIdx.x] + b[threadIdx.x] + b[threadIdx.x + 32];
}"""
_FRAGMENT = """__global__ void k(const half* x, float* out) {
    __shared__ __align__(128) half a[%d];
    __shared__ __align__(128) half other[1024];
    for (int i = threadIdx.x; i < %d; i += 32) a[i] = x[i];
    for (int i = threadIdx.x; i < 1024; i += 32) other[i] = x[i];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, %d);
    wmma::load_matrix_sync(fb, other, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out, fc, 16, wmma::mem_row_major);
}"""
_CARVED = """__global__ void k(const half* x, float* out) {
    extern __shared__ __align__(32) unsigned char raw[];
    half* a = (half*)raw;
    half* b = a + 256;
    float* c = (float*)(b + 256);
    for (int i = threadIdx.x; i < 512; i += 32) a[i] = x[i];   // both at once
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) c[i] = __half2float(a[i]) + __half2float(b[i]);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32) out[i] = c[i];
}"""


def _run(source: str, shared: int = 0) -> list[tuple[str, Level]]:
    x = np.zeros(2048, np.float32)
    out = np.zeros(256, np.float32)
    return [(one.kind, one.level) for one in found("memory", source, x, out, names=("x", "out"), shared=shared)]


BAD = {
    "written past the end": (_TWO % "a[threadIdx.x + 1] = x[threadIdx.x];", ("write-outside-array", Level.ERROR)),
    "written before the start": (
        _TWO % "b[(int)threadIdx.x - (int)x[0] - 1] = x[threadIdx.x];",
        ("write-outside-array", Level.ERROR),
    ),
    "read from the neighbour": (
        _TWO % "a[threadIdx.x] = a[threadIdx.x + 8] + x[threadIdx.x];",
        ("outside-array", Level.WARNING),
    ),
    "a fragment of 16 rows in an array of 12": (_FRAGMENT % (192, 192, 16), ("outside-array", Level.WARNING)),
    "ldm of the padded tile in one without padding": (
        _FRAGMENT % (256, 256, 24),
        ("outside-array", Level.WARNING),
    ),
}
GOOD = {
    "each in its own": _TWO % "a[threadIdx.x] = x[threadIdx.x];",
    "backwards": _TWO % "a[31 - threadIdx.x] = x[threadIdx.x];",
    "a fragment to the last element": _FRAGMENT % (376, 376, 24),
    "one pointer for two arrays": _TWO % "float* p = x[0] > 0 ? a : b; p[threadIdx.x] = 1; a[threadIdx.x] = p[1];",
    "swizzled": _TWO % "a[threadIdx.x ^ (threadIdx.x >> 2 & 7)] = x[threadIdx.x];",
}


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    source, expected = BAD[name]
    assert set(_run(source)) == {expected}


@pytest.mark.parametrize("name", GOOD)
def test_look_alike(name: str) -> None:
    assert _run(GOOD[name]) == []


def test_one_buffer_carved_into_several_arrays() -> None:
    assert _run(_CARVED, 2048) == []


def test_words() -> None:
    x, out = np.zeros(64, np.float32), np.zeros(32, np.float32)
    source = _TWO % "a[threadIdx.x + 1] = x[threadIdx.x];"
    (finding,) = found("memory", source, x, out)
    assert finding.message == "writes past the end of a (128 bytes)"
    assert finding.place.line == 7
    assert finding.detail[0] == "up to 4 bytes past the end of a, outside every array"
    assert finding.detail[1].startswith("first: block (0, 0, 0), warp 0, lane 31")
