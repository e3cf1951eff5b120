// A matrix of halves times a vector, a warp per row, two columns at a time.
#include <cuda_fp16.h>

__global__ void gemv(const half2* a, const half2* x, float* y, int rows, int cols) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= rows) return;
    a += static_cast<size_t>(row) * (cols / 2);
    float sum = 0.0f;
    for (int i = lane; i < cols / 2; i += 32) {
        const float2 left = __half22float2(a[i]), right = __half22float2(x[i]);
        sum += left.x * right.x + left.y * right.y;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}
