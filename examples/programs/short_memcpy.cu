// A copy of n bytes where n floats were meant: the kernel reads what nothing has written.
//
// `short_memcpy whole`: n * sizeof(float).
#include <cuda_runtime.h>

#include <cstdio>
#include <vector>

__global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float value = x[i];
        y[i] = a * value + y[i];
    }
}

int main(int argc, char**) {
    const int n = 256;
    const size_t bytes = argc > 1 ? n * sizeof(float) : n;
    std::vector<float> x(n, 1.0f), y(n, 2.0f);
    float *d_x, *d_y;
    cudaMalloc(&d_x, n * sizeof(float));
    cudaMalloc(&d_y, n * sizeof(float));
    cudaMemcpy(d_x, x.data(), bytes, cudaMemcpyHostToDevice);
    cudaMemcpy(d_y, y.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    axpy<<<n / 128, 128>>>(3.0f, d_x, d_y, n);
    cudaMemcpy(y.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("y[0] = %g\n", y[0]);
    cudaFree(d_x);
    cudaFree(d_y);
    return 0;
}
