// GroupNorm of half images with channels last, and SiLU where it is asked for: one block per image and group.
//
// Two passes over the group's elements: the variance is taken about the mean.
#include <cuda_fp16.h>

__device__ float sum_of_block(float value) {
    __shared__ float of_warps[32];
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    __syncthreads();  // of_warps may still be read from the sum before
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
    for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += of_warps[warp];
    return sum;
}

__global__ void group_norm(const half* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
                           half* __restrict__ y, int channels, int groups, int pixels, float eps, bool silu) {
    const int depth = channels / groups, count = depth * pixels;
    const int first = blockIdx.x * depth;  // channel
    x += static_cast<size_t>(blockIdx.y) * pixels * channels + first;
    y += static_cast<size_t>(blockIdx.y) * pixels * channels + first;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += __half2float(x[i / depth * channels + i % depth]);
    const float mean = sum_of_block(sum) / count;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const float apart = __half2float(x[i / depth * channels + i % depth]) - mean;
        squares += apart * apart;
    }
    const float r = rsqrtf(sum_of_block(squares) / count + eps);

    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        const int at = i / depth * channels + i % depth, channel = first + i % depth;
        float value = (__half2float(x[at]) - mean) * r * weight[channel] + bias[channel];
        if (silu) value = value / (1.0f + __expf(-value));
        y[at] = __float2half(value);
    }
}
