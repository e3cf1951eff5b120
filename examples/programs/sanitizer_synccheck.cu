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
    cudaError_t error = cudaMemcpy(&out, d_out, sizeof(int), cudaMemcpyDeviceToHost);
    if (which == 2) printf("sum = %d\n", out);
    cudaFree(d_out);
    return 0;
}
