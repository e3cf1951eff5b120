"""Memory that a stream makes and frees, and the heap of kernels: used before or after its time."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

STREAMS = r"""#include <cstdio>
__global__ void fill(int *x) { x[threadIdx.x] = threadIdx.x; }
__global__ void read(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
int main() {
    cudaStream_t s, t;
    cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking);
    cudaEvent_t there, done;
    cudaEventCreate(&there), cudaEventCreate(&done);
    int *p, *y, h = 0;
    cudaMalloc(&y, 128);
    cudaMallocAsync(&p, 128, s);
    fill<<<1, 32, 0, s>>>(p);
    cudaEventRecord(there, s);
    cudaStreamWaitEvent(t, there, 0);
    read<<<1, 32, 0, t>>>(p, y);
    cudaEventRecord(done, t);
    cudaStreamWaitEvent(s, done, 0);
    cudaFreeAsync(p, s);
    cudaStreamSynchronize(s);
    cudaMemcpy(&h, y + 9, 4, cudaMemcpyDeviceToHost);
    printf("%d\n", h);
}
"""


@pytest.mark.parametrize(
    ("without", "found"),
    [
        ("", "nothing found"),
        ("cudaStreamWaitEvent(s, done, 0);", "cudaFreeAsync in stream 1 frees bytes 0 to 127 of p"),
        ("cudaStreamWaitEvent(t, there, 0);", "read in stream 2 reads bytes 0 to 127 of p"),
        ("fill<<<1, 32, 0, s>>>(p);\n    cudaEventRecord(there, s);", "which cudaMallocAsync in stream 1 makes"),
    ],
)
def test_what_a_stream_makes_and_frees_is_used_in_its_order(tmp_path: Path, without: str, found: str) -> None:
    done = run_program(tmp_path, STREAMS.replace(without, ";") if without else STREAMS, "--checks", "races")
    assert done.stdout in ("9\n", "0\n")
    assert found in " ".join(done.stderr.split()) and done.returncode == (1 if without else 0), done.stderr


HEAP = r"""#include <cstdio>
__global__ void given() {
    int *p = (int *)malloc(64);
    WRONG
}
int main() {
    given<<<1, 1>>>();
    printf("%d\n", cudaDeviceSynchronize());
}
"""


@pytest.mark.parametrize("wrong", ["free(p);\n    free(p);", "free(p + 1);", "free(p + 4);", "int own; free(&own);"])
def test_a_wrong_free_in_a_kernel_is_told_at_its_line(tmp_path: Path, wrong: str) -> None:
    done = run_program(tmp_path, HEAP.replace("WRONG", wrong))
    line = 4 + wrong.count("\n")
    assert done.stdout == "719\n" and f"program.cu:{line}:" in done.stderr, done.stderr
    assert "free of what malloc and new did not give" in " ".join(done.stderr.split())
    right = run_program(tmp_path, HEAP.replace("WRONG", "free(p);\n    free(nullptr);"))
    assert right.stdout == "0\n" and "nothing found" in right.stderr
