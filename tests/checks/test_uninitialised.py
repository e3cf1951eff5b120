"""The check `uninitialised`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from cuda_checks import found

from wmmadiag.checks.finding import Level


def _run(source: str, n: int = 64, **options: object) -> list[tuple[str, Level, int]]:
    x = np.arange(1024, dtype=np.float32)
    out = np.zeros(n, np.float32)
    findings = found("uninitialised", source, x, out, names=("x", "out"), **options)  # type: ignore[arg-type]
    return [(one.kind, one.level, one.count) for one in findings]


HALF_FILLED = """
__global__ void k(const float* x, float* out) {
    __shared__ float row[64];
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = row[threadIdx.x] + %s;
}
"""

BAD = {
    "half of an array is never filled": (HALF_FILLED % "row[threadIdx.x + 32]", ("output", Level.ERROR, 32)),
    "one element": (HALF_FILLED % "row[threadIdx.x * 2 % 33]", ("output", Level.ERROR, 1)),
    "0 times garbage": (HALF_FILLED % "0.0f * row[threadIdx.x + 32]", ("output", Level.ERROR, 32)),
    "through a shuffle": (HALF_FILLED % "__shfl_sync(~0u, row[threadIdx.x + 1], 31)", ("output", Level.ERROR, 32)),
    "as an index": (HALF_FILLED % "x[((int*)row)[threadIdx.x + 32] & 15]", ("address", Level.ERROR, 32)),
    "a local array": (
        """__global__ void k(const float* x, float* out) {
            float t[8];
            for (int i = 0; i < 4; ++i) t[((int)x[i] * 5 + threadIdx.x) % 4] = x[i];
            out[threadIdx.x] = t[(int)x[threadIdx.x] % 8];
        }""",
        ("output", Level.ERROR, 16),
    ),
    "a fragment that was never set": (
        """__global__ void k(const float* x, float* out) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
            wmma::load_matrix_sync(a, (const half*)x, 16);
            wmma::load_matrix_sync(b, (const half*)x, 16);
            wmma::mma_sync(c, a, b, c);
            wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
        }""",
        ("output", Level.ERROR, 256),
    ),
    "a row of A spoils a row of D": (
        """__global__ void k(const float* x, float* out) {
            __shared__ __align__(32) half t[256];
            for (int i = threadIdx.x; i < 256; i += 32) if (i / 16 != 5) t[i] = __float2half(x[i]);
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
            wmma::load_matrix_sync(a, t, 16);
            wmma::load_matrix_sync(b, (const half*)x, 16);
            wmma::fill_fragment(c, 0.0f);
            wmma::mma_sync(c, a, b, c);
            wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
        }""",
        ("output", Level.ERROR, 16),
    ),
    "a column of B": (
        """__global__ void k(const float* x, float* out) {
            __shared__ __align__(32) half t[256];
            for (int i = threadIdx.x; i < 256; i += 32) if (i % 16 < 14) t[i] = __float2half(x[i]);
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
            wmma::load_matrix_sync(a, (const half*)x, 16);
            wmma::load_matrix_sync(b, t, 16);
            wmma::fill_fragment(c, 0.0f);
            wmma::mma_sync(c, a, b, c);
            wmma::store_matrix_sync(out, c, 16, wmma::mem_row_major);
        }""",
        ("output", Level.ERROR, 32),
    ),
    "only a branch": (
        """__global__ void k(const float* x, float* out) {
            __shared__ float row[64];
            row[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            if (((volatile float*)row)[40] > 0) __nanosleep(1);
            out[threadIdx.x] = row[threadIdx.x];
        }""",
        ("branch", Level.WARNING, 32),
    ),
    "an atomic on memory that was never zeroed": (
        """__global__ void k(const float* x, float* out) {
            __shared__ float sum;
            atomicAdd(&sum, x[threadIdx.x]);
            __syncthreads();
            out[threadIdx.x] = sum;
        }""",
        ("output", Level.ERROR, 32),
    ),
}

GOOD = {
    "filled by a loop": """__global__ void k(const float* x, float* out) {
            __shared__ float row[64];
            for (int i = threadIdx.x; i < 64; i += 32) row[i] = x[i];
            __syncthreads();
            out[threadIdx.x] = row[threadIdx.x] + row[threadIdx.x + 32];
        }""",
    "hidden by a bound": HALF_FILLED % "(x[threadIdx.x] > 1e9f ? row[threadIdx.x + 32] : 1.0f)",
    "hidden by a mask": HALF_FILLED
    % "__int_as_float(((int*)row)[threadIdx.x + 32] & (x[threadIdx.x] > 1e9f ? -1 : 0))",
    "bound and garbage in one condition": """__global__ void k(const float* x, float* out) {
            __shared__ float row[64];
            row[threadIdx.x] = x[threadIdx.x];
            __syncthreads();
            bool in = (int)threadIdx.x < (int)x[20];
            out[threadIdx.x] = (in & (row[threadIdx.x + 16] > 3.0f) & (threadIdx.x < 16)) ? 2.0f : 1.0f;
        }""",
    "padding of rows is loaded with them": """__global__ void k(const float* x, float* out) {
            __shared__ __align__(16) float t[32][4];
            for (int j = 0; j < 3; ++j) t[threadIdx.x][j] = x[threadIdx.x * 3 + j];
            __syncthreads();
            float4 v = *(float4*)t[31 - threadIdx.x];
            out[threadIdx.x] = v.x + v.y + v.z;
        }""",
    "the half that is used": """__global__ void k(const float* x, float* out) {
            __shared__ __align__(4) half t[64];
            t[2 * threadIdx.x] = __float2half(x[threadIdx.x]);
            __syncthreads();
            out[threadIdx.x] = __low2float(*(half2*)&t[2 * threadIdx.x]);
        }""",
    "bytes of a word, shifted out": """__global__ void k(const float* x, float* out) {
            __shared__ unsigned t[32];
            ((unsigned char*)t)[4 * threadIdx.x + 3] = (unsigned char)x[threadIdx.x];
            __syncthreads();
            out[threadIdx.x] = (float)(t[threadIdx.x] >> 24);
        }""",
    "rows past the end are computed and not stored": """__global__ void k(const float* x, float* out) {
            __shared__ __align__(32) half t[256];
            __shared__ float r[256];
            for (int i = threadIdx.x; i < 5 * 16; i += 32) t[i] = __float2half(x[i]);
            __syncwarp();
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
            wmma::load_matrix_sync(a, t, 16);
            wmma::load_matrix_sync(b, (const half*)x, 16);
            wmma::fill_fragment(c, 0.0f);
            wmma::mma_sync(c, a, b, c);
            wmma::store_matrix_sync(r, c, 16, wmma::mem_row_major);
            __syncwarp();
            for (int i = threadIdx.x; i < 5 * 16; i += 32) out[i] = r[i];
        }""",
    "overwritten before the end": """__global__ void k(const float* x, float* out) {
            __shared__ float row[64];
            out[threadIdx.x] = ((volatile float*)row)[threadIdx.x];
            __threadfence();
            ((volatile float*)out)[threadIdx.x] = x[threadIdx.x];
        }""",
    "copied asynchronously": """#include <cuda_pipeline.h>
        __global__ void k(const float* x, float* out) {
            __shared__ float row[32];
            __pipeline_memcpy_async(row + threadIdx.x, x + threadIdx.x, 4);
            __pipeline_commit();
            __pipeline_wait_prior(0);
            __syncthreads();
            out[threadIdx.x] = row[31 - threadIdx.x];
        }""",
    "a flag of an initialised array": """__global__ void k(const float* x, float* out) {
            __shared__ float sum;
            if (threadIdx.x == 0) sum = 0;
            __syncthreads();
            atomicAdd(&sum, x[threadIdx.x]);
            __syncthreads();
            if (sum > 3) out[threadIdx.x] = sum;
        }""",
}


def test_the_upper_of_two_integers_of_16_bits_is_followed() -> None:
    source = """__global__ void k(const float* x, float* out) {
        __shared__ short2 t[32];
        t[threadIdx.x].x = (short)x[threadIdx.x];
        __syncwarp();
        unsigned both = *(unsigned*)&t[threadIdx.x];
        asm volatile("max.s16x2 %0, %0, %1;" : "+r"(both) : "r"(0u));
        out[threadIdx.x] = (float)(both >> 16);
    }"""
    assert _run(source, arch="sm_90") == [("output", Level.ERROR, 32)]


@pytest.mark.parametrize("name", BAD)
def test_found(name: str) -> None:
    source, expected = BAD[name]
    assert expected in _run(source, 256)


@pytest.mark.parametrize("name", GOOD)
def test_look_alike(name: str) -> None:
    assert _run(GOOD[name], 256) == []


def test_an_output_that_is_read_before_it_is_written() -> None:
    source = "__global__ void k(float* out) { out[threadIdx.x] += 1.0f; }"
    out = np.full(32, np.nan, np.float32)
    (finding,) = found("uninitialised", source, out, names=("out",), fresh=((0, range(out.nbytes)),))
    assert (finding.kind, finding.level, finding.count) == ("output", Level.ERROR, 32)
    assert "out" in finding.message
    assert found("uninitialised", source, np.zeros(32, np.float32), names=("out",)) == ()


def test_words() -> None:
    x, out = np.zeros(64, np.float32), np.zeros((4, 8), np.float32)
    source = HALF_FILLED % "row[threadIdx.x + 32]"
    (finding,) = found("uninitialised", source, x, out, names=("x", "out"))
    assert finding.message == "line 9 reads row, which nothing has written, and the value reaches out at line 9"
    assert (finding.place.line, finding.other and finding.other.line) == (9, 9)
    assert finding.detail == (
        "first seen: block (0, 0, 0), warp 0, lane 0 reads row[32]",
        "reaches 32 elements in that block, out[0,0] to out[3,7]",
        "32 of 64 elements were written by then; not: elements 32 to 63 of row[64]",
        "line 7 had written 32 elements, row[0] to row[31]",
    )


@pytest.mark.parametrize("threads", [2, 5])
def test_threads_do_not_matter(threads: int) -> None:
    source = """__global__ void k(const float* x, float* out) {
        __shared__ float row[64];
        if (blockIdx.x % 3 != 1) row[threadIdx.x + 32] = 0;
        row[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        out[blockIdx.x * 32 + threadIdx.x] = row[threadIdx.x] + row[threadIdx.x + 32];
    }"""

    def run(count: int) -> object:
        x, out = np.zeros(64, np.float32), np.zeros(32 * 40, np.float32)
        return found("uninitialised", source, x, out, names=("x", "out"), grid=40, threads=count)

    assert run(threads) == run(1) != ()
