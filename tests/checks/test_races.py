"""The check `races`: what it must find, and look-alikes that it must not."""

from __future__ import annotations

import numpy as np
import pytest
from race_kernels import OTHER_WARP_FLAG, RIGHT_READ, kernel, line, races

from wmmadiag.checks.finding import Level

WMMA = """
    __shared__ __align__(32) half a[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> g;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::fill_fragment(g, __float2half(1.0f));
    for (int i = t; i < 256; i += blockDim.x) a[i] = __float2half(float(i)); //W
    {between}
    wmma::load_matrix_sync(f, a, 16); //R
    wmma::mma_sync(c, f, g, c);
    wmma::store_matrix_sync(out + 256 * warp, c, 16, wmma::mem_row_major);
"""
NAMED = """
    __shared__ float s[64];
    if (warp < 2) s[t] = t; //W
    if (warp < {members}) asm volatile("bar.sync 1, {threads};" ::: "memory");
    if (warp < 2) out[t] = s[63 - t]; //R
"""
DOUBLE_BUFFER = """
    __shared__ float s[2][64];
    float sum = 0;
    s[0][t] = x[t];
    for (int i = 0; i < 4; ++i) {{
        __syncthreads();
        if (i + 1 < 4) s[{buffer}][t] = x[(i + 1) * 64 + t]; //W
        sum += s[i & 1][63 - t]; //R
    }}
    out[t] = sum;
"""

FLAGGED = {
    "no barrier": (RIGHT_READ, "read-write", "R", "W", {}),
    "barrier in the wrong place": (
        kernel("__shared__ float s[64]; __syncthreads(); s[t] = t; //W\n out[t] = s[63 - t]; //R"),
        "read-write", "R", "W", {},
    ),
    "syncwarp where other warps read": (
        kernel("__shared__ float s[64]; s[t] = t; //W\n __syncwarp(); out[t] = s[63 - t]; //R"),
        "read-write", "R", "W", {},
    ),
    "no barrier at the end of a loop": (
        kernel("__shared__ float s[64]; float a = 0; for (int i = 0; i < 3; ++i) { s[t] = x[t] + i; //W\n"
               "__syncthreads(); a += s[63 - t]; //R\n } out[t] = a;", "float* out, const float* x"),
        "read-write", "R", "W", {"arguments": (np.zeros(64, np.float32), np.ones(64, np.float32))},
    ),
    "two warps write": (
        kernel("__shared__ float s[32]; s[lane] = t; //W\n __syncthreads(); out[t] = s[lane];"),
        "same-store", "W", "", {},
    ),
    "flag without a fence": (kernel(OTHER_WARP_FLAG.format(fence="")), "read-write", "R", "W", {}),
    "plain and atomic": (
        kernel("__shared__ int n; if (t == 0) n = 0; //W\n atomicAdd(&n, 1); //R\n __syncthreads(); out[t] = n;"),
        "atomic-write", "R", "W", {},
    ),
    "fragment load of other warps' elements": (
        kernel(WMMA.format(between="__syncwarp();")), "read-write", "R", "W",
        {"arguments": (np.zeros(512, np.float32),)},
    ),
    "barrier that only the other warps pass": (
        kernel("__shared__ float s[64]; if (warp < 2) s[t] = t; //W\n"
               'if (warp > 0) asm volatile("bar.sync 1, 64;" ::: "memory");\n if (warp < 2) out[t] = s[63 - t]; //R'),
        "read-write", "R", "W", {"block": 96},
    ),
    "the same buffer again": (
        kernel(DOUBLE_BUFFER.format(buffer="i & 1"), "float* out, const float* x"),
        "read-write", "R", "W", {"arguments": (np.zeros(64, np.float32), np.ones(256, np.float32))},
    ),
    "bytes next to each other in one word are told apart": (
        kernel("__shared__ unsigned char s[64]; s[t] = t; //W\n __syncthreads();"
               "unsigned char v = s[t ^ 33]; s[t ^ 1] = 1; //R\n"
               "__syncthreads(); out[t] = s[t] + v; "),
        "read-write", "R", "R", {},
    ),
    "global memory within a block": (
        kernel("out[t] = t; //W\n out[128 + t] = out[63 - t]; //R"), "read-write", "R", "W", {},
    ),
    "two blocks write one element": (
        kernel("if (t == 0) out[0] = blockIdx.x + 5; //W"), "blocks-same-store", "W", "", {"grid": 2},
    ),
    "one block reads what another wrote": (
        kernel("if (blockIdx.x == 0) out[t] = t; //W\n else out[64 + t] = out[t]; //R"),
        "blocks-read-write", "R", "W", {"grid": 2},
    ),
    "plain sums of blocks": (
        kernel("out[t] += 1.0f; //W"), "blocks-read-write", "W", "W", {"grid": 3},
    ),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", FLAGGED)
def test_flagged(name, threads):
    source, kind, first, second, how = FLAGGED[name]
    how = dict(how)
    arguments = tuple(a.copy() for a in how.pop("arguments", (np.zeros(256, np.float32),)))
    seen = races(source, *arguments, threads=threads, **how)
    assert (kind, Level.ERROR, line(source, first), line(source, second) if second else 0) in {
        (f.kind, f.level, f.place.line, f.other.line if f.other else 0) for f in seen
    }, seen


LOOK_ALIKES = {
    "barrier": (RIGHT_READ.replace("//W", "\n__syncthreads();"), {}),
    "own element": (kernel("__shared__ float s[64]; s[t] = t; out[t] = s[t];"), {}),
    "syncwarp within a warp": (kernel("__shared__ float s[64]; s[t] = t; __syncwarp(); out[t] = s[t ^ 1];"), {}),
    "flag with fences": (kernel(OTHER_WARP_FLAG.format(fence="__threadfence_block();")), {}),
    "atomics alone": (
        kernel("__shared__ int n[4]; if (t < 4) n[t] = 0; __syncthreads(); atomicAdd(&n[t % 4], t);"
               "__syncthreads(); out[t] = n[t % 4];"), {},
    ),
    "fragment load after a barrier": (
        kernel(WMMA.format(between="__syncthreads();")), {"arguments": (np.zeros(512, np.float32),)},
    ),
    "named barrier of both warps": (kernel(NAMED.format(members=2, threads=64)), {"block": 96}),
    "producer and consumer barriers": (
        kernel("__shared__ float s[32]; for (int i = 0; i < 3; ++i) { if (warp == 0) {"
               'asm volatile("bar.sync 2, 64;" ::: "memory"); s[lane] = i;'
               'asm volatile("bar.arrive 1, 64;" ::: "memory"); }'
               'else { asm volatile("bar.arrive 2, 64;" ::: "memory"); asm volatile("bar.sync 1, 64;" ::: "memory");'
               "out[lane] = s[31 - lane]; } }"), {},
    ),
    "double buffer": (
        kernel(DOUBLE_BUFFER.format(buffer="(i + 1) & 1"), "float* out, const float* x"),
        {"arguments": (np.zeros(64, np.float32), np.ones(256, np.float32))},
    ),
    "half-words of other warps in one word": (
        kernel("__shared__ half s[64]; s[lane * 2 + warp] = __float2half(t);"
               "out[t] = __half2float(s[lane * 2 + warp]);"), {},
    ),
    "bytes of other warps in one word": (
        kernel("__shared__ unsigned char s[64]; s[lane * 2 + warp] = t; out[t] = s[lane * 2 + warp];"), {},
    ),
    "blocks write next to each other": (kernel("out[blockIdx.x + 4 * (t % 64)] = t;"), {"grid": 4}),
    "blocks sum atomically": (kernel("atomicAdd(&out[t], 1.0f);"), {"grid": 4}),
    "the last block adds up after fences": (
        kernel("""
    __shared__ bool last;
    out[64 + blockIdx.x * 64 + t] = t;
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd((int*)out, 1) == gridDim.x - 1;
    __syncthreads();
    if (last) { float sum = 0; for (int i = 0; i < gridDim.x; ++i) sum += out[64 + i * 64 + t]; out[192 + t] = sum; }
"""), {"grid": 2, "block": 64},
    ),
    "all lanes write one value": (kernel("__shared__ int n; if (warp == 0) n = 3; __syncthreads(); out[t] = n;"), {}),
    "a reader that shuffles before one lane writes": (
        kernel("__shared__ float m; if (t == 0) m = 1; __syncthreads(); if (warp == 0) { float v = m;"
               "v += __shfl_xor_sync(0xffffffff, v, 1); if (lane == 0) m = v; } __syncthreads(); out[t] = m;"), {},
    ),
    "a fragment stored over itself": (
        kernel("""
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    for (int i = lane; i < 256; i += 32) tile[i] = i;
    __syncwarp();
    for (int k = 0; k < 2; ++k) {
        wmma::load_matrix_sync(c, tile, 16, wmma::mem_row_major);
        c.x[0] += 1;
        wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
    }
    __syncwarp();
    out[lane] = tile[lane];
"""), {"block": 32},
    ),
    "in place, each element by one thread": (kernel("out[t] = out[t] * 2.0f + 1.0f;"), {"grid": 1}),
    "in place over a grid": (kernel("int i = blockIdx.x * 64 + t; out[i] = out[i] * 2.0f + 1.0f;"), {"grid": 4}),
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_not_flagged(name, threads):
    source, how = LOOK_ALIKES[name]
    how = dict(how)
    arguments = tuple(a.copy() for a in how.pop("arguments", (np.zeros(256, np.float32),)))
    assert races(source, *arguments, threads=threads, **how) == ()
