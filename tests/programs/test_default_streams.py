"""Each thread's own default stream: what it orders, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

PROGRAM = """
#include <cstdio>
#include <thread>
__global__ void fill(int* x, int v) { x[threadIdx.x] = v; }
__global__ void add(int* x, int v) { x[threadIdx.x] += v; }
int main(int argc, char**) {
    int *x, host[32];
    cudaStream_t s;
    cudaMalloc(&x, sizeof host);
    cudaStreamCreate(&s);
    fill<<<1, 32, 0, s>>>(x, 1);
    if (argc > 1) add<<<1, 32, 0, cudaStreamPerThread>>>(x, 2);
    else add<<<1, 32>>>(x, 2);
    cudaDeviceSynchronize();
    std::thread other([&] {
        add<<<1, 32>>>(x, 4);
        add<<<1, 32, 0, cudaStreamLegacy>>>(x, 8);
    });
    other.join();
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%d\\n", host[3]);
}
"""


@pytest.mark.subprocess
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ([], False),
        (["--", "own"], True),
        (["--default-stream", "per-thread"], True),
        (["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"], True),
    ],
)
def test_a_threads_own_default_stream_waits_for_the_legacy_one_alone(
    tmp_path: Path, words: list[str], found: bool
) -> None:
    done = run_program(tmp_path, PROGRAM, *words)
    assert done.stdout == "15\n", done.stderr
    said = " ".join(done.stderr.split())
    assert ("nothing orders the two" in said) == found
    assert "program.cu:18" not in said  # the legacy stream waits for it
