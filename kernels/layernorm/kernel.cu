// LayerNorm of half rows, one block per row: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// The row stays in shared memory as floats, so that the variance is taken about the mean in a second pass over it. Sums
// go through the warps' lanes first, then through one value per warp.
#include <cuda_fp16.h>

constexpr int WARP = 32;

__device__ float sum_of_warp(float value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

__device__ float sum_of_block(float value, float* of_warps) {
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    value = sum_of_warp(value);
    __syncthreads();  // of_warps may still be read from the sum before
    if (lane == 0) of_warps[warp] = value;
    __syncthreads();
    const int warps = blockDim.x / WARP;
    return sum_of_warp(lane < warps ? of_warps[lane] : 0.0f);
}

__global__ void layernorm(const half* __restrict__ x, const half* __restrict__ weight, const half* __restrict__ bias,
                          half* __restrict__ y, float* __restrict__ mean, float* __restrict__ rstd, int cols,
                          float eps) {
    extern __shared__ float row[];
    __shared__ float of_warps[WARP];
    x += static_cast<size_t>(blockIdx.x) * cols;
    y += static_cast<size_t>(blockIdx.x) * cols;

    float sum = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        row[i] = __half2float(x[i]);
        sum += row[i];
    }
    const float m = sum_of_block(sum, of_warps) / cols;

    float squares = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        const float apart = row[i] - m;
        squares += apart * apart;
    }
    const float r = rsqrtf(sum_of_block(squares, of_warps) / cols + eps);

    for (int i = threadIdx.x; i < cols; i += blockDim.x)
        y[i] = __float2half((row[i] - m) * r * __half2float(weight[i]) + __half2float(bias[i]));
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = m;
        rstd[blockIdx.x] = r;
    }
}
