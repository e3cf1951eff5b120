// Attention logits with rotary embedding applied while q and k are loaded:
//   logits[b,h,i,j] = scale * <rope(q[b,h,i]), rope(k[b,h,j])>  for j <= i + (Sk - Sq), and -1e4 elsewhere
// Only the first ROT of the 64 channels are rotated, in pairs (2t, 2t+1), as in GPT-J and ChatGLM.
// cos and sin: [position][ROT / 2]; the queries are the last Sq positions of Sk (decoding with a cache).

#include <cuda_bf16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16_t;

template <int ROT, int BQ, int BK_>
struct rope_traits {
    static const int rot = ROT;
    static const int bq = BQ;
    static const int bk = BK_;
    static const int dim = 64;
    static const int ld = dim + 8;
    static const int threads = BQ / 16 * 32;
};

// 16 bytes, as four pairs
union pack8 {
    uint4 raw;
    __nv_bfloat162 pair[4];
};

template <class traits>
__device__ void load_rotated(bf16_t (*dst)[traits::ld], const bf16_t *src, const float *cos_t, const float *sin_t,
                             int rows_in_tile, int first_row, int n_rows, int first_pos)
{
    const int per_row = traits::dim / 8;
    for (int v = threadIdx.x; v < rows_in_tile * per_row; v += traits::threads) {
        const int r = v / per_row, ch = (v % per_row) * 8;
        pack8 p;
        p.raw = make_uint4(0u, 0u, 0u, 0u);
        if (first_row + r < n_rows) {
            p.raw = *(const uint4 *)(src + (long long)(first_row + r) * traits::dim + ch);
            if (ch < traits::rot) {
                const long long at = (long long)(first_pos + first_row + r) * (traits::rot / 2) + ch / 2;
#pragma unroll
                for (int t = 0; t < 4; ++t) {
                    const float2 x = __bfloat1622float2(p.pair[t]);
                    const float c = cos_t[at + t], s = sin_t[at + t];
                    p.pair[t] = __floats2bfloat162_rn(x.x * c - x.y * s, x.x * s + x.y * c);
                }
            }
        }
        *(uint4 *)&dst[r][ch] = p.raw;
    }
}

__device__ __forceinline__ void ldsm4(unsigned &r0, unsigned &r1, unsigned &r2, unsigned &r3, const bf16_t *p)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(a));
}

__device__ __forceinline__ void ldsm2(unsigned &r0, unsigned &r1, const bf16_t *p)
{
    unsigned a = (unsigned)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r0), "=r"(r1) : "r"(a));
}

__device__ __forceinline__ void mma_bf16(float4 &d, const unsigned a[4], unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d.x), "+f"(d.y), "+f"(d.z), "+f"(d.w)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void put(float *row, int j, int sk, int last_key, float v, float scale)
{
    if (j < sk) row[j] = j <= last_key ? v * scale : -1e4f;
}

template <class traits>
__global__ void rope_scores_causal(const bf16_t *q, const bf16_t *k, const float *cos_t, const float *sin_t, float *logits,
                                   int heads, int kv_heads, int sq, int sk, float scale)
{
    __shared__ __align__(16) bf16_t sq_tile[traits::bq][traits::ld];
    __shared__ __align__(16) bf16_t sk_tile[traits::bk][traits::ld];

    const int b = blockIdx.z / heads, h = blockIdx.z % heads;
    const int hk = h / (heads / kv_heads);
    const int i0 = blockIdx.y * traits::bq, j0 = blockIdx.x * traits::bk;
    const int past = sk - sq;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *out = logits + (long long)blockIdx.z * sq * sk;

    // a tile above the diagonal: nothing to multiply
    if (j0 > i0 + traits::bq - 1 + past) {
        for (int e = threadIdx.x; e < traits::bq * traits::bk; e += traits::threads) {
            const int i = i0 + e / traits::bk, j = j0 + e % traits::bk;
            if (i < sq && j < sk) out[(long long)i * sk + j] = -1e4f;
        }
        return;
    }

    load_rotated<traits>(sq_tile, q + (long long)(b * heads + h) * sq * traits::dim, cos_t, sin_t, traits::bq, i0, sq, past);
    load_rotated<traits>(sk_tile, k + (long long)(b * kv_heads + hk) * sk * traits::dim, cos_t, sin_t, traits::bk, j0, sk, 0);
    __syncthreads();

    unsigned fq[traits::dim / 16][4];
#pragma unroll
    for (int d = 0; d < traits::dim / 16; ++d)
        ldsm4(fq[d][0], fq[d][1], fq[d][2], fq[d][3], &sq_tile[warp * 16 + lane % 16][d * 16 + lane / 16 * 8]);

    const int i = i0 + warp * 16 + lane / 4;
#pragma unroll
    for (int n = 0; n < traits::bk / 8; ++n) {
        float4 acc = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
        for (int d = 0; d < traits::dim / 16; ++d) {
            unsigned k0, k1;
            ldsm2(k0, k1, &sk_tile[n * 8 + lane % 8][d * 16 + lane / 8 % 2 * 8]);
            mma_bf16(acc, fq[d], k0, k1);
        }
        const int j = j0 + n * 8 + lane % 4 * 2;
        if (i < sq) {
            float *row = out + (long long)i * sk;
            put(row, j, sk, i + past, acc.x, scale);
            put(row, j + 1, sk, i + past, acc.y, scale);
        }
        if (i + 8 < sq) {
            float *row = out + (long long)(i + 8) * sk;
            put(row, j, sk, i + 8 + past, acc.z, scale);
            put(row, j + 1, sk, i + 8 + past, acc.w, scale);
        }
    }
}

template __global__ void rope_scores_causal<rope_traits<32, 32, 32>>(const bf16_t *, const bf16_t *, const float *, const float *,
                                                                     float *, int, int, int, int, float);
