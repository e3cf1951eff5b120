/******************************************************************************
 * minifa: a small flash attention.
 *
 * Forward pass for bf16, head dims 32 and 64, grouped-query attention, causal
 * masks aligned to the bottom right corner, and a sliding window. Everything
 * after the loads happens in registers (mma.m16n8k16).
 ******************************************************************************/
#include <cuda_bf16.h>

namespace minifa {

using bf16 = __nv_bfloat16;

struct FwdParams {
    const bf16 *q_ptr, *k_ptr, *v_ptr;
    bf16 *o_ptr;
    // in elements; o has the strides of q, v those of k
    int q_batch_stride, q_row_stride, q_head_stride;
    int k_batch_stride, k_row_stride, k_head_stride;
    int seqlen_q, seqlen_k;
    int h_h_k_ratio;            // query heads per key head
    int window_left;            // keys before its own that a row sees, -1: all
    float scale_softmax_log2;   // scale * log2(e)
};

__device__ __forceinline__ unsigned smem_u32(const void *ptr) {
    return static_cast<unsigned>(__cvta_generic_to_shared(ptr));
}

__device__ __forceinline__ void cp_async_16(void *dst, const void *src, bool pred) {
    const int src_size = pred ? 16 : 0;   // the rest is filled with zeros
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(src_size));
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }

template <int N>
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const bf16 *ptr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(ptr)));
}

__device__ __forceinline__ void ldsm_x4_t(unsigned (&r)[4], const bf16 *ptr) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(ptr)));
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
    __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<unsigned *>(&v);
}

// Chunks of 8 elements are permuted within a row, so that ldmatrix has no bank conflicts.
template <int kHeadDim>
__device__ __forceinline__ int swizzled(int row, int chunk) {
    return row * kHeadDim + ((chunk ^ (row & (kHeadDim / 8 - 1))) << 3);
}

template <int kRows, int kHeadDim, int kNThreads>
__device__ __forceinline__ void load_tile(bf16 *smem, const bf16 *gmem, int row_stride, int max_rows) {
    constexpr int kChunks = kHeadDim / 8;
    #pragma unroll
    for (int i = threadIdx.x; i < kRows * kChunks; i += kNThreads) {
        const int row = i / kChunks, chunk = i % kChunks;
        const bool pred = row < max_rows;
        cp_async_16(smem + swizzled<kHeadDim>(row, chunk), gmem + (pred ? row * row_stride : 0) + chunk * 8, pred);
    }
}

// shared memory: (kBlockM + 2 * kBlockN) * kHeadDim elements
template <int kHeadDim, bool Is_causal, int kBlockM = 64, int kBlockN = 32>
__global__ void __launch_bounds__(kBlockM * 2) flash_fwd_kernel(const FwdParams params) {
    constexpr int kNThreads = kBlockM * 2;   // a warp has 16 rows
    extern __shared__ __align__(128) unsigned char smem_[];
    bf16 *sQ = reinterpret_cast<bf16 *>(smem_);
    bf16 *sK = sQ + kBlockM * kHeadDim;
    bf16 *sV = sK + kBlockN * kHeadDim;

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int m_block = blockIdx.x, bidh = blockIdx.y, bidb = blockIdx.z;
    const int bidh_k = bidh / params.h_h_k_ratio;
    const int diag = params.seqlen_k - params.seqlen_q;   // row i sees the keys up to i + diag

    const int q_offset = bidb * params.q_batch_stride + m_block * kBlockM * params.q_row_stride + bidh * params.q_head_stride;
    const int k_offset = bidb * params.k_batch_stride + bidh_k * params.k_head_stride;
    const bf16 *gK = params.k_ptr + k_offset;
    const bf16 *gV = params.v_ptr + k_offset;

    int n_block_min = 0;
    if (params.window_left >= 0) n_block_min = max(0, (m_block * kBlockM + diag - params.window_left) / kBlockN);
    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) n_block_max = min(n_block_max, ((m_block + 1) * kBlockM + diag + kBlockN - 1) / kBlockN);

    load_tile<kBlockM, kHeadDim, kNThreads>(sQ, params.q_ptr + q_offset, params.q_row_stride, params.seqlen_q - m_block * kBlockM);
    cp_async_commit();
    if (n_block_min < n_block_max)
        load_tile<kBlockN, kHeadDim, kNThreads>(sK, gK + n_block_min * kBlockN * params.k_row_stride, params.k_row_stride,
                                                params.seqlen_k - n_block_min * kBlockN);
    cp_async_commit();

    cp_async_wait<1>();   // Q is there, K may still be on its way
    __syncthreads();
    unsigned tQ[kHeadDim / 16][4];
    #pragma unroll
    for (int kk = 0; kk < kHeadDim / 16; ++kk)
        ldsm_x4(tQ[kk], sQ + swizzled<kHeadDim>(warp * 16 + (lane & 15), kk * 2 + (lane >> 4)));

    const float neg_inf = __int_as_float(0xff800000);
    float acc_o[kHeadDim / 8][4] = {};
    float row_max[2] = {neg_inf, neg_inf}, row_sum[2] = {0.f, 0.f};

    for (int n_block = n_block_min; n_block < n_block_max; ++n_block) {
        cp_async_wait<0>();   // K is there
        __syncthreads();      // and all have done with the last V
        load_tile<kBlockN, kHeadDim, kNThreads>(sV, gV + n_block * kBlockN * params.k_row_stride, params.k_row_stride,
                                                params.seqlen_k - n_block * kBlockN);
        cp_async_commit();

        // S = Q K^T
        float acc_s[kBlockN / 8][4] = {};
        #pragma unroll
        for (int kk = 0; kk < kHeadDim / 16; ++kk) {
            #pragma unroll
            for (int nb = 0; nb < kBlockN / 16; ++nb) {
                unsigned tK[4];
                ldsm_x4(tK, sK + swizzled<kHeadDim>(nb * 16 + (lane & 7) + ((lane >> 4) << 3), kk * 2 + ((lane >> 3) & 1)));
                mma_bf16(acc_s[2 * nb], tQ[kk], tK[0], tK[1]);
                mma_bf16(acc_s[2 * nb + 1], tQ[kk], tK[2], tK[3]);
            }
        }

        // mask
        #pragma unroll
        for (int nb = 0; nb < kBlockN / 8; ++nb) {
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = m_block * kBlockM + warp * 16 + lane / 4 + (i / 2) * 8;
                const int col = n_block * kBlockN + nb * 8 + (lane % 4) * 2 + i % 2;
                bool visible = col < params.seqlen_k;
                if (Is_causal) visible = visible && col <= row + diag;
                if (params.window_left >= 0) visible = visible && col >= row + diag - params.window_left;
                if (!visible) acc_s[nb][i] = neg_inf;
            }
        }

        cp_async_wait<0>();   // V is there
        __syncthreads();      // and all have done with K
        if (n_block + 1 < n_block_max)
            load_tile<kBlockN, kHeadDim, kNThreads>(sK, gK + (n_block + 1) * kBlockN * params.k_row_stride, params.k_row_stride,
                                                    params.seqlen_k - (n_block + 1) * kBlockN);
        cp_async_commit();

        // online softmax; each thread has parts of two rows, sums are completed at the end
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = row_max[r];
            #pragma unroll
            for (int nb = 0; nb < kBlockN / 8; ++nb) m = fmaxf(m, fmaxf(acc_s[nb][2 * r], acc_s[nb][2 * r + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            const float m_scaled = m == neg_inf ? 0.f : m * params.scale_softmax_log2;
            const float scores_scale = exp2f(row_max[r] * params.scale_softmax_log2 - m_scaled);
            row_max[r] = m;
            row_sum[r] *= scores_scale;
            #pragma unroll
            for (int nb = 0; nb < kBlockN / 8; ++nb) {
                acc_s[nb][2 * r] = exp2f(acc_s[nb][2 * r] * params.scale_softmax_log2 - m_scaled);
                acc_s[nb][2 * r + 1] = exp2f(acc_s[nb][2 * r + 1] * params.scale_softmax_log2 - m_scaled);
                row_sum[r] += acc_s[nb][2 * r] + acc_s[nb][2 * r + 1];
            }
            #pragma unroll
            for (int db = 0; db < kHeadDim / 8; ++db) {
                acc_o[db][2 * r] *= scores_scale;
                acc_o[db][2 * r + 1] *= scores_scale;
            }
        }

        // O += P V
        #pragma unroll
        for (int kk = 0; kk < kBlockN / 16; ++kk) {
            const unsigned tP[4] = {
                pack_bf16(acc_s[2 * kk][0], acc_s[2 * kk][1]), pack_bf16(acc_s[2 * kk][2], acc_s[2 * kk][3]),
                pack_bf16(acc_s[2 * kk + 1][0], acc_s[2 * kk + 1][1]), pack_bf16(acc_s[2 * kk + 1][2], acc_s[2 * kk + 1][3])};
            #pragma unroll
            for (int db = 0; db < kHeadDim / 16; ++db) {
                unsigned tV[4];
                ldsm_x4_t(tV, sV + swizzled<kHeadDim>(kk * 16 + (lane & 15), db * 2 + (lane >> 4)));
                mma_bf16(acc_o[2 * db], tP, tV[0], tV[1]);
                mma_bf16(acc_o[2 * db + 1], tP, tV[2], tV[3]);
            }
        }
    }

    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = row_sum[r];
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        const float inv_sum = sum == 0.f ? 0.f : 1.f / sum;
        const int row = warp * 16 + lane / 4 + r * 8;
        if (m_block * kBlockM + row >= params.seqlen_q) continue;
        bf16 *o = params.o_ptr + q_offset + row * params.q_row_stride + (lane % 4) * 2;
        #pragma unroll
        for (int db = 0; db < kHeadDim / 8; ++db)
            *reinterpret_cast<__nv_bfloat162 *>(o + db * 8) =
                __floats2bfloat162_rn(acc_o[db][2 * r] * inv_sum, acc_o[db][2 * r + 1] * inv_sum);
    }
}

}  // namespace minifa
