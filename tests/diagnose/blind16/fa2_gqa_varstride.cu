// FlashAttention-2 forward: causal (bottom-right), grouped-query heads, fp16, strides for every tensor.
// Scores and probabilities never leave registers: the accumulators of Q K^T are re-used as A operands of P V.
#include <cuda_fp16.h>
#include <cstdint>

struct Flash_fwd_params {
    const half *__restrict__ q_ptr;
    const half *__restrict__ k_ptr;
    const half *__restrict__ v_ptr;
    half *__restrict__ o_ptr;
    float *__restrict__ softmax_lse_ptr;  // [b, h, seqlen_q]

    int64_t q_batch_stride, q_row_stride, q_head_stride;
    int64_t kv_batch_stride, kv_row_stride, kv_head_stride;
    int64_t o_batch_stride, o_row_stride, o_head_stride;

    int seqlen_q, seqlen_k;
    int h;
    int h_h_k_ratio;  // query heads per head of k and v
    float scale_softmax;
};

namespace {

__device__ __forceinline__ uint32_t smem_u32(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void ldsm4(uint32_t *r, const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}

__device__ __forceinline__ void ldsm4t(uint32_t *r, const half *p) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)));
}

__device__ __forceinline__ void gemm16816(float *d, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    const half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&h);
}

template <class Op>
__device__ __forceinline__ float quad_reduce(float x, Op op) {
    x = op(x, __shfl_xor_sync(0xffffffff, x, 1));
    return op(x, __shfl_xor_sync(0xffffffff, x, 2));
}

}  // namespace

template <int kHeadDim, int kBlockM, int kBlockN, bool Is_causal>
__global__ void flash_fwd_kernel(const Flash_fwd_params params) {
    constexpr int kNWarps = kBlockM / 16, kNThreads = kNWarps * 32;
    constexpr int kLd = kHeadDim + 8;
    constexpr int kDK = kHeadDim / 16, kDN = kHeadDim / 8, kSN = kBlockN / 8;
    constexpr float kLog2e = 1.4426950408889634f;

    __shared__ __align__(16) half sK[kBlockN * kLd];
    __shared__ __align__(16) half sV[kBlockN * kLd];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, quad = lane / 4, tq = lane % 4;
    const int m_block = blockIdx.x, bidb = blockIdx.z, bidh = blockIdx.y;
    const int row0 = m_block * kBlockM + warp * 16 + quad;  // this thread's rows: row0 and row0 + 8

    const half *gQ = params.q_ptr + bidb * params.q_batch_stride + bidh * params.q_head_stride;
    const half *gK = params.k_ptr + bidb * params.kv_batch_stride + (bidh / params.h_h_k_ratio) * params.kv_head_stride;
    const half *gV = params.v_ptr + bidb * params.kv_batch_stride + (bidh / params.h_h_k_ratio) * params.kv_head_stride;
    half *gO = params.o_ptr + bidb * params.o_batch_stride + bidh * params.o_head_stride;

    uint32_t rQ[kDK][4];
    const auto q_pair = [&](int row, int col) {
        return row < params.seqlen_q ? *reinterpret_cast<const uint32_t *>(gQ + row * params.q_row_stride + col) : 0u;
    };
#pragma unroll
    for (int k = 0; k < kDK; ++k) {
        rQ[k][0] = q_pair(row0, k * 16 + tq * 2);
        rQ[k][1] = q_pair(row0 + 8, k * 16 + tq * 2);
        rQ[k][2] = q_pair(row0, k * 16 + tq * 2 + 8);
        rQ[k][3] = q_pair(row0 + 8, k * 16 + tq * 2 + 8);
    }

    float acc_o[kDN][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f};
    const float scale_log2 = params.scale_softmax * kLog2e;

    const int shift = params.seqlen_k - params.seqlen_q;
    int n_block_max = (params.seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) {
        n_block_max = min(n_block_max, ((m_block + 1) * kBlockM + shift + kBlockN - 1) / kBlockN);
    }

    const auto load_tile = [&](half *dst, const half *src, int n_block) {
        for (int i = tid; i < kBlockN * kHeadDim / 8; i += kNThreads) {
            const int r = i / (kHeadDim / 8), c = i % (kHeadDim / 8) * 8;
            const int key = n_block * kBlockN + r;
            uint4 x = make_uint4(0, 0, 0, 0);
            if (key < params.seqlen_k) x = *reinterpret_cast<const uint4 *>(src + key * params.kv_row_stride + c);
            *reinterpret_cast<uint4 *>(dst + r * kLd + c) = x;
        }
    };

    for (int n_block = 0; n_block < n_block_max; ++n_block) {
        __syncthreads();
        load_tile(sK, gK, n_block);
        load_tile(sV, gV, n_block);
        __syncthreads();

        float acc_s[kSN][4] = {};
#pragma unroll
        for (int n = 0; n < kSN; n += 2) {
#pragma unroll
            for (int k = 0; k < kDK; ++k) {
                uint32_t b[4];
                ldsm4(b, sK + (n * 8 + lane / 16 * 8 + lane % 8) * kLd + k * 16 + lane / 8 % 2 * 8);
                gemm16816(acc_s[n], rQ[k], b[0], b[1]);
                gemm16816(acc_s[n + 1], rQ[k], b[2], b[3]);
            }
        }

        // mask: keys behind the end, and those behind the row's own
#pragma unroll
        for (int n = 0; n < kSN; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int col = n_block * kBlockN + n * 8 + tq * 2 + e % 2;
                const int row = row0 + e / 2 * 8;
                if (col >= params.seqlen_k || (Is_causal && col > row + shift)) acc_s[n][e] = -INFINITY;
            }
        }

        // online softmax
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float m = row_max[r];
#pragma unroll
            for (int n = 0; n < kSN; ++n) m = fmaxf(m, fmaxf(acc_s[n][r * 2], acc_s[n][r * 2 + 1]));
            m = quad_reduce(m, [](float a, float b) { return fmaxf(a, b); });
            const float m_scaled = m == -INFINITY ? 0.f : m * scale_log2;
            const float rescale = exp2f(row_max[r] * scale_log2 - m_scaled);
            row_max[r] = m;
            row_sum[r] *= rescale;
#pragma unroll
            for (int n = 0; n < kDN; ++n) {
                acc_o[n][r * 2] *= rescale;
                acc_o[n][r * 2 + 1] *= rescale;
            }
#pragma unroll
            for (int n = 0; n < kSN; ++n) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    acc_s[n][r * 2 + e] = exp2f(acc_s[n][r * 2 + e] * scale_log2 - m_scaled);
                    row_sum[r] += acc_s[n][r * 2 + e];
                }
            }
        }

#pragma unroll
        for (int k = 0; k < kBlockN / 16; ++k) {
            const uint32_t rP[4] = {
                pack(acc_s[k * 2][0], acc_s[k * 2][1]), pack(acc_s[k * 2][2], acc_s[k * 2][3]),
                pack(acc_s[k * 2 + 1][0], acc_s[k * 2 + 1][1]), pack(acc_s[k * 2 + 1][2], acc_s[k * 2 + 1][3])};
#pragma unroll
            for (int n = 0; n < kDN; n += 2) {
                uint32_t b[4];
                ldsm4t(b, sV + (k * 16 + lane % 16) * kLd + n * 8 + lane / 16 * 8);
                gemm16816(acc_o[n], rP, b[0], b[1]);
                gemm16816(acc_o[n + 1], rP, b[2], b[3]);
            }
        }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = row0 + r * 8;
        const float sum = quad_reduce(row_sum[r], [](float a, float b) { return a + b; });
        const float inv = sum == 0.f ? 0.f : 1.f / sum;
        if (row >= params.seqlen_q) continue;
#pragma unroll
        for (int n = 0; n < kDN; ++n) {
            const uint32_t x = pack(acc_o[n][r * 2] * inv, acc_o[n][r * 2 + 1] * inv);
            *reinterpret_cast<uint32_t *>(gO + row * params.o_row_stride + n * 8 + tq * 2) = x;
        }
        if (tq == 0) {
            float *lse = params.softmax_lse_ptr + (bidb * params.h + bidh) * params.seqlen_q;
            lse[row] = sum == 0.f ? INFINITY : row_max[r] * params.scale_softmax + __logf(sum);
        }
    }
}

template __global__ void flash_fwd_kernel<64, 64, 32, true>(const Flash_fwd_params);
