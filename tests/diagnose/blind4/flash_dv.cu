// FlashAttention, backward pass, the part for dV only (as a study of the register layouts):
//
//   P[i][j] = exp(softmax_scale * <q_i, k_j> - lse[i])      (i >= j when causal)
//   dV[j]   = sum_i P[i][j] * dO[i]
//
// S^T = K Q^T is computed rather than S: its accumulators are, as they stand, the A operand of P^T dO, so that
// P never leaves the registers.  CTA: 4 warps x 16 keys.  All tensors [batch * heads][seqlen][D], D = 32 or 64.
#include <cuda_fp16.h>
#include <stdint.h>

template <int kHeadDim_> struct Kernel_traits {
    static constexpr int kHeadDim = kHeadDim_;
    static constexpr int kBlockN = 64;   // keys per CTA
    static constexpr int kBlockM = 32;   // queries per iteration
    static constexpr int kNWarps = 4;
    static constexpr int kNThreads = kNWarps * 32;
    static constexpr int kSmemLd = kHeadDim + 8;
};

namespace ptx {

__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const __half *smem) {
    const uint32_t addr = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x2_trans(uint32_t (&r)[2], const __half *smem) {
    const uint32_t addr = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1]) : "r"(addr));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const __half *smem) {
    const uint32_t addr = (uint32_t)__cvta_generic_to_shared(smem);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace ptx

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    const __half2 both = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<const uint32_t *>(&both);
}

template <typename Traits>
__device__ __forceinline__ void load_rows(__half *dst, const __half *src, int row0, int n_rows, int seqlen) {
    constexpr int kVecs = Traits::kHeadDim / 8;
    for (int idx = threadIdx.x; idx < n_rows * kVecs; idx += Traits::kNThreads) {
        const int row = idx / kVecs, col = (idx % kVecs) * 8;
        int4 v = make_int4(0, 0, 0, 0);
        if (row0 + row < seqlen) v = *reinterpret_cast<const int4 *>(src + (row0 + row) * Traits::kHeadDim + col);
        *reinterpret_cast<int4 *>(dst + row * Traits::kSmemLd + col) = v;
    }
}

template <typename Traits, bool Is_causal>
__global__ void __launch_bounds__(Traits::kNThreads)
flash_bwd_dv(const __half *__restrict__ q, const __half *__restrict__ k, const __half *__restrict__ dout,
             const float *__restrict__ lse, __half *__restrict__ dv, int seqlen_q, int seqlen_k, float softmax_scale) {
    constexpr int D = Traits::kHeadDim, ld = Traits::kSmemLd;
    __shared__ __align__(16) __half sK[Traits::kBlockN * ld];
    __shared__ __align__(16) __half sQ[Traits::kBlockM * ld];
    __shared__ __align__(16) __half sdO[Traits::kBlockM * ld];

    const int bh = blockIdx.y, n0 = blockIdx.x * Traits::kBlockN;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int quad = lane >> 2, tig = lane & 3;
    q += (size_t)bh * seqlen_q * D;
    dout += (size_t)bh * seqlen_q * D;
    k += (size_t)bh * seqlen_k * D;
    dv += (size_t)bh * seqlen_k * D;
    lse += (size_t)bh * seqlen_q;

    load_rows<Traits>(sK, k, n0, Traits::kBlockN, seqlen_k);

    float acc_dv[D / 8][4];
    #pragma unroll
    for (int ni = 0; ni < D / 8; ++ni)
        for (int e = 0; e < 4; ++e) acc_dv[ni][e] = 0.f;

    const int m_begin = Is_causal ? n0 / Traits::kBlockM * Traits::kBlockM : 0;
    for (int m0 = m_begin; m0 < seqlen_q; m0 += Traits::kBlockM) {
        __syncthreads();
        load_rows<Traits>(sQ, q, m0, Traits::kBlockM, seqlen_q);
        load_rows<Traits>(sdO, dout, m0, Traits::kBlockM, seqlen_q);
        __syncthreads();

        #pragma unroll
        for (int mi = 0; mi < Traits::kBlockM; mi += 16) {
            // S^T: 16 keys x 16 queries
            float s[2][4] = {};
            #pragma unroll
            for (int d = 0; d < D; d += 16) {
                uint32_t fragK[4];
                ptx::ldmatrix_x4(fragK, &sK[(warp * 16 + (lane & 15)) * ld + d + (lane >> 4) * 8]);
                #pragma unroll
                for (int half = 0; half < 2; ++half) {
                    uint32_t fragQ[2];
                    ptx::ldmatrix_x2(fragQ, &sQ[(mi + half * 8 + (lane & 7)) * ld + d + ((lane >> 3) & 1) * 8]);
                    ptx::mma(s[half], fragK, fragQ);
                }
            }
            // P^T, in place
            #pragma unroll
            for (int half = 0; half < 2; ++half) {
                #pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const int query = m0 + mi + half * 8 + tig * 2 + (e & 1);
                    const int key = n0 + warp * 16 + quad + (e >> 1) * 8;
                    const bool keep = query < seqlen_q && (!Is_causal || query >= key);
                    s[half][e] = keep ? __expf(s[half][e] * softmax_scale - lse[query]) : 0.f;
                }
            }
            const uint32_t fragP[4] = {pack(s[0][0], s[0][1]), pack(s[0][2], s[0][3]),
                                       pack(s[1][0], s[1][1]), pack(s[1][2], s[1][3])};
            // dV += P^T dO
            #pragma unroll
            for (int ni = 0; ni < D / 8; ++ni) {
                uint32_t fragdO[2];
                ptx::ldmatrix_x2_trans(fragdO, &sdO[(mi + (lane & 15)) * ld + ni * 8]);
                ptx::mma(acc_dv[ni], fragP, fragdO);
            }
        }
    }

    #pragma unroll
    for (int ni = 0; ni < D / 8; ++ni) {
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int key = n0 + warp * 16 + quad + r * 8;
            if (key < seqlen_k)
                *reinterpret_cast<__half2 *>(&dv[key * D + ni * 8 + tig * 2]) =
                    __floats2half2_rn(acc_dv[ni][r * 2], acc_dv[ni][r * 2 + 1]);
        }
    }
}

void run_flash_bwd_dv(const __half *q, const __half *k, const __half *dout, const float *lse, __half *dv, int bh,
                      int seqlen_q, int seqlen_k, float softmax_scale, cudaStream_t stream) {
    using Traits = Kernel_traits<64>;
    const dim3 grid((seqlen_k + Traits::kBlockN - 1) / Traits::kBlockN, bh);
    flash_bwd_dv<Traits, true><<<grid, Traits::kNThreads, 0, stream>>>(q, k, dout, lse, dv, seqlen_q, seqlen_k,
                                                                       softmax_scale);
}
