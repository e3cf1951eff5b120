"""Times that a program measures: emulated instructions, which is said where it asks for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

PROGRAM = r"""
#include <cuda.h>
#include <cstdio>
__global__ void work(float* x, int n) { for (int i = 0; i < n; ++i) x[threadIdx.x] += i; }
int main() {
    float *x, few = 0, many = 0;
    cudaMalloc(&x, 128), cudaMemset(x, 0, 128);
    cudaEvent_t begin, middle, end;
    cudaEventCreate(&begin), cudaEventCreate(&middle), cudaEventCreate(&end);
    cudaEventRecord(begin);
    work<<<1, 32>>>(x, 100);
    cudaEventRecord(middle);
    work<<<1, 32>>>(x, 1000);
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    ASK
    printf("%d\n", many > 5 * few);
}
"""


@pytest.mark.slow
@pytest.mark.subprocess
@pytest.mark.parametrize("ask", ["cudaEventElapsedTime", "cuEventElapsedTime", ""])
def test_times_between_events_are_said_to_be_instructions(tmp_path: Path, ask: str) -> None:
    asked = f"{ask}(&few, begin, middle), {ask}(&many, middle, end);" if ask else "many = 1;"
    for _ in range(2):  # of a program that is built already, too
        done = run_program(tmp_path, PROGRAM.replace("ASK", asked))
        assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
        assert ("times between events are emulated warp instructions" in done.stderr) == bool(ask), done.stderr
