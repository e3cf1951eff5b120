"""Names that CUDA took out, and programs still use: calls of old, headers, cuBLAS without handles."""

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
    done = run_program(tmp_path, OLD)
    assert (done.stdout, done.returncode) == ("84 4 6 12 8 24 0\n", 0), done.stderr


REFERENCES = r"""#include <cstdio>
#include <vector>
texture<float, 2, cudaReadModeElementType> grid;
#include "row.h"
static texture<uchar4, cudaTextureType2D, cudaReadModeNormalizedFloat> colours;
__global__ void fetch(float* out, int width) {
    const int x = threadIdx.x, y = blockIdx.x;
    out[y * width + x] = tex2D(grid, x + 0.5f, y + 0.5f) + tex1Dfetch(row, x);
}
__global__ void colour(float4* out) { out[threadIdx.x] = tex2D(colours, threadIdx.x, 0); }
int main() {
    const int width = 32, height = 8;
    std::vector<float> a(width * height), b(width), got(a.size());
    for (size_t i = 0; i < a.size(); i++) a[i] = i;
    for (int i = 0; i < width; i++) b[i] = 1000 * i;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaArray* array;
    cudaMallocArray(&array, &format, width, height);
    cudaMemcpyToArray(array, 0, 0, a.data(), a.size() * 4, cudaMemcpyHostToDevice);
    float *plain, *out;
    cudaMalloc(&plain, width * 4), cudaMalloc(&out, a.size() * 4);
    cudaMemcpy(plain, b.data(), width * 4, cudaMemcpyHostToDevice);
    grid.filterMode = cudaFilterModeLinear;
    grid.addressMode[0] = grid.addressMode[1] = cudaAddressModeClamp;
    printf("%d", cudaBindTextureToArray(grid, array, format));
    printf(" %d", cudaBindTexture(nullptr, row, plain, width * sizeof(float)));
    fetch<<<height, width>>>(out, width);
    cudaMemcpy(got.data(), out, a.size() * 4, cudaMemcpyDeviceToHost);
    printf(" %g %g", got[33], got[255]);
    printf(" %d", cudaUnbindTexture(grid));
    uchar4* pixels;
    size_t pitch;
    cudaMallocPitch((void**)&pixels, &pitch, 8 * sizeof(uchar4), 2);
    cudaMemset(pixels, 51, 2 * pitch);
    printf(" %d", cudaBindTexture2D(nullptr, colours, pixels, cudaCreateChannelDesc<uchar4>(), 8, 2, pitch));
    float4 *coloured, last[8];
    cudaMalloc(&coloured, sizeof last);
    colour<<<1, 8>>>(coloured);
    cudaMemcpy(last, coloured, sizeof last, cudaMemcpyDeviceToHost);
    printf(" %g\n", last[7].w);
}
"""
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
def test_references_to_textures(tmp_path: Path) -> None:
    (tmp_path / "row.h").write_text("#pragma once\ntexture<float> row;\n", "utf-8")
    done = run_program(tmp_path, REFERENCES)
    assert (done.stdout, done.returncode) == ("0 0 1033 31255 0 0 0.2\n", 0), done.stderr


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
