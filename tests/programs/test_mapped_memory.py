"""The driver's virtual memory: reserved, mapped piece by piece, grown with its contents, taken away."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run_program

MAPPED = r"""#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>
__global__ void count(int* p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) p[i] = i;
}
__global__ void twice(int* p, size_t n) { if (threadIdx.x == 0) p[n - 1] = 2 * p[n - 1]; }
int main(int argc, char**) {
    int there = 0;
    cuInit(0);
    cuDeviceGetAttribute(&there, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0);
    CUmemAllocationProp what{};
    what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    what.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    size_t piece = 0;
    cuMemGetAllocationGranularity(&piece, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
    CUdeviceptr at;
    CUmemGenericAllocationHandle one, two;
    CUmemAccessDesc access{};
    access.location = what.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    printf("%d", there);
    printf(" %d", cuMemAddressReserve(&at, 3 * piece, 0, 0, 0));
    const size_t n = piece / sizeof(int);
    int* p = (int*)at;
    printf(" %d", cuMemCreate(&one, piece, &what, 0));
    printf(" %d", cuMemMap(at, piece, 0, one, 0));
    printf(" %d\n", cuMemSetAccess(at, piece, &access, 1));
    count<<<4, 256>>>(p, n);
    printf("%d", cuMemCreate(&two, piece, &what, 0));
    printf(" %d", cuMemMap(at + piece, piece, 0, two, 0));
    printf(" %d", cuMemSetAccess(at + piece, piece, &access, 1));
    printf(" %d\n", cuMemMap(at + 2 * piece, piece, 0, two, 0));
    count<<<4, 256>>>(p + n, n);
    twice<<<1, 32>>>(p, 2 * n);
    std::vector<int> got(2 * n);
    cudaMemcpy(got.data(), p, 2 * piece, cudaMemcpyDeviceToHost);
    printf("%d %d %d\n", got[n - 1], got[n + 5], got[2 * n - 1]);
    if (argc > 1) {
        count<<<4, 256>>>(p, 2 * n + 1);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    printf("%d", cuMemRelease(one));
    printf(" %d", cuMemRelease(two));
    printf(" %d", cuMemUnmap(at, 2 * piece));
    printf(" %d", cuMemAddressFree(at, 3 * piece));
    printf(" %s\n", cudaGetErrorName(cudaMemset(p, 0, 4)));
}
"""


@pytest.mark.subprocess
def test_mapped_memory_grows_and_goes(tmp_path: Path) -> None:
    done = run_program(tmp_path, MAPPED)
    last = (1 << 19) - 1
    lines = ["1 0 0 0 0", "0 0 0 801", f"{last} 5 {2 * last}", "0 0 0 0 cudaErrorInvalidValue"]
    assert done.stdout.splitlines() == lines, done.stderr
    assert "memory that is mapped to two addresses is not emulated" in " ".join(done.stderr.split())


@pytest.mark.subprocess
def test_what_lies_behind_it_is_out_of_bounds(tmp_path: Path) -> None:
    done = run_program(tmp_path, MAPPED, "--", "beyond")
    assert done.stdout.endswith("cudaErrorIllegalAddress\n") and done.returncode == 1, done.stderr
    assert "program.cu:6:" in done.stderr and "out of bounds of global" in " ".join(done.stderr.split())
