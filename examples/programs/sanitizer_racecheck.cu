// Hazards in shared memory, one a run (its number is the argument): the classes of compute-sanitizer's racecheck.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

__device__ int source = 1;

// Between warps: the sum is read before all have written.
__global__ void between_warps(int* out) {
    __shared__ int values[128];
    values[threadIdx.x] = threadIdx.x * source;
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 128; ++i) sum += values[i];
        *out = sum;
    }
}

// Within a warp: the first lane of each half reads what the others wrote, and nothing orders the lanes.
__global__ void within_warp(int* out) {
    __shared__ int values[32];
    __shared__ int halves[2];
    values[threadIdx.x] = threadIdx.x * source;
    if (threadIdx.x % 16 == 0) {
        int sum = 0;
        for (int i = 0; i < 16; ++i) sum += values[threadIdx.x + i];
        halves[threadIdx.x / 16] = sum;
    }
    __syncwarp();
    if (threadIdx.x == 0) *out = halves[0] + halves[1];
}

// The same with what orders them.
__global__ void ordered(int* out) {
    __shared__ int values[32];
    values[threadIdx.x] = threadIdx.x * source;
    __syncwarp();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < 32; ++i) sum += values[i];
        *out = sum;
    }
}

int main(int argc, char** argv) {
    const int which = argc > 1 ? atoi(argv[1]) : 0;
    int *d_out, out = 0;
    cudaMalloc(&d_out, sizeof(int));
    if (which == 0) between_warps<<<1, 128>>>(d_out);
    if (which == 1) within_warp<<<1, 32>>>(d_out);
    if (which == 2) ordered<<<1, 32>>>(d_out);
    cudaMemcpy(&out, d_out, sizeof(int), cudaMemcpyDeviceToHost);
    if (which == 2) printf("sum = %d\n", out);
    cudaFree(d_out);
    return 0;
}
