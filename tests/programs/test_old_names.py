"""Names that CUDA took out, and programs still use: calls of old, headers, cuBLAS without handles."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_run_program import run

OLD = r"""#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_texture_types.h>
#include <channel_descriptor.h>
#include <driver_functions.h>
#include <math_functions.h>
#include <surface_functions.h>
#include <texture_fetch_functions.h>
#include <cublas.h>
#include <cstdio>
__global__ void twice(float* x) { x[threadIdx.x] = fmaxf(2 * x[threadIdx.x], 0.0f); }
int main() {
    float *x, h[4] = {1, 2, -3, 4}, got[4];
    cudaThreadSetCacheConfig(cudaFuncCachePreferL1);
    cublasInit();
    cublasAlloc(4, sizeof(float), (void**)&x);
    cublasSetVector(4, sizeof(float), h, 1, x, 1);
    twice<<<1, 4>>>(x);
    cudaThreadSynchronize();
    const float dot = cublasSdot(4, x, 1, x, 1);
    const int most = cublasIsamax(4, x, 1);
    cublasSgemm('n', 't', 2, 2, 1, 1.0f, x, 2, x, 2, 1.0f, x, 2);
    cublasGetVector(4, sizeof(float), x, 1, got, 1);
    printf("%g %d %g %g %g %g %d\n", dot, most, got[0], got[1], got[2], got[3], cublasGetError());
    cublasFree(x);
    cublasShutdown();
    cudaThreadExit();
}
"""


@pytest.mark.subprocess
def test_names_of_old(tmp_path: Path) -> None:
    done = run(tmp_path, OLD)
    assert (done.stdout, done.returncode) == ("84 4 6 12 8 24 0\n", 0), done.stderr
