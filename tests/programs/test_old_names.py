"""Names that CUDA took out, and programs still use: calls of old, and headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

OLD = r"""#include <cuda.h>
#include <cuda_runtime.h>
#include <cuda_texture_types.h>
#include <channel_descriptor.h>
#include <driver_functions.h>
#include <math_functions.h>
#include <surface_functions.h>
#include <texture_fetch_functions.h>
#include <cstdio>
__global__ void twice(float* x) { x[threadIdx.x] = fmaxf(2 * x[threadIdx.x], 0.0f); }
int main() {
    float *x, h[4] = {1, 2, -3, 4}, got[4];
    cudaThreadSetCacheConfig(cudaFuncCachePreferL1);
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    twice<<<1, 4>>>(x);
    cudaThreadSynchronize();
    cudaMemcpy(got, x, sizeof got, cudaMemcpyDeviceToHost);
    printf("%g %g %g %g\n", got[0], got[1], got[2], got[3]);
    cudaThreadExit();
}
"""


@pytest.mark.subprocess
def test_names_of_old(tmp_path: Path) -> None:
    done = run_program(tmp_path, OLD)
    assert (done.stdout, done.returncode) == ("2 4 0 8\n", 0), done.stderr


OWN = r"""#include <cstdio>
#include <string>
template <class T> class texture {
public:
    T held;
    std::string name;
    explicit texture(T value) : held(value), name("mine") {}
};
static texture<float> wood(2.5f);
__global__ void set(float* p, float value) { *p = value; }
int main() {
    float* p;
    cudaMallocManaged(&p, 4);
    set<<<1, 1>>>(p, wood.held);
    cudaDeviceSynchronize();
    printf("%g %s\n", *p, wood.name.c_str());
}
"""


@pytest.mark.subprocess
def test_a_class_of_the_programs_own_is_no_reference(tmp_path: Path) -> None:
    done = run_program(tmp_path, OWN)
    assert (done.stdout, done.returncode) == ("2.5 mine\n", 0), done.stderr


SHUFFLES = r"""#include <cstdio>
__device__ int sum(int value) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) value += __shfl_down(value, offset);
    return value;
}
__global__ void warps(int* out, double* numbers) {
    const int i = threadIdx.x, all = sum(i);
    if (i == 0) out[0] = all;
    out[1] = __ballot(i % 2), out[2] = __any(i == 3), out[3] = __all(i < 30);
    numbers[i] = __shfl_xor(i * 1.5, 1) + __shfl(i, 7) + __shfl_up((long long)i, 1);
}
int main() {
    int* out;
    double* numbers;
    cudaMallocManaged(&out, 16), cudaMallocManaged(&numbers, 256);
    warps<<<1, 32>>>(out, numbers);
    cudaDeviceSynchronize();
    printf("%d %x %d %d %g\n", out[0], out[1], out[2], out[3], numbers[2]);
}
"""


@pytest.mark.subprocess
def test_shuffles_and_votes_without_a_mask(tmp_path: Path) -> None:
    done = run_program(tmp_path, SHUFFLES)
    assert done.stdout == "496 aaaaaaaa 1 0 12.5\n", done.stderr
