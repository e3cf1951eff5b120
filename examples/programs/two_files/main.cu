// Two sources that share a header, a device function and a device variable (nvcc -rdc=true): both kernels use what normalise.cu defines.
#include <cstdio>
#include <vector>

#include "normalise.cuh"

__global__ void mean_square(const float* y, float* mean, Shape shape) {
    float sum = 0;
    for (int j = threadIdx.x; j < shape.cols; j += warpSize) sum += y[blockIdx.x * shape.cols + j] * y[blockIdx.x * shape.cols + j];
    sum = warp_sum(sum);
    if (threadIdx.x == 0 && rows_done == shape.rows) mean[blockIdx.x] = sum / shape.cols;
}

int main() {
    const int rows = 3, cols = 40;
    std::vector<float> x(rows * cols);
    for (int i = 0; i < rows * cols; ++i) x[i] = float(i % 7) - 3.0f;
    float *d_x, *d_y;
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_y, x.size() * sizeof(float));
    cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    normalise(d_x, d_y, Shape{rows, cols});
    float *d_mean, mean[rows] = {};
    cudaMalloc(&d_mean, sizeof mean);
    mean_square<<<rows, 32>>>(d_y, d_mean, Shape{rows, cols});
    cudaMemcpy(mean, d_mean, sizeof mean, cudaMemcpyDeviceToHost);
    printf("mean square of row 1: %.4f\n", mean[1]);
    cudaFree(d_mean);
    cudaFree(d_x);
    cudaFree(d_y);
    return 0;
}
