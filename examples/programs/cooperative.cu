// A sum in one launch: blocks write partial sums, the whole grid meets, block 0 adds them.
//
// `cooperative alone`: without the meeting block 0 reads what other blocks may not have written yet.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

namespace cg = cooperative_groups;

__global__ void total(const float* x, float* partial, float* out, int n, bool meet) {
    __shared__ float sums[128];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) partial[blockIdx.x] = sums[0];
    if (meet) cg::this_grid().sync();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float result = 0;
        for (int b = 0; b < gridDim.x; ++b) result += partial[b];
        *out = result;
    }
}

int main(int argc, char**) {
    bool meet = argc == 1;
    int n = 3000, device = 0, supported = 0, per_sm = 0;
    cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, device);
    if (!supported) return 2;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, total, 128, 0);
    const int blocks = per_sm > 0 ? 8 : 0;
    std::vector<float> x(n, 1.0f);
    float *d_x, *partial, *out, result = 0;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&partial, blocks * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    void* arguments[] = {&d_x, &partial, &out, &n, &meet};
    cudaError_t error = cudaLaunchCooperativeKernel((void*)total, dim3(blocks), dim3(128), arguments, 0, 0);
    if (error != cudaSuccess) {
        printf("%s\n", cudaGetErrorString(error));
        return 1;
    }
    cudaMemcpy(&result, out, sizeof(float), cudaMemcpyDeviceToHost);
    printf("sum = %g\n", result);
    cudaFree(d_x);
    cudaFree(partial);
    cudaFree(out);
    return 0;
}
