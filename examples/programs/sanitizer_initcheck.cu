// An accumulator of which only a part was set to zero: the class of compute-sanitizer's initcheck.
//
// `sanitizer_initcheck whole`: all of it.
#include <cuda_runtime.h>

#include <cstdio>

__global__ void add(const int* x, int* sums) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] += x[i];
}

int main(int argc, char**) {
    const int n = 128;
    int *x, *sums, host[n], out[n];
    for (int i = 0; i < n; ++i) host[i] = i;
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&sums, n * sizeof(int));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemset(sums, 0, argc > 1 ? n * sizeof(int) : n);
    add<<<2, 64>>>(x, sums);
    cudaMemcpy(out, sums, sizeof out, cudaMemcpyDeviceToHost);
    printf("sums[5] = %d\n", out[5]);
    cudaFree(x);
    cudaFree(sums);
    return 0;
}
