"""A program of a C source and a `.cu`: the C compiler takes the one, as nvcc has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MAIN = """#include <stdio.h>
#include <stdlib.h>
#include <cuda_runtime_api.h>
void scale(int *p, int n, int by);
int main(void) {
    int *class = malloc(40 * sizeof *class), *there, version = 0;
    for (int i = 0; i < 40; i++) class[i] = i;
    if (cudaRuntimeGetVersion(&version) || cudaMalloc((void **)&there, 160)) return 1;
    cudaMemcpy(there, class, 160, cudaMemcpyHostToDevice);
    scale(there, 40, 3);
    cudaMemcpy(class, there, 160, cudaMemcpyDeviceToHost);
    printf("%d\\n", class[39]);
    return 0;
}
"""
KERNEL = """__global__ void times(int* p, int n, int by) {
    if (threadIdx.x < n) p[threadIdx.x] *= by;
}
extern "C" void scale(int* p, int n, int by) { times<<<1, 64>>>(p, n, by); }
"""


@pytest.mark.subprocess
def test_c_beside_cuda(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text(MAIN, "utf-8")
    (tmp_path / "scale.cu").write_text(KERNEL, "utf-8")
    command = [sys.executable, "-m", "wmmadiag", "run", "main.c", "scale.cu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("117\n", 0), done.stderr
