// FlashAttention-2 style forward without CUTLASS. sm80+, bf16 in, fp32 softmax, bf16 out.
//  - one CTA per (m_block, head, batch), kNWarps warps, each owns 16 rows of Q
//  - K / V are streamed from the last block to the first, cp.async overlapped with the MMAs
//  - P never leaves registers: the accumulator layout of S is the A operand layout of P
//  - causal mask is aligned to the bottom right corner of S (as flash-attn >= 2.1)
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

using bf16 = __nv_bfloat16;
using index_t = int64_t;
struct FwdParams {
    const bf16 *__restrict__ q_ptr;
    const bf16 *__restrict__ k_ptr;
    const bf16 *__restrict__ v_ptr;
    bf16 *__restrict__ o_ptr;
    float *__restrict__ softmax_lse_ptr;  // [b, h, seqlen_q]
    // strides in elements, the last dimension is contiguous
    index_t q_batch_stride, k_batch_stride, v_batch_stride, o_batch_stride;
    index_t q_row_stride, k_row_stride, v_row_stride, o_row_stride;
    index_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;
    int h, h_k, h_h_k_ratio;  // h_h_k_ratio = h / h_k, precomputed
    int seqlen_q, seqlen_k;
    float scale_softmax, scale_softmax_log2;
};

template <int kHeadDim_, int kBlockM_, int kBlockN_>
struct KernelTraits {
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kBlockM = kBlockM_;
    static constexpr int kBlockN = kBlockN_;
    static constexpr int kNWarps = kBlockM / 16;
    static constexpr int kNThreads = kNWarps * 32;
    static constexpr int kChunks = kHeadDim / 8;  // 16 byte chunks of a row
    static constexpr int kSmemSize = (kBlockM + 2 * kBlockN) * kHeadDim * sizeof(bf16);
};

template <typename T>
__device__ __forceinline__ T divup(T a, T b) { return (a + b - 1) / b; }

__device__ __forceinline__ uint32_t smem_u32(const void *p) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// xor swizzle on 16 byte chunks
template <int kHeadDim>
__device__ __forceinline__ int swz(int row, int chunk) { return row * kHeadDim + ((chunk ^ (row & 7)) << 3); }

__device__ __forceinline__ void cp_async_16B(bf16 *dst, const bf16 *src, bool pred) {
    int bytes = pred ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], const bf16 *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const bf16 *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack_bf16(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return reinterpret_cast<uint32_t &>(v);
}
// the four threads of a quad share a row
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
}
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffff, x, 2);
    return x + __shfl_xor_sync(0xffffffff, x, 1);
}

// gmem -> smem, rows beyond max_row are zero filled
template <typename Traits, int kRows>
__device__ __forceinline__ void copy_tile(bf16 *smem, const bf16 *gmem, index_t row_stride, int max_row) {
    constexpr int kChunks = Traits::kChunks;
    for (int i = threadIdx.x; i < kRows * kChunks; i += Traits::kNThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const bool pred = row < max_row;
        cp_async_16B(smem + swz<Traits::kHeadDim>(row, chunk), gmem + (pred ? row : 0) * row_stride + chunk * 8, pred);
    }
}

template <typename Traits, bool Is_causal>
__global__ void __launch_bounds__(Traits::kNThreads) flash_fwd_kernel(const FwdParams params) {
    constexpr int kBlockM = Traits::kBlockM, kBlockN = Traits::kBlockN, kHeadDim = Traits::kHeadDim;
    extern __shared__ __align__(128) unsigned char smem_raw[];
    bf16 *sQ = reinterpret_cast<bf16 *>(smem_raw);
    bf16 *sK = sQ + kBlockM * kHeadDim;
    bf16 *sV = sK + kBlockN * kHeadDim;

    const int m_block = blockIdx.x, bidh = blockIdx.y, bidb = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int bidh_k = bidh / params.h_h_k_ratio;

    const bf16 *gQ = params.q_ptr + bidb * params.q_batch_stride + bidh * params.q_head_stride +
                     m_block * kBlockM * params.q_row_stride;
    const bf16 *gK = params.k_ptr + bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
    const bf16 *gV = params.v_ptr + bidb * params.v_batch_stride + bidh_k * params.v_head_stride;

    const int causal_offset = params.seqlen_k - params.seqlen_q;
    int n_block_max = divup(params.seqlen_k, kBlockN);
    if (Is_causal) n_block_max = min(n_block_max, divup((m_block + 1) * kBlockM + causal_offset, kBlockN));

    int n_block = n_block_max - 1;
    copy_tile<Traits, kBlockM>(sQ, gQ, params.q_row_stride, params.seqlen_q - m_block * kBlockM);
    copy_tile<Traits, kBlockN>(sK, gK + n_block * kBlockN * params.k_row_stride, params.k_row_stride,
                               params.seqlen_k - n_block * kBlockN);
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
    uint32_t q_frag[kHeadDim / 16][4];
    for (int k = 0; k < kHeadDim / 16; ++k)
        ldsm_x4(q_frag[k], sQ + swz<kHeadDim>(warp * 16 + (lane & 15), 2 * k + (lane >> 4)));

    float acc_o[kHeadDim / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const int row_idx = m_block * kBlockM + warp * 16 + lane / 4;
    for (; n_block >= 0; --n_block) {
        // K of this block is there, and every warp is done with V of the last one
        cp_async_wait<0>();
        __syncthreads();
        copy_tile<Traits, kBlockN>(sV, gV + n_block * kBlockN * params.v_row_stride, params.v_row_stride,
                                   params.seqlen_k - n_block * kBlockN);
        cp_async_fence();

        // S = Q K^T
        float acc_s[kBlockN / 8][4] = {};
#pragma unroll
        for (int k = 0; k < kHeadDim / 16; ++k) {
            for (int n = 0; n < kBlockN / 16; ++n) {
                uint32_t b[4];
                ldsm_x4(b, sK + swz<kHeadDim>(n * 16 + (lane & 7) + ((lane >> 4) << 3), 2 * k + ((lane >> 3) & 1)));
                mma_bf16(acc_s[2 * n], q_frag[k], b[0], b[1]);
                mma_bf16(acc_s[2 * n + 1], q_frag[k], b[2], b[3]);
            }
        }

        // masking, only the blocks that need it
        const bool at_end = (n_block + 1) * kBlockN > params.seqlen_k;
        const bool at_diag = Is_causal && (n_block + 1) * kBlockN > m_block * kBlockM + causal_offset;
        if (at_end || at_diag) {
            for (int n = 0; n < kBlockN / 8; ++n) {
                for (int e = 0; e < 4; ++e) {
                    const int col = n_block * kBlockN + n * 8 + (lane % 4) * 2 + (e & 1);
                    const int row = row_idx + (e >> 1) * 8;
                    const int col_limit = Is_causal ? min(params.seqlen_k, row + 1 + causal_offset) : params.seqlen_k;
                    if (col >= col_limit) acc_s[n][e] = -INFINITY;
                }
            }
        }

        // V is there, and every warp is done with K
        cp_async_wait<0>();
        __syncthreads();
        if (n_block > 0) {
            copy_tile<Traits, kBlockN>(sK, gK + (n_block - 1) * kBlockN * params.k_row_stride, params.k_row_stride, kBlockN);
            cp_async_fence();
        }

        // online softmax
#pragma unroll
        for (int mi = 0; mi < 2; ++mi) {
            const float prev_max = row_max[mi];
            for (int n = 0; n < kBlockN / 8; ++n)
                row_max[mi] = fmaxf(row_max[mi], fmaxf(acc_s[n][2 * mi], acc_s[n][2 * mi + 1]));
            row_max[mi] = quad_max(row_max[mi]);
            // a row may be masked as a whole so far
            const float cur_max = row_max[mi] == -INFINITY ? 0.f : row_max[mi];
            const float scores_scale = exp2f((prev_max - cur_max) * params.scale_softmax_log2);
            row_sum[mi] *= scores_scale;
            for (int d = 0; d < kHeadDim / 8; ++d) {
                acc_o[d][2 * mi] *= scores_scale;
                acc_o[d][2 * mi + 1] *= scores_scale;
            }
            const float max_scaled = cur_max * params.scale_softmax_log2;
            for (int n = 0; n < kBlockN / 8; ++n) {
                for (int e = 2 * mi; e < 2 * mi + 2; ++e) {
                    acc_s[n][e] = exp2f(acc_s[n][e] * params.scale_softmax_log2 - max_scaled);
                    row_sum[mi] += acc_s[n][e];  // reduced over the quad at the end
                }
            }
        }

        // O += P V
#pragma unroll
        for (int k = 0; k < kBlockN / 16; ++k) {
            uint32_t p[4];
            p[0] = pack_bf16(acc_s[2 * k][0], acc_s[2 * k][1]);
            p[1] = pack_bf16(acc_s[2 * k][2], acc_s[2 * k][3]);
            p[2] = pack_bf16(acc_s[2 * k + 1][0], acc_s[2 * k + 1][1]);
            p[3] = pack_bf16(acc_s[2 * k + 1][2], acc_s[2 * k + 1][3]);
            for (int d = 0; d < kHeadDim / 16; ++d) {
                uint32_t b[4];
                ldsm_x4_t(b, sV + swz<kHeadDim>(k * 16 + (lane & 15), 2 * d + (lane >> 4)));
                mma_bf16(acc_o[2 * d], p, b[0], b[1]);
                mma_bf16(acc_o[2 * d + 1], p, b[2], b[3]);
            }
        }
    }

    // epilogue: normalise, stage through sQ (free since Q is in registers), write 16 bytes a thread
#pragma unroll
    for (int mi = 0; mi < 2; ++mi) {
        const float sum = quad_sum(row_sum[mi]);
        const float inv_sum = (sum == 0.f || sum != sum) ? 1.f : 1.f / sum;
        const int row = warp * 16 + mi * 8 + lane / 4;
#pragma unroll
        for (int d = 0; d < kHeadDim / 8; ++d)
            *reinterpret_cast<uint32_t *>(sQ + swz<kHeadDim>(row, d) + (lane % 4) * 2) =
                pack_bf16(acc_o[d][2 * mi] * inv_sum, acc_o[d][2 * mi + 1] * inv_sum);
        const int q_idx = row_idx + mi * 8;
        if (lane % 4 == 0 && q_idx < params.seqlen_q)
            params.softmax_lse_ptr[(bidb * params.h + bidh) * params.seqlen_q + q_idx] =
                (sum == 0.f || sum != sum) ? INFINITY : row_max[mi] * params.scale_softmax + __logf(sum);
    }
    __syncthreads();

    bf16 *gO = params.o_ptr + bidb * params.o_batch_stride + bidh * params.o_head_stride +
               m_block * kBlockM * params.o_row_stride;
    for (int i = threadIdx.x; i < kBlockM * Traits::kChunks; i += Traits::kNThreads) {
        const int row = i / Traits::kChunks, chunk = i % Traits::kChunks;
        if (m_block * kBlockM + row < params.seqlen_q)
            *reinterpret_cast<uint4 *>(gO + row * params.o_row_stride + chunk * 8) =
                *reinterpret_cast<const uint4 *>(sQ + swz<kHeadDim>(row, chunk));
    }
}

template <int kHeadDim>
void run_flash_fwd(const FwdParams &params, int b, bool is_causal, cudaStream_t stream) {
    using Traits = KernelTraits<kHeadDim, 64, 32>;
    dim3 grid((params.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM, params.h, b);
    auto kernel = is_causal ? &flash_fwd_kernel<Traits, true> : &flash_fwd_kernel<Traits, false>;
    kernel<<<grid, Traits::kNThreads, Traits::kSmemSize, stream>>>(params);
}
template void run_flash_fwd<64>(const FwdParams &, int, bool, cudaStream_t);
