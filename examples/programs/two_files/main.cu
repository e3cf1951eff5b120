// Two sources that share a header: the launcher is here, the kernel in normalise.cu.
#include <cstdio>
#include <vector>

#include "normalise.cuh"

int main() {
    const int rows = 3, cols = 40;
    std::vector<float> x(rows * cols);
    for (int i = 0; i < rows * cols; ++i) x[i] = float(i % 7) - 3.0f;
    float *d_x, *d_y;
    cudaMalloc(&d_x, x.size() * sizeof(float));
    cudaMalloc(&d_y, x.size() * sizeof(float));
    cudaMemcpy(d_x, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);
    normalise(d_x, d_y, Shape{rows, cols});
    cudaMemcpy(x.data(), d_y, x.size() * sizeof(float), cudaMemcpyDeviceToHost);
    double squares = 0;
    for (int j = 0; j < cols; ++j) squares += double(x[cols + j]) * x[cols + j];
    printf("mean square of row 1: %.4f\n", squares / cols);
    cudaFree(d_x);
    cudaFree(d_y);
    return 0;
}
