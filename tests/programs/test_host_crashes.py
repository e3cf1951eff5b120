"""A signal that ends host code is told at the line that it interrupted, not at one that was compiled beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import wmmadiag

PROGRAM = r"""#include <cstdlib>
#include <cuda_runtime.h>
__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }
struct Node { int value; Node* next; };
static int walk(Node* n) {
    int sum = 0;
    for (; n; n = n->next) sum += n->value;
    return sum;
}
int main(int argc, char**) {
    int* x;
    cudaMalloc(&x, 128);
    fill<<<1, 32>>>(x);
    cudaDeviceSynchronize();
    Node a{1, (Node*)0x10}, b{2, &a};
    if (argc == 1) return walk(&b);
    if (argc == 2) __builtin_trap();
    if (argc == 3) { volatile int zero = 0; return 5 / zero; }
    if (argc == 4) abort();
    return 0;
}
"""


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_line_that_a_signal_interrupted(tmp_path: Path) -> None:
    (tmp_path / "program.cu").write_text(PROGRAM)
    for words, signal, line in (([], "SIGSEGV", 7), (["1"], "SIGILL", 17), (["1"] * 2, "SIGFPE", 18),
                                (["1"] * 3, "SIGABRT", 19)):  # fmt: skip
        done = wmmadiag(tmp_path, "run", "program.cu", "--", *words)
        assert done.returncode > 128
        assert f"host code was ended by {signal}\n  at program.cu:{line}\n" in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_crash_says_nothing_of_a_kernel_and_an_abort_does(tmp_path: Path) -> None:
    text = r"""
#include <cstdio>
#include <cstdlib>
__global__ void halves(float* x) { x[threadIdx.x] *= 0.5f; }
int main() {
    float h[32] = {}, *x;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    halves<<<1, 32>>>(x);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    volatile int* nothing = nullptr;
    END;
}
"""
    for end, code, said in (
        ("*nothing = 1", 2, "undecided: its host code crashed"),
        ("abort()", 1, "WRONG: the program"),
    ):
        (tmp_path / "program.cu").write_text(text.replace("END", end))
        done = wmmadiag(tmp_path, "check", "program.cu")
        assert (done.returncode, said in done.stdout) == (code, True), done.stdout + done.stderr
