#pragma once
#include <cstdint>
#include <cuda_fp16.h>

// per-token symmetric quantization: q[m][k] = round(x[m][k] / s[m]),  s[m] = max|x[m][:]| / 127
// one block (kQuantThreads threads) per token
constexpr int kQuantThreads = 256;

__device__ __forceinline__ float block_max(float v, float *red) {
    const int lane = threadIdx.x & 31, wid = threadIdx.x >> 5;
#pragma unroll
    for (int off = 16; off; off >>= 1) v = fmaxf(v, __shfl_down_sync(0xffffffffu, v, off));
    if (lane == 0) red[wid] = v;
    __syncthreads();
    if (wid == 0) {
        v = lane < kQuantThreads / 32 ? red[lane] : 0.f;
#pragma unroll
        for (int off = 4; off; off >>= 1) v = fmaxf(v, __shfl_down_sync(0xffffffffu, v, off));
        if (lane == 0) red[0] = v;
    }
    __syncthreads();
    return red[0];
}

__global__ void quant_per_token(const half *__restrict__ x, int8_t *__restrict__ q, float *__restrict__ s, int K) {
    __shared__ float red[kQuantThreads / 32];
    const half *row = x + (size_t)blockIdx.x * K;
    int8_t *dst = q + (size_t)blockIdx.x * K;

    float amax = 0.f;
    for (int i = threadIdx.x; i < K; i += kQuantThreads) amax = fmaxf(amax, fabsf(__half2float(row[i])));
    amax = fmaxf(block_max(amax, red), 1e-8f);

    const float inv = 127.f / amax;
    for (int i = threadIdx.x; i < K; i += kQuantThreads) dst[i] = (int8_t)__float2int_rn(__half2float(row[i]) * inv);
    if (threadIdx.x == 0) s[blockIdx.x] = amax / 127.f;
}
