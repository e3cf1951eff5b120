"""What kernels are compiled for and launched with: clusters, names, parameters; and what pools say of it."""

from __future__ import annotations

from pathlib import Path

from command import run_program

CLUSTERS = r"""#include <cooperative_groups.h>
#include <cstdio>
__global__ void plain(float* x, int n, char c) { x[blockIdx.x] = n + c; }
__global__ void __cluster_dims__(2, 1, 1) pairs(float* x) {
    x[blockIdx.x] = cooperative_groups::this_cluster().block_rank();
}
__global__ void __cluster_dims__(16, 1, 1) wide(float* x) { x[blockIdx.x] = 1; }
template <class... T> void launched(unsigned size, void (*kernel)(T...), T... arguments) {
    cudaLaunchAttribute one[1];
    one[0].id = cudaLaunchAttributeClusterDimension;
    one[0].val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t how{};
    how.gridDim = 32, how.blockDim = 1, how.attrs = one, how.numAttrs = 1;
    printf("%s\n", cudaGetErrorName(cudaLaunchKernelEx(&how, kernel, arguments...)));
    cudaGetLastError();
}
int main() {
    float* x;
    cudaMalloc(&x, 4096);
    for (unsigned size : {8, 16, 3}) launched(size, plain, x, 1, 'a');
    launched(4, pairs, x), launched(2, pairs, x);
    pairs<<<3, 1>>>(x), puts(cudaGetErrorName(cudaGetLastError()));
    wide<<<16, 1>>>(x), puts(cudaGetErrorName(cudaGetLastError()));
    cudaFuncSetAttribute((void*)plain, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    launched(16, plain, x, 1, 'a'), launched(32, plain, x, 1, 'a');
    for (auto kernel : {(const void*)plain, (const void*)pairs}) {
        cudaFuncAttributes of;
        cudaFuncGetAttributes(&of, kernel);
        printf("%d %d %d %d %d\n", of.clusterDimMustBeSet, of.requiredClusterWidth, of.requiredClusterHeight,
               of.requiredClusterDepth, of.nonPortableClusterSizeAllowed);
    }
    const char* name = "";
    cudaFuncGetName(&name, (const void*)plain), puts(name);
    for (size_t i = 1, offset, bytes; i < 3; i++)
        if (cudaFuncGetParamInfo((const void*)plain, i, &offset, &bytes) == cudaSuccess)
            printf("%zu %zu\n", offset, bytes);
    size_t offset;
    puts(cudaGetErrorName(cudaFuncGetParamInfo((const void*)plain, 3, &offset, nullptr)));
}
"""


def test_clusters_are_those_that_a_chip_takes(tmp_path: Path) -> None:
    """Each answer is an H200's."""
    done = run_program(tmp_path, CLUSTERS)
    good, refused = "cudaSuccess", "cudaErrorInvalidClusterSize"
    assert done.stdout.splitlines() == [
        good, refused, refused, refused, good, refused, refused, good, refused,
        "0 0 0 0 1", "1 2 1 1 0", "_Z5plainPfic", "8 4", "12 1", "cudaErrorInvalidValue",
    ], done.stderr  # fmt: skip
    told = " ".join(done.stderr.split())
    assert "a cluster of 4 blocks; the kernel was compiled for 2" in told
    assert "a grid of 3 × 1 × 1 blocks in clusters of 2 × 1 × 1" in told


POOLS = r"""#include <cstdint>
#include <cstdio>
void say(cudaMemPool_t pool) {
    for (auto one : {cudaMemPoolAttrReservedMemCurrent, cudaMemPoolAttrReservedMemHigh, cudaMemPoolAttrUsedMemCurrent,
                     cudaMemPoolAttrUsedMemHigh}) {
        uint64_t value = 1;
        cudaMemPoolGetAttribute(pool, one, &value), printf("%lu ", value);
    }
    puts("");
}
int main() {
    cudaMemPool_t pool, own, now;
    void *a, *b, *c;
    cudaDeviceGetDefaultMemPool(&pool, 0), say(pool);
    cudaMallocAsync(&a, 1000, 0), say(pool);
    cudaMallocAsync(&b, 40000000, 0), say(pool);
    cudaFreeAsync(b, 0), cudaDeviceSynchronize(), say(pool);
    cudaMemPoolProps props{};
    props.allocType = cudaMemAllocationTypePinned, props.location = {cudaMemLocationTypeDevice, 0};
    props.maxSize = 5000;
    cudaMemPoolCreate(&own, &props), cudaDeviceSetMemPool(0, own), cudaDeviceGetMemPool(&now, 0);
    cudaMallocAsync(&c, 4000, 0), say(own);
    const bool full = cudaMallocFromPoolAsync(&b, 2000, own, 0) == cudaErrorMemoryAllocation;
    uint64_t none = 0, much = UINT64_MAX;
    cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &much), cudaFree(c), say(own);
    cudaMemPoolTrimTo(own, 0), cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemHigh, &none), say(own);
    const auto set = cudaMemPoolSetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &none);
    printf("%d %d %d ", now == own, full, set == cudaErrorInvalidValue);
    printf("%d %d ", cudaMemPoolDestroy(pool) == cudaErrorInvalidValue, cudaMemPoolDestroy(own) == cudaSuccess);
    cudaDeviceGetMemPool(&now, 0), printf("%d\n", now == pool), cudaFreeAsync(a, 0);
}
"""


def test_pools_keep_books(tmp_path: Path) -> None:
    """The rows of the device's own pool are an H200's."""
    done = run_program(tmp_path, POOLS)
    chunk = 32 << 20
    rows = [
        (0, 0, 0, 0), (chunk, chunk, 1000, 1000),
        (2 * chunk, 2 * chunk, 40001000, 40001000), (chunk, 2 * chunk, 1000, 40001000),
        (chunk, chunk, 4000, 4000), (chunk, chunk, 0, 4000), (0, chunk, 0, 0), (1, 1, 1, 1, 1, 1),
    ]  # fmt: skip
    assert [tuple(map(int, line.split())) for line in done.stdout.splitlines()] == rows, done.stderr
