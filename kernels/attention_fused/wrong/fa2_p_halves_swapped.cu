// FA2-style forward: mma.sync.m16n8k16, P never leaves registers. Head dim 64, 4 warps x 16 queries, 32 keys a step.
// Shared tiles are 64 halves wide with a 16-byte chunk XOR swizzle (chunk ^ (row & 7)).
#include <cuda_fp16.h>
#include <stdint.h>

#define D_HEAD 64
#define BR 64
#define BC 32
#define NWARPS 4

__device__ __forceinline__ int swz(int row, int chunk) { return row * D_HEAD + ((chunk ^ (row & 7)) << 3); }

__device__ __forceinline__ void ldsm4(uint32_t* r, const half* p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void ldsm4t(uint32_t* r, const half* p)
{
    uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}
__device__ __forceinline__ void hmma(float* c, const uint32_t* a, uint32_t b0, uint32_t b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ uint32_t pack2(float lo, float hi)
{
    __half2 h = __floats2half2_rn(lo, hi);
    return *reinterpret_cast<uint32_t*>(&h);
}

template <int ROWS>
__device__ void fill(half* dst, const half* src, int first, int limit)
{
    for (int i = threadIdx.x; i < ROWS * 8; i += NWARPS * 32) {
        int r = i / 8, c = i % 8;
        uint4 x = make_uint4(0, 0, 0, 0);
        if (first + r < limit) x = *reinterpret_cast<const uint4*>(src + (size_t)(first + r) * D_HEAD + c * 8);
        *reinterpret_cast<uint4*>(dst + swz(r, c)) = x;
    }
}

extern "C" __global__ void __launch_bounds__(NWARPS * 32)
fa2_fwd(const half* q, const half* k, const half* v, half* o, int n, float scale, int is_causal)
{
    __shared__ __align__(128) half sQ[BR * D_HEAD], sK[BC * D_HEAD], sV[BC * D_HEAD];
    const size_t off = (size_t)blockIdx.y * n * D_HEAD;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row0 = blockIdx.x * BR + warp * 16 + lane / 4;   // this thread: row0 and row0 + 8
    const float sl2 = scale * 1.4426950408889634f;

    fill<BR>(sQ, q + off, blockIdx.x * BR, n);
    __syncthreads();
    uint32_t qf[4][4];
    for (int kk = 0; kk < 4; ++kk) ldsm4(qf[kk], sQ + swz(warp * 16 + lane % 16, kk * 2 + lane / 16));

    float acc[8][4] = {}, mrow[2] = {-INFINITY, -INFINITY}, lrow[2] = {0.f, 0.f};
    const int last = is_causal ? min(n, (int)(blockIdx.x + 1) * BR) : n;
    for (int j0 = 0; j0 < last; j0 += BC) {
        __syncthreads();
        fill<BC>(sK, k + off, j0, n);
        fill<BC>(sV, v + off, j0, n);
        __syncthreads();

        float s[4][4] = {};
        for (int kk = 0; kk < 4; ++kk)
            for (int jj = 0; jj < 2; ++jj) {
                uint32_t b[4];
                ldsm4(b, sK + swz(jj * 16 + lane / 16 * 8 + lane % 8, kk * 2 + lane / 8 % 2));
                hmma(s[jj * 2], qf[kk], b[0], b[1]);
                hmma(s[jj * 2 + 1], qf[kk], b[2], b[3]);
            }
        for (int t = 0; t < 4; ++t)
            for (int e = 0; e < 4; ++e) {
                const int col = j0 + t * 8 + (lane % 4) * 2 + (e & 1), row = row0 + (e >> 1) * 8;
                s[t][e] = (col >= n || (is_causal && col > row)) ? -INFINITY : s[t][e] * sl2;
            }
        for (int h = 0; h < 2; ++h) {
            float m = mrow[h];
            for (int t = 0; t < 4; ++t) m = fmaxf(m, fmaxf(s[t][2 * h], s[t][2 * h + 1]));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
            m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
            const float corr = exp2f(mrow[h] - m);
            float sum = 0.f;
            for (int t = 0; t < 4; ++t)
                for (int e = 2 * h; e < 2 * h + 2; ++e) {
                    s[t][e] = exp2f(s[t][e] - m);
                    sum += s[t][e];
                }
            lrow[h] = lrow[h] * corr + sum;
            mrow[h] = m;
            for (int t = 0; t < 8; ++t) {
                acc[t][2 * h] *= corr;
                acc[t][2 * h + 1] *= corr;
            }
        }
        for (int jj = 0; jj < 2; ++jj) {
            const uint32_t pf[4] = {pack2(s[jj * 2][0], s[jj * 2][1]), pack2(s[jj * 2 + 1][0], s[jj * 2 + 1][1]),
                                    pack2(s[jj * 2][2], s[jj * 2][3]), pack2(s[jj * 2 + 1][2], s[jj * 2 + 1][3])};
            for (int dd = 0; dd < 4; ++dd) {
                uint32_t b[4];
                ldsm4t(b, sV + swz(jj * 16 + lane % 16, dd * 2 + lane / 16));
                hmma(acc[dd * 2], pf, b[0], b[1]);
                hmma(acc[dd * 2 + 1], pf, b[2], b[3]);
            }
        }
    }
    for (int h = 0; h < 2; ++h) {
        float l = lrow[h];
        l += __shfl_xor_sync(0xffffffff, l, 1);
        l += __shfl_xor_sync(0xffffffff, l, 2);
        const int row = row0 + 8 * h;
        if (row < n)
            for (int t = 0; t < 8; ++t)
                *reinterpret_cast<uint32_t*>(o + off + (size_t)row * D_HEAD + t * 8 + (lane % 4) * 2) =
                    pack2(acc[t][2 * h] / l, acc[t][2 * h + 1] / l);
    }
}
