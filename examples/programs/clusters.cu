// A histogram whose bins lie in the shared memory of a cluster of blocks, launched by an attribute; and a ring in PTX, of a kernel that is
// compiled for its clusters. "forget": no block waits for the others' bins to be cleared.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void histogram(const int* input, int count, int* bins, int each, bool forget) {
    extern __shared__ int mine[];
    cg::cluster_group cluster = cg::this_cluster();
    for (int i = threadIdx.x; i < each; i += blockDim.x) mine[i] = 0;
    if (!forget) cluster.sync();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        int bin = input[i];
        atomicAdd(cluster.map_shared_rank(mine, bin / each) + bin % each, 1);
    }
    cluster.sync();
    for (int i = threadIdx.x; i < each; i += blockDim.x) atomicAdd(&bins[cluster.block_rank() * each + i], mine[i]);
}

__global__ void __cluster_dims__(4) ring(const int* in, int* out) {
    __shared__ int held[32];
    held[threadIdx.x] = in[blockIdx.x * 32 + threadIdx.x];
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned rank, far, here = static_cast<unsigned>(__cvta_generic_to_shared(&held[threadIdx.x]));
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(far) : "r"(here), "r"((rank + 1) % 4));
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(out[blockIdx.x * 32 + threadIdx.x]) : "r"(far) : "memory");
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

int main(int argc, char**) {
    const int count = 3000, bins = 256, size = 4;
    int *input, *found, *moved;
    cudaMallocManaged(&input, count * sizeof(int));
    cudaMallocManaged(&found, bins * sizeof(int));
    cudaMallocManaged(&moved, 256 * sizeof(int));
    std::vector<int> expected(bins);
    for (int i = 0; i < count; ++i) ++expected[input[i] = i * 37 % 251];
    cudaMemset(found, 0, bins * sizeof(int));
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {size, 1, 1};
    cudaLaunchConfig_t config{};
    config.gridDim = 8;
    config.blockDim = 128;
    config.dynamicSmemBytes = bins / size * sizeof(int);
    config.attrs = &attribute;
    config.numAttrs = 1;
    int clusters = 0;
    cudaOccupancyMaxActiveClusters(&clusters, histogram, &config);
    cudaLaunchKernelEx(&config, histogram, const_cast<const int*>(input), count, found, bins / size, argc > 1);
    ring<<<8, 32>>>(input, moved);
    if (cudaDeviceSynchronize() != cudaSuccess || clusters < 1) return 1;
    int wrong = 0;
    for (int i = 0; i < bins; ++i) wrong += found[i] != expected[i];
    for (int i = 0; i < 256; ++i) wrong += moved[i] != input[i / 128 * 128 + (i + 32) % 128];
    std::printf("%d wrong\n", wrong);
}
