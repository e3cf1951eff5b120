// csrc/rope_scores.cuh -- fused rotary embedding + attention logits (used by rope_scores.cpp through pybind11)
#pragma once
#include <cuda_bf16.h>
#include <mma.h>

#define DEVICE_INLINE __device__ __forceinline__

namespace rope_scores {

using bf16 = __nv_bfloat16;
using namespace nvcuda;

constexpr int kTile = 32;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;

struct ScoreParams {
    const bf16 *__restrict__ q;        // [B, Sq, H, D]
    const bf16 *__restrict__ k;        // [B, Sk, Hkv, D]
    const float *__restrict__ cos;     // [max_pos, D / 2]
    const float *__restrict__ sin;     // [max_pos, D / 2]
    float *__restrict__ scores;        // [B, H, Sq, Sk]
    int num_heads;
    int num_kv_heads;
    int seqlen_q;
    int seqlen_k;
    float softmax_scale;
};

// GPT-NeoX style: (x0, x1) are head_dim / 2 apart
DEVICE_INLINE void rotate(bf16 &y0, bf16 &y1, float x0, float x1, float c, float s) {
    y0 = __float2bfloat16(x0 * c - x1 * s);
    y1 = __float2bfloat16(x1 * c + x0 * s);
}

template <int kHeadDim, int kLd>
DEVICE_INLINE void load_rotated(bf16 *dst, const bf16 *src, const float *cos, const float *sin, int row_stride,
                                int row0, int rows, int pos0) {
    constexpr int kHalf = kHeadDim / 2;
    for (int i = threadIdx.x; i < kTile * kHalf; i += kThreads) {
        const int r = i / kHalf, d = i % kHalf;
        bf16 *out = dst + r * kLd + d;
        if (row0 + r < rows) {
            const bf16 *x = src + (size_t)(row0 + r) * row_stride + d;
            const int pos = pos0 + row0 + r;
            rotate(out[0], out[kHalf], __bfloat162float(x[0]), __bfloat162float(x[kHalf]), cos[pos * kHalf + d],
                   sin[pos * kHalf + d]);
        } else {
            out[0] = out[kHalf] = __float2bfloat16(0.f);
        }
    }
}

template <int kHeadDim, bool kCausal>
__global__ void __launch_bounds__(kThreads) rope_scores_kernel(ScoreParams p) {
    constexpr int kLd = kHeadDim + 8;
    __shared__ __align__(16) bf16 sQ[kTile * kLd];
    __shared__ __align__(16) bf16 sK[kTile * kLd];
    __shared__ __align__(16) float sS[kTile * (kTile + 4)];

    const int warp = threadIdx.x >> 5;
    const int k0 = blockIdx.x * kTile;
    const int q0 = blockIdx.y * kTile;
    const int b = blockIdx.z / p.num_heads;
    const int h = blockIdx.z % p.num_heads;
    const int hkv = h / (p.num_heads / p.num_kv_heads);
    const int offset = p.seqlen_k - p.seqlen_q;          // queries are the last positions

    const bf16 *q = p.q + ((size_t)b * p.seqlen_q * p.num_heads + h) * kHeadDim;
    const bf16 *k = p.k + ((size_t)b * p.seqlen_k * p.num_kv_heads + hkv) * kHeadDim;
    float *out = p.scores + (size_t)blockIdx.z * p.seqlen_q * p.seqlen_k;

    load_rotated<kHeadDim, kLd>(sQ, q, p.cos, p.sin, p.num_heads * kHeadDim, q0, p.seqlen_q, offset);
    load_rotated<kHeadDim, kLd>(sK, k, p.cos, p.sin, p.num_kv_heads * kHeadDim, k0, p.seqlen_k, 0);
    __syncthreads();

    const int wm = (warp / 2) * 16, wn = (warp % 2) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
#pragma unroll
    for (int d = 0; d < kHeadDim; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> fb;
        wmma::load_matrix_sync(fa, sQ + wm * kLd + d, kLd);
        wmma::load_matrix_sync(fb, sK + wn * kLd + d, kLd);
        wmma::mma_sync(acc, fa, fb, acc);
    }
#pragma unroll
    for (int i = 0; i < acc.num_elements; ++i) acc.x[i] *= p.softmax_scale;
    wmma::store_matrix_sync(sS + wm * (kTile + 4) + wn, acc, kTile + 4, wmma::mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
        const int r = i / kTile, c = i % kTile;
        const int row = q0 + r, col = k0 + c;
        if (row < p.seqlen_q && col < p.seqlen_k) {
            const bool masked = kCausal && col > row + offset;
            out[(size_t)row * p.seqlen_k + col] = masked ? -10000.f : sS[r * (kTile + 4) + c];
        }
    }
}

template __global__ void rope_scores_kernel<32, true>(ScoreParams);
template __global__ void rope_scores_kernel<32, false>(ScoreParams);
template __global__ void rope_scores_kernel<64, true>(ScoreParams);

}  // namespace rope_scores
