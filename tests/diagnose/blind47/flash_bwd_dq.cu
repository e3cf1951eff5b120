// FlashAttention-2 backward, the part that makes dQ: one block for 64 queries of a head, keys in blocks of 32.
//
//   S = Q K^T       P = exp(scale * S - lse)      dP = dO V^T
//   dS = P * (dP - delta)     delta = rowsum(O * dO)      dQ = scale * dS K
//
// q, o, dout, dq [batch, seqlen_q, heads, d];  k, v [batch, seqlen_k, heads, d];  lse [batch, heads, seqlen_q].
// The causal mask is aligned to the bottom right corner, as it is from version 2.1 on (seqlen_k >= seqlen_q).
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

constexpr int kBlockM   = 64;
constexpr int kBlockN   = 32;
constexpr int kNThreads = 128;
constexpr float kLog2e  = 1.44269504f;

__device__ __forceinline__ unsigned smem_u32(const void* p) {
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_zfill(void* dst, const void* src, bool pred) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
                 :: "r"(smem_u32(dst)), "l"(src), "r"(pred ? 16 : 0) : "memory");
}

__device__ __forceinline__ void cp_async_fence_and_wait() {
    asm volatile("cp.async.commit_group;\n" ::: "memory");
    asm volatile("cp.async.wait_group 0;\n" ::: "memory");
}

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const bf16* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void ldsm_x4_trans(unsigned (&r)[4], const bf16* p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack_bf16(float lo, float hi) {
    const __nv_bfloat162 v = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<const unsigned*>(&v);
}

template <int kRows, int kHeadDim>
__device__ __forceinline__ void copy_rows(bf16* smem, const bf16* gmem, int row_stride, int rows_left) {
    for (int i = threadIdx.x; i < kRows * kHeadDim / 8; i += kNThreads) {
        const int row = i / (kHeadDim / 8);
        const int col = i % (kHeadDim / 8) * 8;
        const bool pred = row < rows_left;
        cp_async_zfill(smem + row * (kHeadDim + 8) + col, pred ? gmem + size_t(row) * row_stride + col : gmem, pred);
    }
}

template <int kHeadDim, bool kIsCausal>
__global__ void __launch_bounds__(kNThreads)
flash_bwd_dq_kernel(const bf16* __restrict__ q, const bf16* __restrict__ k, const bf16* __restrict__ v,
                    const bf16* __restrict__ o, const bf16* __restrict__ dout, const float* __restrict__ softmax_lse,
                    bf16* __restrict__ dq, int seqlen_q, int seqlen_k, int num_heads, float softmax_scale) {
    constexpr int kPitch = kHeadDim + 8;
    __shared__ __align__(16) bf16 sQ[kBlockM * kPitch];
    __shared__ __align__(16) bf16 sdO[kBlockM * kPitch];
    __shared__ __align__(16) bf16 sK[kBlockN * kPitch];
    __shared__ __align__(16) bf16 sV[kBlockN * kPitch];
    __shared__ float sLse[kBlockM];
    __shared__ float sDelta[kBlockM];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int lane = tid % 32;
    const int m_start = blockIdx.x * kBlockM;
    const int head = blockIdx.y;
    const int batch = blockIdx.z;

    const int row_stride = num_heads * kHeadDim;
    const size_t q_offset = (size_t(batch) * seqlen_q + m_start) * row_stride + head * kHeadDim;
    const size_t k_offset = size_t(batch) * seqlen_k * row_stride + head * kHeadDim;
    const bf16* gK = k + k_offset;
    const bf16* gV = v + k_offset;

    copy_rows<kBlockM, kHeadDim>(sQ, q + q_offset, row_stride, seqlen_q - m_start);
    copy_rows<kBlockM, kHeadDim>(sdO, dout + q_offset, row_stride, seqlen_q - m_start);

    // delta: two threads for a row
    {
        const int row = tid / 2;
        const int first = tid % 2 * (kHeadDim / 2);
        float delta = 0.f;
        float lse = 0.f;
        if (m_start + row < seqlen_q) {
            const bf16* o_row = o + q_offset + size_t(row) * row_stride;
            const bf16* do_row = dout + q_offset + size_t(row) * row_stride;
            for (int d = first; d < first + kHeadDim / 2; ++d)
                delta += __bfloat162float(o_row[d]) * __bfloat162float(do_row[d]);
            lse = softmax_lse[(size_t(batch) * num_heads + head) * seqlen_q + m_start + row];
        }
        delta += __shfl_xor_sync(0xffffffffu, delta, 1);
        if (tid % 2 == 0) {
            sDelta[row] = delta;
            sLse[row] = lse * kLog2e;
        }
    }
    cp_async_fence_and_wait();
    __syncthreads();

    const int group = lane / 4;
    const int quad = lane % 4;
    const float scale_log2 = softmax_scale * kLog2e;

    // queries and their gradients stay in registers
    unsigned rQ[kHeadDim / 16][4], rdO[kHeadDim / 16][4];
    const int a_offset = (warp * 16 + lane % 16) * kPitch + lane / 16 * 8;
#pragma unroll
    for (int kd = 0; kd < kHeadDim / 16; ++kd) {
        ldsm_x4(rQ[kd], sQ + a_offset + kd * 16);
        ldsm_x4(rdO[kd], sdO + a_offset + kd * 16);
    }
    float lse[2], delta[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        lse[r] = sLse[warp * 16 + group + r * 8];
        delta[r] = sDelta[warp * 16 + group + r * 8];
    }

    float acc_dq[kHeadDim / 8][4] = {};

    int n_block_max = (seqlen_k + kBlockN - 1) / kBlockN;
    if (kIsCausal)
        n_block_max = min(n_block_max, (m_start + kBlockM + seqlen_k - seqlen_q + kBlockN - 1) / kBlockN);

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        const int n_start = n_block * kBlockN;
        copy_rows<kBlockN, kHeadDim>(sK, gK + size_t(n_start) * row_stride, row_stride, seqlen_k - n_start);
        copy_rows<kBlockN, kHeadDim>(sV, gV + size_t(n_start) * row_stride, row_stride, seqlen_k - n_start);
        cp_async_fence_and_wait();
        __syncthreads();

        // S = Q K^T and dP = dO V^T
        float acc_s[kBlockN / 8][4] = {};
        float acc_dp[kBlockN / 8][4] = {};
#pragma unroll
        for (int kd = 0; kd < kHeadDim / 16; ++kd) {
#pragma unroll
            for (int ni = 0; ni < kBlockN / 16; ++ni) {
                const int b_offset = (ni * 16 + lane / 16 * 8 + lane % 8) * kPitch + kd * 16 + lane / 8 % 2 * 8;
                unsigned b[4];
                ldsm_x4(b, sK + b_offset);
                mma_bf16(acc_s[2 * ni], rQ[kd], b[0], b[1]);
                mma_bf16(acc_s[2 * ni + 1], rQ[kd], b[2], b[3]);
                ldsm_x4(b, sV + b_offset);
                mma_bf16(acc_dp[2 * ni], rdO[kd], b[0], b[1]);
                mma_bf16(acc_dp[2 * ni + 1], rdO[kd], b[2], b[3]);
            }
        }

        // dS = P * (dP - delta), in place of dP
#pragma unroll
        for (int j = 0; j < kBlockN / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int row = m_start + warp * 16 + group + i / 2 * 8;
                const int col = n_start + j * 8 + quad * 2 + i % 2;
                const bool masked = col >= seqlen_k || (kIsCausal && col > row + seqlen_k - seqlen_q);
                const float p = masked ? 0.f : exp2f(acc_s[j][i] * scale_log2 - lse[i / 2]);
                acc_dp[j][i] = p * (acc_dp[j][i] - delta[i / 2]);
            }
        }

        // dQ += dS K
#pragma unroll
        for (int kn = 0; kn < kBlockN / 16; ++kn) {
            unsigned ds[4];
            ds[0] = pack_bf16(acc_dp[2 * kn][0], acc_dp[2 * kn][1]);
            ds[1] = pack_bf16(acc_dp[2 * kn][2], acc_dp[2 * kn][3]);
            ds[2] = pack_bf16(acc_dp[2 * kn + 1][0], acc_dp[2 * kn + 1][1]);
            ds[3] = pack_bf16(acc_dp[2 * kn + 1][2], acc_dp[2 * kn + 1][3]);
#pragma unroll
            for (int di = 0; di < kHeadDim / 16; ++di) {
                unsigned b[4];
                ldsm_x4_trans(b, sK + (kn * 16 + lane % 16) * kPitch + di * 16 + lane / 16 * 8);
                mma_bf16(acc_dq[2 * di], ds, b[0], b[1]);
                mma_bf16(acc_dq[2 * di + 1], ds, b[2], b[3]);
            }
        }
        __syncthreads();    // K and V are loaded again
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = warp * 16 + group + r * 8;
        if (m_start + row >= seqlen_q)
            continue;
        bf16* dq_row = dq + q_offset + size_t(row) * row_stride;
#pragma unroll
        for (int dj = 0; dj < kHeadDim / 8; ++dj)
            *reinterpret_cast<unsigned*>(dq_row + dj * 8 + quad * 2) =
                pack_bf16(acc_dq[dj][2 * r] * softmax_scale, acc_dq[dj][2 * r + 1] * softmax_scale);
    }
}
