// Grouped-query attention, bf16, query and key lengths may differ (decoding with a KV cache).
// causal: aligned to the bottom right corner, i.e. query i sees keys j <= i + (Skv - Sq).
// One CTA = 32 queries, 2 warps; 32 keys per step.
#include <cuda_bf16.h>
#include <mma.h>
#include <cstdint>

namespace attn {
using namespace nvcuda::wmma;
using elem = __nv_bfloat16;
constexpr float kNegInf = -1e30f;

template <int D> struct Shape { static constexpr int M = 32, N = 32, LD = D + 16, LDN = 32 + 16, LDF = D + 8, LDS = 32 + 8; };

template <int D>
__device__ void copy_rows(elem* dst, const elem* src, int first, int count, int limit)
{
    for (int i = threadIdx.x; i < count * D; i += blockDim.x) {
        const int r = i / D, c = i % D;
        dst[r * Shape<D>::LD + c] = first + r < limit ? src[(int64_t)(first + r) * D + c] : __float2bfloat16(0.f);
    }
}

template <int D, bool Causal>
__global__ void gqa_forward(const elem* __restrict__ Q, const elem* __restrict__ K, const elem* __restrict__ V, float* __restrict__ O,
                            int Hq, int Hkv, int Sq, int Skv, float scale)
{
    using S = Shape<D>;
    __shared__ __align__(32) elem q_s[S::M * S::LD];
    __shared__ __align__(32) elem kv_s[S::N * S::LD];   // K first, then reused for V
    __shared__ __align__(32) elem p_s[S::M * S::LDN];
    __shared__ __align__(32) float s_s[S::M * S::LDS];
    __shared__ __align__(32) float o_s[S::M * S::LDF];
    __shared__ float stat_m[S::M], stat_l[S::M];

    const int hq = blockIdx.y, b = blockIdx.z;
    const int hk = hq % Hkv;
    const elem* Qh = Q + ((int64_t)b * Hq + hq) * Sq * D;
    const elem* Kh = K + ((int64_t)b * Hkv + hk) * Skv * D;
    const elem* Vh = V + ((int64_t)b * Hkv + hk) * Skv * D;
    float* Oh = O + ((int64_t)b * Hq + hq) * Sq * D;
    const int m0 = blockIdx.x * S::M, tid = threadIdx.x, w = tid / 32;

    copy_rows<D>(q_s, Qh, m0, S::M, Sq);
    for (int i = tid; i < S::M * S::LDF; i += blockDim.x) o_s[i] = 0.f;
    if (tid < S::M) { stat_m[tid] = kNegInf; stat_l[tid] = 0.f; }

    const int shift = Skv - Sq;
    for (int n0 = 0; n0 < Skv; n0 += S::N) {
        copy_rows<D>(kv_s, Kh, n0, S::N, Skv);
        __syncthreads();
        for (int t = 0; t < 2; ++t) {
            fragment<accumulator, 16, 16, 16, float> s;
            fill_fragment(s, 0.f);
            for (int d = 0; d < D; d += 16) {
                fragment<matrix_a, 16, 16, 16, elem, row_major> a;
                fragment<matrix_b, 16, 16, 16, elem, col_major> bt;
                load_matrix_sync(a, q_s + w * 16 * S::LD + d, S::LD);
                load_matrix_sync(bt, kv_s + t * 16 * S::LD + d, S::LD);
                mma_sync(s, a, bt, s);
            }
            store_matrix_sync(s_s + w * 16 * S::LDS + t * 16, s, S::LDS, mem_row_major);
        }
        __syncthreads();
        copy_rows<D>(kv_s, Vh, n0, S::N, Skv);
        if (tid < S::M) {
            const int row = m0 + tid;
            float m = stat_m[tid];
            for (int j = 0; j < S::N; ++j) {
                const bool visible = n0 + j < Skv && (!Causal || n0 + j <= row + shift);
                float& x = s_s[tid * S::LDS + j];
                x = visible ? x * scale : kNegInf;
                m = fmaxf(m, x);
            }
            const float corr = __expf(stat_m[tid] - m);
            float l = stat_l[tid] * corr;
            for (int j = 0; j < S::N; ++j) {
                const float x = s_s[tid * S::LDS + j];
                const float p = x == kNegInf ? 0.f : __expf(x - m);
                p_s[tid * S::LDN + j] = __float2bfloat16(p);
                l += p;
            }
            stat_m[tid] = m;
            stat_l[tid] = l;
        }
        __syncthreads();
        for (int d = 0; d < D; d += 16) {
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(o, o_s + w * 16 * S::LDF + d, S::LDF, mem_row_major);
            for (int j = 0; j < S::N; j += 16) {
                fragment<matrix_a, 16, 16, 16, elem, row_major> a;
                fragment<matrix_b, 16, 16, 16, elem, row_major> bv;
                load_matrix_sync(a, p_s + w * 16 * S::LDN + j, S::LDN);
                load_matrix_sync(bv, kv_s + j * S::LD + d, S::LD);
                mma_sync(o, a, bv, o);
            }
            store_matrix_sync(o_s + w * 16 * S::LDF + d, o, S::LDF, mem_row_major);
        }
        __syncthreads();
    }
    for (int i = tid; i < S::M * D; i += blockDim.x) {
        const int r = i / D, d = i % D;
        if (m0 + r < Sq) Oh[(int64_t)(m0 + r) * D + d] = stat_l[r] > 0.f ? o_s[r * S::LDF + d] / stat_l[r] : 0.f;
    }
}
}  // namespace attn
