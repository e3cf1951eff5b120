// RMSNorm with a residual, as decoders have it between two layers: residual += x; y = residual / rms * weight.
//
// One warp per row, eight rows per block, two halves at a time. The sum is rounded to half where it is kept, and the
// normalised value before it meets the weight, as models that run in half do; see the card.
#include <cuda_fp16.h>

constexpr int WARP = 32;

__global__ void add_rms_norm(const half2* __restrict__ x, half2* __restrict__ residual,
                             const half2* __restrict__ weight, half2* __restrict__ y, int rows, int cols, float eps) {
    const int lane = threadIdx.x % WARP;
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (row >= rows) return;
    const int pairs = cols / 2;
    x += static_cast<size_t>(row) * pairs;
    y += static_cast<size_t>(row) * pairs;
    residual += static_cast<size_t>(row) * pairs;

    float squares = 0.0f;
    for (int i = lane; i < pairs; i += WARP) {
        const half2 sum = __hadd2(x[i], residual[i]);
        residual[i] = sum;
        const float2 wide = __half22float2(sum);
        squares += wide.x * wide.x + wide.y * wide.y;
    }
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        squares += __shfl_xor_sync(0xffffffffu, squares, distance);
    const float r = rsqrtf(squares / cols + eps);

    for (int i = lane; i < pairs; i += WARP) {
        const float2 wide = __half22float2(residual[i]);
        y[i] = __hmul2(__floats2half2_rn(wide.x * r, wide.y * r), weight[i]);
    }
}
