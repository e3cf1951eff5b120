"""Kernels by handles: libraries that are loaded at run time, symbols, entry points of the driver by their names."""

from __future__ import annotations

from pathlib import Path

from command import run_program

LIBRARY = r"""#include <cuda.h>
#include <nvrtc.h>
#include <cstdio>
#include <string>
__global__ void scale(float *x, float a, int n) { if (threadIdx.x < n) x[threadIdx.x] *= a; }
const char *text = "extern \"C\" __device__ float gain = 2;\n"
                   "extern \"C\" __global__ void amplify(float *x, int n)\n"
                   "{ if (threadIdx.x < n) x[threadIdx.x] *= gain; }\n"
                   "extern \"C\" __global__ void clear(float *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 0; }\n";
int main() {
    nvrtcProgram p;
    nvrtcCreateProgram(&p, text, "text.cu", 0, nullptr, nullptr);
    nvrtcCompileProgram(p, 0, nullptr);
    size_t size;
    nvrtcGetPTXSize(p, &size);
    std::string ptx(size, 0);
    nvrtcGetPTX(p, &ptx[0]);
    int n = 8;
    float *x, h[8] = {1, 1, 1, 1, 1, 1, 1, 1}, a = 3;
    cudaMalloc(&x, sizeof h);
    cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
    cudaLibrary_t library;
    cudaKernel_t kernel, all[4];
    unsigned count = 0;
    cudaLibraryLoadData(&library, ptx.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    cudaLibraryGetKernelCount(&count, library);
    cudaLibraryEnumerateKernels(all, 4, library);
    printf("%u %d ", count, cudaLibraryGetKernel(&kernel, library, "nothing"));
    cudaGetLastError();
    cudaLibraryGetKernel(&kernel, library, "amplify");
    void *gain, *arguments[] = {&x, &n}, *scaled[] = {&x, &a, &n};
    size_t bytes;
    cudaLibraryGetGlobal(&gain, &bytes, library, "gain");
    cudaMemcpy(gain, &a, bytes, cudaMemcpyHostToDevice);
    cudaLaunchKernel((const void *)kernel, 1, 32, arguments, 0, 0);
    cudaFunction_t function;
    cudaGetFuncBySymbol(&function, (const void *)scale);
    cuLaunchKernel((CUfunction)function, 1, 1, 1, 32, 1, 1, 0, 0, scaled, nullptr);
    cudaGetKernel(&kernel, (const void *)scale);
    cudaLaunchKernel((const void *)kernel, 1, 32, scaled, 0, 0);
    cudaMemcpy(h, x, sizeof h, cudaMemcpyDeviceToHost);
    const auto shared = cudaFuncAttributeMaxDynamicSharedMemorySize;
    printf("%g %d ", h[7], cudaKernelSetAttributeForDevice(kernel, shared, 1 << 16, 0));
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPointByVersion("cuMemGetInfo", &entry, 12000, cudaEnableDefault, &found);
    size_t left = 0, total = 0;
    ((CUresult (*)(size_t *, size_t *))entry)(&left, &total);
    printf("%d %d ", found, total > 0);
    cudaGetDriverEntryPointByVersion("cuNothing", &entry, 12000, cudaEnableDefault, &found);
    printf("%d %d ", found, entry == nullptr);
    cudaGetDriverEntryPointByVersion("cuMemPrefetchAsync", &entry, 12000, cudaEnableDefault, &found);
    printf("%d ", found);
    CUdriverProcAddressQueryResult result;
    printf("%d %d\n", cuGetProcAddress("cuMemAlloc", &entry, 13000, 0, &result), result);
    return cudaGetLastError();
}
"""


def test_handles_of_kernels(tmp_path: Path) -> None:
    done = run_program(tmp_path, LIBRARY)
    assert (done.stdout, done.returncode) == ("2 500 27 0 0 1 1 1 2 0 0\n", 0), done.stderr
    assert "nothing found" in done.stderr
