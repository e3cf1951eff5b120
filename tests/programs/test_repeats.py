"""A launch that does again what one before it did is not run again, and leaves what it would have left."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from command import run_program

from wmmadiag.programs import repeats

PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void total(const int* x, int* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, x[i]);
}
__global__ void twice(int* x, int n) { int i = threadIdx.x; if (i < n) x[i] *= 2; }
__global__ void flip(int* x) { x[threadIdx.x] ^= 1; }
__global__ void say() { if (threadIdx.x == 0) printf("said\n"); }
__global__ void copy(const int* from, int* to) { to[threadIdx.x] = from[threadIdx.x]; }
int main() {
    const int n = 64;
    int *x, *sum, *m, *out, h[n], got = 0, sums = 0;
    cudaMalloc(&x, sizeof h);
    cudaMalloc(&sum, sizeof(int));
    cudaMalloc(&out, sizeof h);
    cudaMallocManaged(&m, sizeof h);
    for (int i = 0; i < n; ++i) h[i] = i;
    for (int r = 0; r < 20; ++r) {  // the same again and again
        cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
        cudaMemset(sum, 0, sizeof(int));
        total<<<2, 32>>>(x, sum, n);
        cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost);
        sums += got;
    }
    printf("sums %d\n", sums);
    for (int r = 0; r < 20; ++r) total<<<2, 32>>>(x, sum, n);  // something else each time
    cudaMemcpy(&got, sum, sizeof got, cudaMemcpyDeviceToHost);
    printf("grown %d\n", got);
    for (int r = 0; r < 10; ++r) twice<<<1, n>>>(x, n);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("doubled %d\n", h[3]);
    for (int r = 0; r < 11; ++r) flip<<<1, n>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    printf("flipped %d\n", h[3]);
    for (int r = 0; r < 5; ++r) say<<<1, 32>>>();
    cudaDeviceSynchronize();
    int seen = 0;
    for (int r = 0; r < 10; ++r) {  // the host writes where no call tells of it
        m[5] = r;
        copy<<<1, n>>>(m, out);
        cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
        seen = seen * 2 + h[5];
    }
    printf("seen %d\n", seen);
}
"""


def test_only_launches_on_the_same_contents_are_repeats_and_memory_is_as_if_all_had_run(tmp_path: Path) -> None:
    done = run_program(tmp_path, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"sums {20 * sum(range(64))}",
        f"grown {21 * sum(range(64))}",
        f"doubled {3 << 10}",
        f"flipped {3 << 10 | 1}",
        *["said"] * 5,
        f"seen {sum(r << (9 - r) for r in range(10))}",
    ]
    # 19 sums after a reset, and 9 flips after the first to and fro; each of the others met other contents, or printed.
    found = re.search(r"(\d+) did the same again", done.stderr)
    assert found is not None, done.stderr
    assert int(found[1]) == 19 + 9


SYMBOLS = r"""
#include <cstdio>
#include <cuda_runtime.h>
__constant__ int factor;
__device__ int offset;
__device__ int calls;
__global__ void affine(int* out) { out[threadIdx.x] = factor * threadIdx.x + offset; }
__global__ void count() { if (threadIdx.x == 0) ++calls; }
int main() {
    int *out, h[32], wrong = 0, n;
    cudaMalloc(&out, sizeof h);
    for (int r = 0; r < 12; ++r) {
        int f = r % 3, o = r % 2;
        cudaMemcpyToSymbol(factor, &f, sizeof f);
        cudaMemcpyToSymbol(offset, &o, sizeof o);
        affine<<<1, 32>>>(out);
        count<<<1, 32>>>();
        cudaMemcpy(h, out, sizeof h, cudaMemcpyDeviceToHost);
        for (int i = 0; i < 32; ++i) wrong += h[i] != f * i + o;
    }
    cudaMemcpyFromSymbol(&n, calls, sizeof n);
    printf("wrong %d, calls %d\n", wrong, n);
}
"""


def test_constants_and_variables_of_the_device_are_memory_that_launches_hang_on(tmp_path: Path) -> None:
    done = run_program(tmp_path, SYMBOLS)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "wrong 0, calls 12\n"


class Runtime:
    """Memory of one allocation, as the runtime tells of it."""

    def __init__(self) -> None:
        self.bytes = np.zeros(64, np.uint8)

    def wmmadiag_content(self, address: ctypes.c_uint64) -> int:
        return hash((address.value, self.bytes.tobytes()))

    def wmmadiag_restore(
        self, address: ctypes.c_uint64, data: bytes, size: ctypes.c_uint64, content: ctypes.c_uint64
    ) -> None:
        assert (address.value, size.value) == (16, 64)
        assert content.value
        ctypes.memmove(self.bytes.ctypes.data, data, 64)

    def wmmadiag_watched(self, rows: ctypes.Array[repeats.Touched], most: ctypes.c_uint64) -> int:
        rows[0] = repeats.Touched(16, self.bytes.ctypes.data, 64)
        return 1


def test_where_too_much_is_kept_the_oldest_effect_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "_MOST", 100)  # one effect of 64 bytes, not two
    runtime = Runtime()
    known = repeats.Repeats(runtime)  # type: ignore[arg-type]
    kinds = repeats.Alike(), repeats.Alike()
    for to, alike in enumerate(kinds, 1):
        runtime.bytes[:] = 0
        before = {16: known.content(16)}
        runtime.bytes[:] = to
        known.note(alike, before, known.touched(), 10 * to, ())
    runtime.bytes[:] = 0
    assert known.of(kinds[0]) is None
    assert not runtime.bytes.any()
    effect = known.of(kinds[1])
    assert effect is not None
    assert effect.instructions == 20
    assert (runtime.bytes == 2).all()
    assert known.of(kinds[1]) is None  # on what it left it is another launch
    assert known.count == 1
