// Row softmax between the two GEMMs of unfused attention: one block per row, float in, half out for the P*V kernel.
#include <cuda_fp16.h>
#include <cfloat>

struct MaxOp { __device__ float operator()(float a, float b) const { return fmaxf(a, b); } };
struct SumOp { __device__ float operator()(float a, float b) const { return a + b; } };

template <class Op>
__device__ float block_reduce(float v, float identity, Op op)
{
    __shared__ float partial[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 6;
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffff, v, d));
    __syncthreads();
    if (lane == 0) partial[warp] = v;
    __syncthreads();
    v = lane < warps ? partial[lane] : identity;
#pragma unroll
    for (int d = 16; d > 0; d >>= 1) v = op(v, __shfl_xor_sync(0xffffffff, v, d));
    return v;
}

__global__ void softmax_rows(const float* __restrict__ scores, half* __restrict__ probs, int cols, float scale)
{
    const float* x = scores + (size_t)blockIdx.x * cols;
    half* y = probs + (size_t)blockIdx.x * cols;
    float m = -FLT_MAX;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) m = fmaxf(m, x[c] * scale);
    m = block_reduce(m, -FLT_MAX, MaxOp());
    float s = 0.0f;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) s += expf(x[c] * scale - m);
    s = block_reduce(s, 0.0f, SumOp());
    const float inv = 1.0f / s;
    for (int c = threadIdx.x; c < cols; c += blockDim.x) y[c] = __float2half(expf(x[c] * scale - m) * inv);
}
