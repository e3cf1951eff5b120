// Flash attention forward for padded batches: softmax(Q K^T / sqrt(d)) V over the first kv_len[b] keys, no causal mask.
// A warp has 16 queries; scores, probabilities and output stay in registers.
#include <cuda_bf16.h>
#include <math_constants.h>
#include <stdint.h>

namespace fa {

using elem = __nv_bfloat16;

template <int HeadDim_, int BlockM_, int BlockN_>
struct Traits {
    static constexpr int HeadDim = HeadDim_, BlockM = BlockM_, BlockN = BlockN_;
    static constexpr int Warps = BlockM / 16, Threads = Warps * 32;
    static constexpr int Ld = HeadDim + 8;
};

struct Params {
    const elem *q, *k, *v;
    elem *o;
    float *lse;
    const int *kv_len;
    int heads, seqlen_q, seqlen_k;
    float scale_log2;  // log2(e) / sqrt(d)
};

__device__ __forceinline__ uint32_t word(const elem *p) { return *reinterpret_cast<const uint32_t *>(p); }

__device__ __forceinline__ uint32_t pack(float lo, float hi) {
    __nv_bfloat162 two = __floats2bfloat162_rn(lo, hi);
    return *reinterpret_cast<uint32_t *>(&two);
}

__device__ __forceinline__ void mma(float *c, const uint32_t *a, uint32_t b0, uint32_t b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// max or sum of the four lanes that share a row
template <typename Op>
__device__ __forceinline__ float quad_reduce(float x, Op op) {
    x = op(x, __shfl_xor_sync(0xffffffff, x, 1));
    return op(x, __shfl_xor_sync(0xffffffff, x, 2));
}

template <typename T>
__device__ __forceinline__ void copy_tile(elem *dst, const elem *src, int row0, int rows, int limit) {
    constexpr int Chunks = T::HeadDim / 8;
    for (int i = threadIdx.x; i < rows * Chunks; i += T::Threads) {
        const int r = i / Chunks, c = i % Chunks * 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (row0 + r < limit) x = *reinterpret_cast<const uint4 *>(src + (int64_t)(row0 + r) * T::HeadDim + c);
        *reinterpret_cast<uint4 *>(dst + r * T::Ld + c) = x;
    }
}

template <typename T>
__global__ void fwd_keylen(Params p) {
    constexpr int D = T::HeadDim, N = T::BlockN, Ld = T::Ld;
    __shared__ __align__(16) elem sQ[T::BlockM * Ld];
    __shared__ __align__(16) elem sK[N * Ld];
    __shared__ __align__(16) elem sV[N * Ld];

    const int h = blockIdx.y, b = blockIdx.z, q0 = blockIdx.x * T::BlockM;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int64_t bh = (int64_t)b * p.heads + h;
    const elem *k = p.k + bh * p.seqlen_k * D, *v = p.v + bh * p.seqlen_k * D;
    const int len = p.kv_len[b];

    copy_tile<T>(sQ, p.q + bh * p.seqlen_q * D, q0, T::BlockM, p.seqlen_q);
    __syncthreads();
    uint32_t fq[D / 16][4];
    for (int kk = 0; kk < D / 16; ++kk) {
        const elem *at = sQ + (warp * 16 + g) * Ld + kk * 16 + t * 2;
        fq[kk][0] = word(at);
        fq[kk][1] = word(at + 8 * Ld);
        fq[kk][2] = word(at + 8);
        fq[kk][3] = word(at + 8 * Ld + 8);
    }

    float o[D / 8][4] = {};
    float row_max[2] = {-CUDART_INF_F, -CUDART_INF_F}, row_sum[2] = {0.f, 0.f};

    for (int n0 = 0; n0 < len; n0 += N) {
        copy_tile<T>(sK, k, n0, N, len);
        copy_tile<T>(sV, v, n0, N, len);
        __syncthreads();

        float s[N / 8][4] = {};
        for (int j = 0; j < N / 8; ++j)
            for (int kk = 0; kk < D / 16; ++kk) {
                const elem *at = sK + (j * 8 + g) * Ld + kk * 16 + t * 2;
                mma(s[j], fq[kk], word(at), word(at + 8));
            }

        for (int j = 0; j < N / 8; ++j)
            for (int e = 0; e < 4; ++e)
                if (n0 + j * 8 + t * 2 + (e & 1) >= len) s[j][e] = -CUDART_INF_F;

        for (int r = 0; r < 2; ++r) {
            float mx = row_max[r];
            for (int j = 0; j < N / 8; ++j) mx = fmaxf(mx, fmaxf(s[j][r * 2], s[j][r * 2 + 1]));
            mx = quad_reduce(mx, [](float x, float y) { return fmaxf(x, y); });
            const float rescale = exp2f((row_max[r] - mx) * p.scale_log2);
            row_max[r] = mx;
            row_sum[r] *= rescale;
            for (int d = 0; d < D / 8; ++d) {
                o[d][r * 2] *= rescale;
                o[d][r * 2 + 1] *= rescale;
            }
            for (int j = 0; j < N / 8; ++j)
                for (int e = r * 2; e < r * 2 + 2; ++e) {
                    s[j][e] = exp2f((s[j][e] - mx) * p.scale_log2);
                    row_sum[r] += s[j][e];
                }
        }

        for (int kk = 0; kk < N / 16; ++kk) {
            const float *s0 = s[kk * 2], *s1 = s[kk * 2 + 1];
            const uint32_t fp[4] = {pack(s0[0], s0[1]), pack(s0[2], s0[3]), pack(s1[0], s1[1]), pack(s1[2], s1[3])};
            for (int d = 0; d < D / 8; ++d) {
                const uint32_t at = (uint32_t)__cvta_generic_to_shared(sV + (kk * 16 + lane % 16) * Ld + d * 8);
                uint32_t b0, b1;
                asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(at));
                mma(o[d], fp, b0, b1);
            }
        }
        __syncthreads();
    }

    for (int r = 0; r < 2; ++r) {
        const float sum = quad_reduce(row_sum[r], [](float x, float y) { return x + y; });
        const int row = q0 + warp * 16 + r * 8 + g;
        if (row >= p.seqlen_q) continue;
        elem *out = p.o + (bh * p.seqlen_q + row) * D;
        for (int d = 0; d < D / 8; ++d)
            *reinterpret_cast<uint32_t *>(out + d * 8 + t * 2) = pack(o[d][r * 2] / sum, o[d][r * 2 + 1] / sum);
        if (t == 0) p.lse[bh * p.seqlen_q + row] = row_max[r] * p.scale_log2 * 0.69314718f + logf(sum);
    }
}

template __global__ void fwd_keylen<Traits<32, 64, 32>>(Params);
template __global__ void fwd_keylen<Traits<64, 32, 32>>(Params);

}  // namespace fa
