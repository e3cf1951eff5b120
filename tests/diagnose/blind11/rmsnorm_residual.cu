// residual += x; out = residual / rms(residual) * weight. One block a row, four floats at a time, as in inference code.
#include <cuda_runtime.h>

__device__ __forceinline__ float warp_sum(float v) {
    for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

// the sum over the block, in every thread
__device__ float block_sum(float v) {
    __shared__ float partial[32];
    const int lane = threadIdx.x & 31;
    const int wid = threadIdx.x >> 5;
    const int warps = (blockDim.x + 31) >> 5;

    v = warp_sum(v);
    if (lane == 0) partial[wid] = v;
    __syncthreads();
    v = lane < warps ? partial[lane] : 0.0f;
    v = warp_sum(v);
    return v;
}

__global__ void fused_add_rmsnorm(const float *x, float *residual, const float *weight, float *out, int dim, float eps) {
    const int row = blockIdx.x;
    const int vecs = dim / 4;
    const float4 *x4 = reinterpret_cast<const float4 *>(x) + (size_t)row * vecs;
    float4 *r4 = reinterpret_cast<float4 *>(residual) + (size_t)row * vecs;
    const float4 *w4 = reinterpret_cast<const float4 *>(weight);
    float4 *o4 = reinterpret_cast<float4 *>(out) + (size_t)row * vecs;

    float ss = 0.0f;
    for (int i = threadIdx.x; i < vecs; i += blockDim.x) {
        float4 a = x4[i];
        float4 b = r4[i];
        b.x += a.x;
        b.y += a.y;
        b.z += a.z;
        b.w += a.w;
        r4[i] = b;
        ss += b.x * b.x + b.y * b.y + b.z * b.z + b.w * b.w;
    }
    ss = block_sum(ss);
    const float inv = rsqrtf(ss / dim + eps);

    for (int i = threadIdx.x; i < vecs; i += blockDim.x) {
        float4 b = r4[i];
        float4 w = w4[i];
        b.x *= inv * w.x;
        b.y *= inv * w.y;
        b.z *= inv * w.z;
        b.w *= inv * w.w;
        o4[i] = b;
    }
}
