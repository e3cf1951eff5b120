// A device-side assert: the launch dies, and the next call that waits says so.
#include <cassert>
#include <cuda_runtime.h>

#include <cstdio>

__global__ void look_up(const int* index, const float* table, float* out, int size) {
    const int i = threadIdx.x;
    assert(index[i] < size);
    out[i] = table[index[i]];
}

int main() {
    const int n = 32;
    int index[n];
    float table[8] = {};
    for (int i = 0; i < n; ++i) index[i] = i % 9;
    int* d_index;
    float *d_table, *d_out;
    cudaMalloc(&d_index, sizeof index);
    cudaMalloc(&d_table, sizeof table);
    cudaMalloc(&d_out, n * sizeof(float));
    cudaMemcpy(d_index, index, sizeof index, cudaMemcpyHostToDevice);
    cudaMemcpy(d_table, table, sizeof table, cudaMemcpyHostToDevice);
    look_up<<<1, n>>>(d_index, d_table, d_out, 8);
    cudaError_t error = cudaDeviceSynchronize();
    printf("%s\n", cudaGetErrorName(error));
    return error == cudaSuccess ? 0 : 1;
}
