/*
 * Flash attention forward with packed GQA: the query heads that share a key/value head are rows of one tile, so that
 * keys and values are read once for all of them. Packed row p is query p / G of head p % G within the group.
 *
 *   q, o:  [batch, seqlen_q, nheads, D]          k, v:  [batch, seqlen_k, nheads_k, D]          half
 *   lse:   [batch, nheads, seqlen_q]             float, natural logarithm
 *
 * Causal masks are aligned to the bottom right: query i sees keys up to i + seqlen_k - seqlen_q.
 */
#include <cuda_fp16.h>
#include <stdint.h>
#include <math.h>

#define M_LOG2E_F 1.44269504f
#define M_LN2_F   0.69314718f

template <int kHeadDim_, int kNWarps_, int kBlockN_>
struct PackGQA_traits {
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kNWarps = kNWarps_;
    static constexpr int kNThreads = kNWarps * 32;
    static constexpr int kBlockM = kNWarps * 16;
    static constexpr int kBlockN = kBlockN_;
    static constexpr int kRowStride = kHeadDim + 8;          // halves; no bank conflicts
};

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void ldsm_x4_t(uint32_t (&r)[4], const __half *ptr) {
    uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ uint32_t pack_half2(float lo, float hi) {
    __half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&h);
}

__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// kBlockN rows of keys or values; rows from seqlen_k on are zero
template <typename T>
__device__ __forceinline__ void copy_tile(__half *smem, const __half *gmem, int64_t row_stride, int rows_left) {
    constexpr int kChunks = T::kHeadDim / 8;
    for (int i = threadIdx.x; i < T::kBlockN * kChunks; i += T::kNThreads) {
        const int row = i / kChunks, col = (i % kChunks) * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (row < rows_left) x = *reinterpret_cast<const uint4 *>(gmem + row * row_stride + col);
        *reinterpret_cast<uint4 *>(smem + row * T::kRowStride + col) = x;
    }
}

template <typename T, bool Is_causal>
__global__ void __launch_bounds__(T::kNThreads)
packgqa_fwd_kernel(const __half *__restrict__ q, const __half *__restrict__ k, const __half *__restrict__ v,
                   __half *__restrict__ o, float *__restrict__ lse,
                   int seqlen_q, int seqlen_k, int nheads, int nheads_k, float softmax_scale) {
    constexpr int D = T::kHeadDim, kBlockM = T::kBlockM, kBlockN = T::kBlockN;
    __shared__ __align__(16) __half sK[kBlockN * T::kRowStride];
    __shared__ __align__(16) __half sV[kBlockN * T::kRowStride];

    const int m_block = blockIdx.x, head_k = blockIdx.y, b = blockIdx.z;
    const int group = nheads / nheads_k;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int quad = lane / 4, tq = lane % 4;

    // the two rows of this thread
    int row_q[2], row_h[2];
    for (int r = 0; r < 2; ++r) {
        const int packed = m_block * kBlockM + warp * 16 + quad + r * 8;
        row_q[r] = packed / group;
        row_h[r] = head_k * group + packed % group;
    }

    // Q in registers for the whole kernel
    uint32_t rQ[D / 16][4];
    for (int r = 0; r < 2; ++r) {
        const __half *gQ = q + ((int64_t(b) * seqlen_q + row_q[r]) * nheads + row_h[r]) * D;
        const bool valid = row_q[r] < seqlen_q;
        for (int kd = 0; kd < D / 16; ++kd) {
            rQ[kd][r]     = valid ? *reinterpret_cast<const uint32_t *>(gQ + kd * 16 + tq * 2) : 0u;
            rQ[kd][r + 2] = valid ? *reinterpret_cast<const uint32_t *>(gQ + kd * 16 + tq * 2 + 8) : 0u;
        }
    }

    const int64_t kv_stride = int64_t(nheads_k) * D;
    const __half *gK = k + int64_t(b) * seqlen_k * kv_stride + head_k * D;
    const __half *gV = v + int64_t(b) * seqlen_k * kv_stride + head_k * D;

    float acc_o[D / 8][4] = {};
    float row_max[2] = {-INFINITY, -INFINITY};
    float row_sum[2] = {0.f, 0.f};
    const float scale_log2 = softmax_scale * M_LOG2E_F;
    const int diagonal = seqlen_k - seqlen_q;

    // blocks of keys from the last one that any row sees down to the first
    int n_block_max = (seqlen_k + kBlockN - 1) / kBlockN;
    if (Is_causal) {
        const int last_query = min(((m_block + 1) * kBlockM - 1) / group, seqlen_q - 1);
        n_block_max = min(n_block_max, (last_query + diagonal) / kBlockN + 1);
    }
    // blocks whose end lies behind what the tile's first row sees are masked element by element
    const int first_query = m_block * kBlockM / group;
    const int unmasked_keys = Is_causal ? min(seqlen_k, first_query + diagonal + 1) : seqlen_k;

    for (int n_block = n_block_max - 1; n_block >= 0; --n_block) {
        const int key0 = n_block * kBlockN;
        __syncthreads();
        copy_tile<T>(sK, gK + key0 * kv_stride, kv_stride, seqlen_k - key0);
        copy_tile<T>(sV, gV + key0 * kv_stride, kv_stride, seqlen_k - key0);
        __syncthreads();

        // S = Q K^T
        float acc_s[kBlockN / 8][4] = {};
        for (int kd = 0; kd < D / 16; ++kd) {
            for (int n = 0; n < kBlockN / 8; ++n) {
                const __half *pK = sK + (n * 8 + quad) * T::kRowStride + kd * 16 + tq * 2;
                mma_16816(acc_s[n], rQ[kd], *reinterpret_cast<const uint32_t *>(pK),
                          *reinterpret_cast<const uint32_t *>(pK + 8));
            }
        }

        if (key0 + kBlockN > unmasked_keys) {
            for (int n = 0; n < kBlockN / 8; ++n) {
                for (int i = 0; i < 4; ++i) {
                    const int key = key0 + n * 8 + tq * 2 + (i & 1);
                    const int limit = Is_causal ? min(seqlen_k, row_q[i >> 1] + diagonal + 1) : seqlen_k;
                    if (key >= limit) acc_s[n][i] = -INFINITY;
                }
            }
        }

        // online softmax, base 2
        for (int r = 0; r < 2; ++r) {
            float m = row_max[r];
            for (int n = 0; n < kBlockN / 8; ++n) m = fmaxf(m, fmaxf(acc_s[n][2 * r], acc_s[n][2 * r + 1]));
            m = quad_max(m);
            const float m_scaled = m == -INFINITY ? 0.f : m * scale_log2;
            const float correction = exp2f(row_max[r] * scale_log2 - m_scaled);
            row_max[r] = m;
            row_sum[r] *= correction;
            for (int n = 0; n < kBlockN / 8; ++n) {
                for (int c = 0; c < 2; ++c) {
                    float &s = acc_s[n][2 * r + c];
                    s = exp2f(s * scale_log2 - m_scaled);
                    row_sum[r] += s;                         // of this thread's columns; summed up at the end
                }
            }
            for (int d = 0; d < D / 8; ++d) {
                acc_o[d][2 * r] *= correction;
                acc_o[d][2 * r + 1] *= correction;
            }
        }

        // O += P V, with accumulators of S as operand A
        for (int kn = 0; kn < kBlockN / 16; ++kn) {
            const uint32_t rP[4] = {pack_half2(acc_s[2 * kn][0], acc_s[2 * kn][1]),
                                    pack_half2(acc_s[2 * kn][2], acc_s[2 * kn][3]),
                                    pack_half2(acc_s[2 * kn + 1][0], acc_s[2 * kn + 1][1]),
                                    pack_half2(acc_s[2 * kn + 1][2], acc_s[2 * kn + 1][3])};
            for (int d = 0; d < D / 16; ++d) {
                uint32_t rV[4];
                ldsm_x4_t(rV, sV + (kn * 16 + lane % 16) * T::kRowStride + d * 16 + (lane / 16) * 8);
                mma_16816(acc_o[2 * d], rP, rV[0], rV[1]);
                mma_16816(acc_o[2 * d + 1], rP, rV[2], rV[3]);
            }
        }
    }

    for (int r = 0; r < 2; ++r) {
        const float sum = quad_sum(row_sum[r]);
        if (row_q[r] >= seqlen_q) continue;
        const float inv = sum == 0.f ? 0.f : 1.f / sum;
        __half *gO = o + ((int64_t(b) * seqlen_q + row_q[r]) * nheads + row_h[r]) * D;
        for (int d = 0; d < D / 8; ++d)
            *reinterpret_cast<uint32_t *>(gO + d * 8 + tq * 2) = pack_half2(acc_o[d][2 * r] * inv, acc_o[d][2 * r + 1] * inv);
        if (tq == 0)
            lse[(int64_t(b) * nheads + row_h[r]) * seqlen_q + row_q[r]] =
                (row_max[r] * scale_log2 + log2f(sum)) * M_LN2_F;
    }
}

void packgqa_fwd(const __half *q, const __half *k, const __half *v, __half *o, float *lse, int batch, int seqlen_q,
                 int seqlen_k, int nheads, int nheads_k, float softmax_scale, bool causal, cudaStream_t stream) {
    using T = PackGQA_traits<64, 2, 32>;
    const int packed = seqlen_q * (nheads / nheads_k);
    dim3 grid((packed + T::kBlockM - 1) / T::kBlockM, nheads_k, batch);
    auto kernel = causal ? &packgqa_fwd_kernel<T, true> : &packgqa_fwd_kernel<T, false>;
    kernel<<<grid, T::kNThreads, 0, stream>>>(q, k, v, o, lse, seqlen_q, seqlen_k, nheads, nheads_k, softmax_scale);
}
