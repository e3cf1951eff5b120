// Randomised Hadamard transform (as in QuIP#/QuaRot) of groups of 256 channels on tensor cores.
// H256 = H16 (x) H16, so with a group as a 16 x 16 matrix X:   Y = H16 * X * H16 / 16
// Also gives the largest |y| of each group for the quantiser behind.
#include <cuda_fp16.h>
#include <mma.h>

using nvcuda::wmma::fragment;
using nvcuda::wmma::accumulator;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;
using nvcuda::wmma::mem_row_major;

#define WARPS 4
#define GROUP 256
#define FULL_MASK 0xffffffff

__device__ __forceinline__ half hadamard_sign(int i, int j) {
    return (__popc(i & j) & 1) ? __float2half(-1.0f) : __float2half(1.0f);
}

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v = fmaxf(v, __shfl_xor_sync(FULL_MASK, v, offset));
    return v;
}

// grid (dim / 256, ceil(tokens / 4)); a warp per token and group
__global__ void hadamard256_kernel(const half* __restrict__ x, const half* __restrict__ signs,
                                   half* __restrict__ y, float* __restrict__ absmax, int tokens, int dim) {
    __shared__ __align__(32) half h16[256];
    __shared__ __align__(32) half work[WARPS][GROUP];
    __shared__ __align__(32) float result[WARPS][GROUP];

    int lane = threadIdx.x & 31;
    int warp = threadIdx.x >> 5;
    int group = blockIdx.x;
    int token = blockIdx.y * WARPS + warp;

    for (int i = threadIdx.x; i < 256; i += blockDim.x) h16[i] = hadamard_sign(i >> 4, i & 15);
    __syncthreads();
    if (token >= tokens) return;

    // signs first, eight channels per lane
    size_t base = (size_t)token * dim + group * GROUP;
    {
        int c = lane * 8;
        uint4 xv = *reinterpret_cast<const uint4*>(x + base + c);
        uint4 sv = *reinterpret_cast<const uint4*>(signs + group * GROUP + c);
        half2* xh = reinterpret_cast<half2*>(&xv);
        const half2* sh = reinterpret_cast<const half2*>(&sv);
#pragma unroll
        for (int t = 0; t < 4; t++) xh[t] = __hmul2(xh[t], sh[t]);
        *reinterpret_cast<uint4*>(&work[warp][c]) = xv;
    }
    __syncwarp();

    fragment<matrix_a, 16, 16, 16, half, row_major> fa;
    fragment<matrix_b, 16, 16, 16, half, row_major> fb;

    // H * X in half precision
    fragment<accumulator, 16, 16, 16, half> hx;
    nvcuda::wmma::fill_fragment(hx, __float2half(0.0f));
    nvcuda::wmma::load_matrix_sync(fa, h16, 16);
    nvcuda::wmma::load_matrix_sync(fb, work[warp], 16);
    nvcuda::wmma::mma_sync(hx, fa, fb, hx);
    for (int i = 0; i < hx.num_elements; i++) hx.x[i] = __hmul(hx.x[i], __float2half(0.25f));
    __syncwarp();
    nvcuda::wmma::store_matrix_sync(work[warp], hx, 16, mem_row_major);
    __syncwarp();

    // (H * X) * H in single precision
    fragment<accumulator, 16, 16, 16, float> hxh;
    nvcuda::wmma::fill_fragment(hxh, 0.0f);
    nvcuda::wmma::load_matrix_sync(fa, work[warp], 16);
    nvcuda::wmma::load_matrix_sync(fb, h16, 16);
    nvcuda::wmma::mma_sync(hxh, fa, fb, hxh);
    nvcuda::wmma::store_matrix_sync(result[warp], hxh, 16, mem_row_major);
    __syncwarp();

    float top = 0.0f;
    for (int i = lane; i < GROUP; i += 32) {
        float v = result[warp][i] * 0.25f;
        top = fmaxf(top, fabsf(v));
        y[base + i] = __float2half(v);
    }
    top = warp_max(top);
    if (lane == 0) absmax[token * (dim / GROUP) + group] = top;
}
