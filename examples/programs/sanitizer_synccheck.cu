// Barriers that not all reach, one a run (its number is the argument): the classes of compute-sanitizer's synccheck.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

// __syncthreads() in a branch that lanes of one warp take differently.
__global__ void divergent(int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (threadIdx.x < 48) {
        atomicAdd(&sum, 1);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = sum;
}

// A mask that names lanes which have gone another way.
__global__ void wrong_mask(int* out) {
    int value = threadIdx.x;
    if (threadIdx.x < 16) {
        __syncwarp(0xffffffff);
        value = value * 2;
    } else {
        value = __shfl_down_sync(0xffff0000, value, 1);
    }
    out[threadIdx.x] = value;
}

__device__ unsigned address(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// An mbarrier (sm_80) at which all meet; `known`: whether they wait until one of them has initialised it.
template <bool known>
__global__ void mbarrier(int* out) {
    __shared__ unsigned long long meeting;
    __shared__ int part[64];
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(address(&meeting)) : "memory");
    if (known) __syncthreads();
    part[threadIdx.x] = 1;
    unsigned long long state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(address(&meeting)) : "memory");
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(address(&meeting)), "l"(state)
                     : "memory");
    if (threadIdx.x != 0) return;
    int sum = 0;
    for (int i = 0; i < 48; ++i) sum += part[i];
    *out = sum;
}

// The barrier outside of the branch.
__global__ void right(int* out) {
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    if (threadIdx.x < 48) atomicAdd(&sum, 1);
    __syncthreads();
    if (threadIdx.x == 0) *out = sum;
}

int main(int argc, char** argv) {
    const int which = argc > 1 ? atoi(argv[1]) : 0;
    int *d_out, out = 0;
    cudaMalloc(&d_out, 64 * sizeof(int));
    if (which == 0) divergent<<<1, 64>>>(d_out);
    if (which == 1) wrong_mask<<<1, 32>>>(d_out);
    if (which == 2) right<<<1, 64>>>(d_out);
    if (which == 3) mbarrier<false><<<1, 64>>>(d_out);
    if (which == 4) mbarrier<true><<<1, 64>>>(d_out);
    cudaError_t error = cudaMemcpy(&out, d_out, sizeof(int), cudaMemcpyDeviceToHost);
    if (which >= 2) printf("sum = %d\n", out);
    cudaFree(d_out);
    return 0;
}
