// Attention backward, the pass that makes dQ (bf16 in and out, fp32 inside).
//
//     P  = exp(scale * Q K^T - lse)          dP = dO V^T          delta = rowsum(dO * O)
//     dS = P * (dP - delta)                  dQ = scale * dS K
//
// A CTA has 32 queries of one (batch, head) and walks over the keys 32 at a time. The 32 x 32 tiles of S and dP are
// split 2 x 2 over the four warps; dQ (32 x 64) is split 2 x 2 as well, two fragments per warp, kept in registers.
// Layout of all tensors: [batch, heads, seqlen, 64].
#include <cuda_bf16.h>
#include <mma.h>

namespace bwd {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::fragment;
using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::row_major;
using nvcuda::wmma::store_matrix_sync;

constexpr int D = 64;
constexpr int BLOCK_Q = 32;
constexpr int BLOCK_K = 32;
constexpr int NUM_THREADS = 128;
constexpr int STRIDE = D + 8;          // of bf16 tiles, elements
constexpr int STRIDE_S = BLOCK_K + 4;  // of fp32 tiles
constexpr int STRIDE_DS = BLOCK_K + 8;
constexpr int STRIDE_OUT = D + 4;

struct Smem {
    __nv_bfloat16 q[BLOCK_Q * STRIDE];
    __nv_bfloat16 dout[BLOCK_Q * STRIDE];
    __nv_bfloat16 k[BLOCK_K * STRIDE];
    __nv_bfloat16 v[BLOCK_K * STRIDE];
    __nv_bfloat16 ds[BLOCK_Q * STRIDE_DS];
    float s[BLOCK_Q * STRIDE_S];
    float dp[BLOCK_Q * STRIDE_S];
    float lse[BLOCK_Q];
    float delta[BLOCK_Q];
    float out[BLOCK_Q * STRIDE_OUT];
};

__device__ inline void copy_rows(__nv_bfloat16* to, const __nv_bfloat16* from, int begin, int end) {
    for (int i = threadIdx.x; i < 32 * D / 8; i += NUM_THREADS) {
        const int r = i / (D / 8), c = i % (D / 8) * 8;
        uint4 bits = make_uint4(0u, 0u, 0u, 0u);
        if (begin + r < end) bits = reinterpret_cast<const uint4*>(from + (size_t)(begin + r) * D)[c / 8];
        *reinterpret_cast<uint4*>(to + r * STRIDE + c) = bits;
    }
}

__global__ void __launch_bounds__(NUM_THREADS)
attention_dq(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const __nv_bfloat16* o,
             const __nv_bfloat16* dout, const float* lse, __nv_bfloat16* dq, int len_q, int len_k, float scale,
             int causal) {
    extern __shared__ __align__(32) char storage[];
    Smem& sm = *reinterpret_cast<Smem*>(storage);

    const int q0 = blockIdx.x * BLOCK_Q;
    const int bh = blockIdx.y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int wr = warp / 2, wc = warp % 2;

    q += (size_t)bh * len_q * D;
    o += (size_t)bh * len_q * D;
    dout += (size_t)bh * len_q * D;
    dq += (size_t)bh * len_q * D;
    k += (size_t)bh * len_k * D;
    v += (size_t)bh * len_k * D;
    lse += (size_t)bh * len_q;

    copy_rows(sm.q, q, q0, len_q);
    copy_rows(sm.dout, dout, q0, len_q);

    // delta: a warp has 8 rows, one after the other; a lane has two columns
    for (int r = warp * 8; r < warp * 8 + 8; ++r) {
        float part = 0.f;
        if (q0 + r < len_q) {
            const size_t at = (size_t)(q0 + r) * D + lane * 2;
            const float2 x = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(o + at));
            const float2 y = __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(dout + at));
            part = x.x * y.x + x.y * y.y;
        }
        for (int step = 16; step; step /= 2) part += __shfl_xor_sync(~0u, part, step);
        if (lane == 0) {
            sm.delta[r] = part;
            sm.lse[r] = q0 + r < len_q ? lse[q0 + r] : 0.f;
        }
    }

    fragment<accumulator, 16, 16, 16, float> acc[2];
    fill_fragment(acc[0], 0.f);
    fill_fragment(acc[1], 0.f);

    const int last = causal ? min(len_k, q0 + BLOCK_Q) : len_k;
    for (int k0 = 0; k0 < last; k0 += BLOCK_K) {
        copy_rows(sm.k, k, k0, len_k);
        copy_rows(sm.v, v, k0, len_k);
        __syncthreads();

        // S and dP: one 16 x 16 tile of each per warp
        fragment<accumulator, 16, 16, 16, float> s, dp;
        fill_fragment(s, 0.f);
        fill_fragment(dp, 0.f);
        for (int d = 0; d < D; d += 16) {
            fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fq, fdo;
            fragment<matrix_b, 16, 16, 16, __nv_bfloat16, col_major> fk, fv;
            load_matrix_sync(fq, sm.q + wr * 16 * STRIDE + d, STRIDE);
            load_matrix_sync(fk, sm.k + wc * 16 * STRIDE + d, STRIDE);
            mma_sync(s, fq, fk, s);
            load_matrix_sync(fdo, sm.dout + wr * 16 * STRIDE + d, STRIDE);
            load_matrix_sync(fv, sm.v + wc * 16 * STRIDE + d, STRIDE);
            mma_sync(dp, fdo, fv, dp);
        }
        store_matrix_sync(sm.s + wr * 16 * STRIDE_S + wc * 16, s, STRIDE_S, mem_row_major);
        store_matrix_sync(sm.dp + wr * 16 * STRIDE_S + wc * 16, dp, STRIDE_S, mem_row_major);
        __syncthreads();

        for (int i = threadIdx.x; i < BLOCK_Q * BLOCK_K; i += NUM_THREADS) {
            const int r = i / BLOCK_K, c = i % BLOCK_K;
            const bool seen = k0 + c < len_k && (!causal || k0 + c <= q0 + r);
            const float p = seen ? __expf(scale * sm.s[r * STRIDE_S + c] - sm.lse[r]) : 0.f;
            const float grad = p * (sm.dp[r * STRIDE_S + c] - sm.delta[r]);
            sm.ds[r * STRIDE_DS + c] = __float2bfloat16(grad);
        }
        __syncthreads();

        // dQ += dS K
        for (int kk = 0; kk < BLOCK_K; kk += 16) {
            fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> fds;
            load_matrix_sync(fds, sm.ds + wr * 16 * STRIDE_DS + kk, STRIDE_DS);
            for (int j = 0; j < 2; ++j) {
                fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> fk;
                load_matrix_sync(fk, sm.k + kk * STRIDE + wc * 32 + j * 16, STRIDE);
                mma_sync(acc[j], fds, fk, acc[j]);
            }
        }
        __syncthreads();
    }

    for (int j = 0; j < 2; ++j) {
        for (int e = 0; e < acc[j].num_elements; ++e) acc[j].x[e] *= scale;
        store_matrix_sync(sm.out + wr * 16 * STRIDE_OUT + wc * 32 + j * 16, acc[j], STRIDE_OUT, mem_row_major);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_Q * D; i += NUM_THREADS) {
        const int r = i / D, c = i % D;
        if (q0 + r < len_q) dq[(size_t)(q0 + r) * D + c] = __float2bfloat16(sm.out[r * STRIDE_OUT + c]);
    }
}

}  // namespace bwd

void launch_attention_dq(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, const __nv_bfloat16* o,
                         const __nv_bfloat16* dout, const float* lse, __nv_bfloat16* dq, int batch, int heads,
                         int len_q, int len_k, float scale, bool causal) {
    const dim3 grid((len_q + bwd::BLOCK_Q - 1) / bwd::BLOCK_Q, batch * heads);
    bwd::attention_dq<<<grid, bwd::NUM_THREADS, sizeof(bwd::Smem)>>>(q, k, v, o, dout, lse, dq, len_q, len_k, scale,
                                                                     causal);
}
