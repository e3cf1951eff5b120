#pragma once
#include <cuda_runtime.h>

struct Shape {
    int rows, cols;
};

// Defined in normalise.cu, used by kernels of both sources.
extern __device__ int rows_done;
__device__ float warp_sum(float x);

// y = x / sqrt(mean(x²)), row by row.
void normalise(const float* x, float* y, Shape shape);
