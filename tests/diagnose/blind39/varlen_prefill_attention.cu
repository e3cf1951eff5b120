// Copyright (c) the engine authors. All rights reserved.
//
// Prefill attention over ragged batches: sequences are packed, cu_seqlens_q / cu_seqlens_k give their starts.
// Chunked prefill: a sequence may have more keys than queries in this step, the queries are the last ones of it.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace engine {
namespace attention {

struct PrefillParams {
    const __nv_bfloat16* q;      // [total_q, num_heads, kHeadDim]
    const __nv_bfloat16* k;      // [total_k, num_kv_heads, kHeadDim]
    const __nv_bfloat16* v;      // [total_k, num_kv_heads, kHeadDim]
    __nv_bfloat16*       out;    // [total_q, num_heads, kHeadDim]
    const int32_t*       cu_seqlens_q;
    const int32_t*       cu_seqlens_k;
    int32_t              num_heads;
    int32_t              num_kv_heads;
    float                sm_scale;
    float                logits_soft_cap;
};

constexpr int kHeadDim   = 64;
constexpr int kTileQ     = 64;
constexpr int kTileKV    = 32;
constexpr int kNumWarps  = kTileQ / 16;
constexpr int kThreads   = kNumWarps * 32;
constexpr int kVec       = 8;                    // bf16 per 16 bytes
constexpr int kVecPerRow = kHeadDim / kVec;

// Offset of a 16-byte vector in a tile of kHeadDim columns.
__device__ __forceinline__ int swizzle(int row, int vec) {
    return row * kHeadDim + ((vec ^ (row & 7)) * kVec);
}

__device__ __forceinline__ uint32_t smem_ptr(const void* p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_zfill(__nv_bfloat16* dst, const __nv_bfloat16* src, bool pred) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_ptr(dst)), "l"(src), "r"(pred ? 16 : 0));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm_x4(uint32_t* r, const __nv_bfloat16* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_ptr(p)));
}
__device__ __forceinline__ void ldsm_x4_trans(uint32_t* r, const __nv_bfloat16* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_ptr(p)));
}
__device__ __forceinline__ void mma_bf16(float* c, const uint32_t* a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 x = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&x);
}

template <int kRows>
__device__ __forceinline__ void load_tile(__nv_bfloat16* tile, const __nv_bfloat16* src, int64_t stride, int valid_rows) {
#pragma unroll
    for (int i = threadIdx.x; i < kRows * kVecPerRow; i += kThreads) {
        const int row = i / kVecPerRow;
        const int vec = i % kVecPerRow;
        const bool pred = row < valid_rows;
        cp_async_zfill(tile + swizzle(row, vec), pred ? src + row * stride + vec * kVec : src, pred);
    }
}

template <bool kCausal, bool kSoftCap>
__global__ void __launch_bounds__(kThreads) varlen_prefill_kernel(const PrefillParams params) {
    __shared__ __align__(128) __nv_bfloat16 smem_q[kTileQ * kHeadDim];
    __shared__ __align__(128) __nv_bfloat16 smem_k[kTileKV * kHeadDim];
    __shared__ __align__(128) __nv_bfloat16 smem_v[kTileKV * kHeadDim];

    const int batch_id = blockIdx.z;
    const int head_id  = blockIdx.y;
    const int q_begin  = params.cu_seqlens_q[batch_id];
    const int q_len    = params.cu_seqlens_q[batch_id + 1] - q_begin;
    const int k_begin  = params.cu_seqlens_k[batch_id];
    const int k_len    = params.cu_seqlens_k[batch_id + 1] - k_begin;
    const int q_tile   = blockIdx.x * kTileQ;
    if (q_tile >= q_len) {
        return;
    }

    const int kv_head_id = head_id / (params.num_heads / params.num_kv_heads);
    const int64_t q_stride  = static_cast<int64_t>(params.num_heads) * kHeadDim;
    const int64_t kv_stride = static_cast<int64_t>(params.num_kv_heads) * kHeadDim;
    const __nv_bfloat16* q_ptr = params.q + (q_begin + q_tile) * q_stride + head_id * kHeadDim;
    const __nv_bfloat16* k_ptr = params.k + k_begin * kv_stride + kv_head_id * kHeadDim;
    const __nv_bfloat16* v_ptr = params.v + k_begin * kv_stride + kv_head_id * kHeadDim;

    const int warp_id = threadIdx.x / 32;
    const int lane_id = threadIdx.x % 32;
    const int history = k_len - q_len;           // keys before the first query

    int kv_end = k_len;
    if (kCausal) {
        kv_end = min(k_len, min(q_tile + kTileQ, q_len) + history);
    }
    const int num_tiles = (kv_end + kTileKV - 1) / kTileKV;

    load_tile<kTileQ>(smem_q, q_ptr, q_stride, q_len - q_tile);
    load_tile<kTileKV>(smem_k, k_ptr, kv_stride, k_len);
    cp_async_commit();

    uint32_t frag_q[kHeadDim / 16][4];
    float frag_o[kHeadDim / 8][4];
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
#pragma unroll
    for (int n = 0; n < kHeadDim / 8; ++n) {
        frag_o[n][0] = frag_o[n][1] = frag_o[n][2] = frag_o[n][3] = 0.f;
    }

    for (int tile = 0; tile < num_tiles; ++tile) {
        const int kv_base = tile * kTileKV;

        // K of this tile has arrived; everybody is done with V of the previous one
        cp_async_wait<0>();
        __syncthreads();

        load_tile<kTileKV>(smem_v, v_ptr + kv_base * kv_stride, kv_stride, k_len - kv_base);
        cp_async_commit();

        if (tile == 0) {
#pragma unroll
            for (int kk = 0; kk < kHeadDim / 16; ++kk) {
                ldsm_x4(frag_q[kk], smem_q + swizzle(warp_id * 16 + lane_id % 16, kk * 2 + lane_id / 16));
            }
        }

        float frag_s[kTileKV / 8][4];
#pragma unroll
        for (int n = 0; n < kTileKV / 8; ++n) {
            frag_s[n][0] = frag_s[n][1] = frag_s[n][2] = frag_s[n][3] = 0.f;
        }
#pragma unroll
        for (int kk = 0; kk < kHeadDim / 16; ++kk) {
#pragma unroll
            for (int n = 0; n < kTileKV / 16; ++n) {
                uint32_t frag_k[4];
                ldsm_x4(frag_k, smem_k + swizzle(n * 16 + lane_id % 8 + lane_id / 16 * 8, kk * 2 + lane_id / 8 % 2));
                mma_bf16(frag_s[n * 2], frag_q[kk], frag_k[0], frag_k[1]);
                mma_bf16(frag_s[n * 2 + 1], frag_q[kk], frag_k[2], frag_k[3]);
            }
        }

        // scale, soft cap, mask
#pragma unroll
        for (int n = 0; n < kTileKV / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int qi = q_tile + warp_id * 16 + lane_id / 4 + i / 2 * 8;
                const int ki = kv_base + n * 8 + lane_id % 4 * 2 + i % 2;
                float s = frag_s[n][i] * params.sm_scale;
                if (kSoftCap) {
                    s = params.logits_soft_cap * tanhf(s / params.logits_soft_cap);
                }
                if (ki >= k_len || (kCausal && ki > qi + history)) {
                    s = -INFINITY;
                }
                frag_s[n][i] = s;
            }
        }

        // online softmax; rows lane / 4 and lane / 4 + 8
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = row_max[r];
#pragma unroll
            for (int n = 0; n < kTileKV / 8; ++n) {
                m = fmaxf(m, fmaxf(frag_s[n][r * 2], frag_s[n][r * 2 + 1]));
            }
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            const float rescale = __expf(row_max[r] - m);
            row_max[r] = m;
            float sum = 0.f;
#pragma unroll
            for (int n = 0; n < kTileKV / 8; ++n) {
                frag_s[n][r * 2]     = __expf(frag_s[n][r * 2] - m);
                frag_s[n][r * 2 + 1] = __expf(frag_s[n][r * 2 + 1] - m);
                sum += frag_s[n][r * 2] + frag_s[n][r * 2 + 1];
            }
            row_sum[r] = row_sum[r] * rescale + sum;
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                frag_o[n][r * 2] *= rescale;
                frag_o[n][r * 2 + 1] *= rescale;
            }
        }

        // V has arrived; everybody is done with K
        cp_async_wait<0>();
        __syncthreads();
        if (tile + 1 < num_tiles) {
            load_tile<kTileKV>(smem_k, k_ptr + (kv_base + kTileKV) * kv_stride, kv_stride, k_len - kv_base - kTileKV);
            cp_async_commit();
        }

#pragma unroll
        for (int kk = 0; kk < kTileKV / 16; ++kk) {
            uint32_t frag_p[4];
            frag_p[0] = pack_bf16(frag_s[kk * 2][0], frag_s[kk * 2][1]);
            frag_p[1] = pack_bf16(frag_s[kk * 2][2], frag_s[kk * 2][3]);
            frag_p[2] = pack_bf16(frag_s[kk * 2 + 1][0], frag_s[kk * 2 + 1][1]);
            frag_p[3] = pack_bf16(frag_s[kk * 2 + 1][2], frag_s[kk * 2 + 1][3]);
#pragma unroll
            for (int n = 0; n < kHeadDim / 16; ++n) {
                uint32_t frag_v[4];
                ldsm_x4_trans(frag_v, smem_v + swizzle(kk * 16 + lane_id % 16, n * 2 + lane_id / 16));
                mma_bf16(frag_o[n * 2], frag_p, frag_v[0], frag_v[1]);
                mma_bf16(frag_o[n * 2 + 1], frag_p, frag_v[2], frag_v[3]);
            }
        }
    }

    // normalize and write
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = row_sum[r];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        const float inv = 1.f / sum;
        const int qi = q_tile + warp_id * 16 + lane_id / 4 + r * 8;
        if (qi < q_len) {
            __nv_bfloat16* dst = params.out + (q_begin + qi) * q_stride + head_id * kHeadDim + lane_id % 4 * 2;
#pragma unroll
            for (int n = 0; n < kHeadDim / 8; ++n) {
                *reinterpret_cast<uint32_t*>(dst + n * 8) = pack_bf16(frag_o[n][r * 2] * inv, frag_o[n][r * 2 + 1] * inv);
            }
        }
    }
}

cudaError_t invoke_varlen_prefill(const PrefillParams& params, int batch_size, int max_q_len, bool causal, cudaStream_t stream) {
    const dim3 grid((max_q_len + kTileQ - 1) / kTileQ, params.num_heads, batch_size);
    const bool cap = params.logits_soft_cap > 0.f;
    auto* kernel = causal ? (cap ? varlen_prefill_kernel<true, true> : varlen_prefill_kernel<true, false>)
                          : (cap ? varlen_prefill_kernel<false, true> : varlen_prefill_kernel<false, false>);
    kernel<<<grid, kThreads, 0, stream>>>(params);
    return cudaGetLastError();
}

}  // namespace attention
}  // namespace engine
