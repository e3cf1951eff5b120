// The grid covers more elements than there are, and the kernel does not look: the last block writes past the end.
//
// `last_block guard`: it looks.
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void square(float* x, int n, bool guard) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (guard && i >= n) return;
    x[i] = float(i) * float(i);
}

int main(int argc, char**) {
    const int n = 1000;
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    square<<<(n + 255) / 256, 256>>>(x, n, argc > 1);
    std::vector<float> out(n);
    cudaError_t error = cudaMemcpy(out.data(), x, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("%s\n", error == cudaSuccess && out[30] == 900.0f ? "PASSED" : "FAILED");
    cudaFree(x);
    return error == cudaSuccess ? 0 : 1;
}
