"""A program of a C source and a `.cu`: the C compiler takes the one, as nvcc has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import wmmadiag

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
    done = wmmadiag(tmp_path, "run", "main.c", "scale.cu")
    assert (done.stdout, done.returncode) == ("117\n", 0), done.stderr


LIBRARY = """#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include "own.h"
#include <cublas_v2.h>
int nothing_of(int *x) { return 2 * *x; }
double norm(const float *x, int n) {
    cublasHandle_t handle;
    float *there, found, *restrict kept = malloc(sizeof(float));
    cublasCreate(&handle);
    cudaMalloc((void **)&there, n * sizeof(float));
    cublasSetVector(n, sizeof(float), x, 1, there, 1);
    cublasSnrm2(handle, n, there, 1, &found);
    *kept = found;
    cublasSnrm2(handle, n + 1, there, 1, &found);
    cudaFree(there);
    return sqrt(*kept * *kept);
}
"""
HEADER = """#ifdef __cplusplus
extern "C" {
#endif
double norm(const float *x, int n);
int nothing_of(int *x);
#ifdef __cplusplus
}
#endif
"""
OTHERS = {
    "main.c": """#include "own.h"
#include <stdio.h>
int main(void) {
    float x[2] = {3, 4};
    int class = 21;
    printf("%g %d\\n", norm(x, 2), nothing_of(&class));
    return 0;
}
""",
    "own.h": HEADER,
}


@pytest.mark.subprocess
def test_a_c_source_that_calls_a_library_is_found_by_others_and_its_lines_are_told(tmp_path: Path) -> None:
    for name, text in {"norm.c": LIBRARY, **OTHERS}.items():
        (tmp_path / name).write_text(text, "utf-8")
    done = wmmadiag(tmp_path, "run", "main.c", "norm.c")
    assert (done.stdout, done.returncode) == ("5 42\n", 1), done.stderr
    assert "norm.c:15: cublasSnrm2 reads 12 bytes of there" in done.stderr


@pytest.mark.subprocess
def test_a_mistake_in_a_c_source_is_the_c_compilers(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("#include <stdio.h>\nint main(void) { return undefined_there; }\n", "utf-8")
    done = wmmadiag(tmp_path, "run", "main.c")
    assert done.returncode == 2 and "main.c:2:25: host code: ‘undefined_there’ undeclared" in done.stderr
