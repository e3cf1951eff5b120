"""The check `memory`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Finding, Level
from wmmadiag.launch import ArgumentView

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


def _stores(line: str, threads: int = 1) -> list[Finding]:
    """Findings with x an input, and `out` 8 rows of 30 floats, 32 apart, transposed rows of 4 in its second half."""
    source = "__global__ void k(float* x, float* out) {\n    int i = threadIdx.x, b = blockIdx.x;\n%s\n}"
    x, out = np.ones(256, np.float32), np.zeros(256, np.float32)
    views = (ArgumentView(0, "x", (256,), (1,)), ArgumentView(1, "O", (2, 4, 30), (128, 32, 1), written=True))
    arguments = {"names": ("x", "out"), "grid": 2, "views": views, "threads": threads}
    return list(found("memory", source % line, x, out, **arguments))  # type: ignore[arg-type]


STORES = {
    "the gap between rows": (
        "for (int r = 0; r < 4; ++r) out[b * 128 + r * 32 + i] = x[i];",
        ("write-outside-view", 16, "writes to out outside the elements of O"),
        "block (0, 0, 0), warp 0 writes the element 1 after O[0,0,29]",
    ),
    "an input": (
        "if (i < 4) x[b * 4 + i] = 2; out[b * 128 + i % 30] = x[i];",
        ("write-to-input", 8, "writes to the input x"),
        "block (0, 0, 0), warp 0, lane 0 writes x[0]",
    ),
    "an input, by an atomic": (
        "if (i == 31) atomicAdd(x + 7, 1.0f);",
        ("write-to-input", 2, "writes to the input x"),
        "lane 31 writes x[7]",
    ),
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("threads", [1, 3])
def test_stores(name: str, threads: int) -> None:
    line, expected, detail = STORES[name]
    (finding,) = _stores(line, threads)
    assert (finding.kind, finding.count, finding.message) == expected
    assert finding.level is Level.ERROR
    assert finding.place.line == 6
    assert detail in finding.detail[0]


def test_stores_to_every_element_alone() -> None:
    assert _stores("for (int r = 0; r < 4; ++r) if (i < 30) out[b * 128 + r * 32 + i] = x[i];") == []
