"""A small right kernel, one that hangs, and a card for them, as texts: each runs in milliseconds."""

from __future__ import annotations

from pathlib import Path

RIGHT = """#include <mma.h>
using namespace nvcuda;
#ifndef FILL
#define FILL 0.0f
#endif
__global__ void gemm(const half* A, const half* B, float* C, int M, int N, int K)
{
    int r = blockIdx.y * 16, c = blockIdx.x * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, FILL);
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, A + r * K + k, K);
        wmma::load_matrix_sync(b, B + k * N + c, N);
        wmma::mma_sync(sum, a, b, sum);
    }
    wmma::store_matrix_sync(C + r * N + c, sum, N, wmma::mem_row_major);
}
void launch(half* a, half* b, float* c, int M, int N, int K) { gemm<<<dim3(N / 16, M / 16), 32>>>(a, b, c, M, N, K); }
"""
HANG = """#include <cuda_fp16.h>
extern "C" __global__ void hang(const half* A, const half* B, float* C, int M, int N, int K)
{
    volatile int go = 1;
    while (go) {}
    C[0] = 0;
}
"""
CARD = """format = 1
name = "{name}"
source = "{source}"
entry = "gemm"
arguments = [
    {{ name = "A", role = "a", dtype = "f16" }},
    {{ name = "B", role = "b", dtype = "f16" }},
    {{ name = "C", role = "d", dtype = "f32" }},
    {{ name = "M", dtype = "s32", value = "M" }},
    {{ name = "N", dtype = "s32", value = "N" }},
    {{ name = "K", dtype = "s32", value = "K" }},
]
launch = {{ grid = ["N / 16", "M / 16"], block = 32 }}
computes = {{ operation = "gemm" }}
cases = [{{ name = "one", M = 16, N = 16, K = 16 }}, {{ name = "{second}", M = 32, N = 16, K = 32 }}]
"""

PYTHON_CARD = """format = 1
name = "own"
source = "gemm.cu"
entry = "gemm"
arguments = [
    { name = "A", role = "a", dtype = "f16", shape = ["M", "K"] },
    { name = "B", role = "b", dtype = "f16", shape = ["K", "N"] },
    { name = "C", role = "d", dtype = "f32", shape = ["M", "N"], direction = "out" },
    { name = "M", dtype = "s32", value = "M" },
    { name = "N", dtype = "s32", value = "N" },
    { name = "K", dtype = "s32", value = "K" },
]
launch = { grid = ["N / 16", "M / 16"], block = 32 }
computes = { operation = "python", python = "own.py:f" }
tolerance = { atol = 1e-2, rtol = 1e-2 }
cases = [{ name = "one", M = 16, N = 16, K = 16 }]
"""
"""Of gemm.cu, whose reference is f in own.py."""


def write_card(folder: Path, name: str, source: str = "gemm.cu") -> Path:
    """A card in a folder, `name`.toml, for a source there, whose cases are "one" and "two"."""
    path = folder / f"{name}.toml"
    path.write_text(CARD.format(name=name, source=source, second="two"))
    return path


def write_right(folder: Path) -> Path:
    """gemm.cu and right.toml."""
    (folder / "gemm.cu").write_text(RIGHT)
    return write_card(folder, "right")


def write_wrong(folder: Path) -> Path:
    """wrong.cu, whose sums begin with 1, and wrong.toml."""
    (folder / "wrong.cu").write_text(RIGHT.replace("0.0f", "1.0f"))
    return write_card(folder, "wrong", "wrong.cu")
