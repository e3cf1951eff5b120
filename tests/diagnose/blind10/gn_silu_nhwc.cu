#include <cuda_fp16.h>
#include <cuda_runtime.h>

// GroupNorm (+ SiLU) of an NHWC activation, as diffusion UNets have it before every convolution.
// A block normalises one group of one image. Two passes over the activation: mean first, then the centred squares.

struct GroupNormNHWCParams {
    __half *dst;
    const __half *src;
    const float *gamma;     // [c]
    const float *beta;      // [c]
    float *mean;            // [n, groups], for the backward pass
    float *rstd;
    int n, hw, c, groups;
    float eps;
    bool withSilu;
};

template <int kThreads>
__device__ float blockSum(float value)
{
    __shared__ float partial[kThreads / 32];
    __shared__ float total;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;

#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_down_sync(0xFFFFFFFFu, value, offset);
    if (lane == 0)
        partial[warp] = value;
    __syncthreads();

    if (warp == 0) {
        value = lane < kThreads / 32 ? partial[lane] : 0.f;
#pragma unroll
        for (int offset = kThreads / 64; offset > 0; offset >>= 1)
            value += __shfl_down_sync(0xFFFFFFFFu, value, offset);
        if (lane == 0)
            total = value;
    }
    __syncthreads();
    return total;
}

__device__ __forceinline__ float silu(float x)
{
    return x / (1.f + __expf(-x));
}

template <int kThreads>
__global__ void groupNormNHWCKernel(GroupNormNHWCParams params)
{
    const int group = blockIdx.x, image = blockIdx.y;
    const int cPerGroup = params.c / params.groups;         // even
    const int pairs = cPerGroup / 2;
    const int count = params.hw * pairs;                    // half2s of the group
    const size_t base = (size_t)image * params.hw * params.c + group * cPerGroup;

    float sum = 0.f;
    for (int i = threadIdx.x; i < count; i += kThreads) {
        const int pixel = i / pairs, pair = i % pairs;
        const float2 x = __half22float2(*reinterpret_cast<const __half2 *>(&params.src[base + (size_t)pixel * params.c + pair * 2]));
        sum += x.x + x.y;
    }
    const float invCount = 1.f / (float)(params.hw * cPerGroup);
    const float mean = blockSum<kThreads>(sum) * invCount;

    float sumSq = 0.f;
    for (int i = threadIdx.x; i < count; i += kThreads) {
        const int pixel = i / pairs, pair = i % pairs;
        const float2 x = __half22float2(*reinterpret_cast<const __half2 *>(&params.src[base + (size_t)pixel * params.c + pair * 2]));
        const float dx = x.x - mean, dy = x.y - mean;
        sumSq += dx * dx + dy * dy;
    }
    const float var = blockSum<kThreads>(sumSq) * invCount;
    const float rstd = rsqrtf(var + params.eps);

    if (threadIdx.x == 0) {
        params.mean[image * params.groups + group] = mean;
        params.rstd[image * params.groups + group] = rstd;
    }

    for (int i = threadIdx.x; i < count; i += kThreads) {
        const int pixel = i / pairs, pair = i % pairs;
        const size_t at = base + (size_t)pixel * params.c + pair * 2;
        const int channel = group * cPerGroup + pair * 2;
        float2 y = __half22float2(*reinterpret_cast<const __half2 *>(&params.src[at]));
        y.x = (y.x - mean) * rstd * params.gamma[channel] + params.beta[channel];
        y.y = (y.y - mean) * rstd * params.gamma[channel + 1] + params.beta[channel + 1];
        if (params.withSilu) {
            y.x = silu(y.x);
            y.y = silu(y.y);
        }
        *reinterpret_cast<__half2 *>(&params.dst[at]) = __float22half2_rn(y);
    }
}

template __global__ void groupNormNHWCKernel<256>(GroupNormNHWCParams);
