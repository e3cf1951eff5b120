"""A launch that does again what one before it did is not run again, and leaves what it would have left."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
    source = tmp_path / "program.cu"
    source.write_text(PROGRAM, "utf-8")
    command = [sys.executable, "-m", "wmmadiag", "run", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
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
