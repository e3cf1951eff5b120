// Decode-ish attention: 16 queries per block, 4 warps split the keys of every 64 key tile (16 each).
// Row maxima and sums are exchanged between the warps through shared memory.
#include <cuda_fp16.h>
#include <mma.h>

#define NW 4
typedef __half h16;
using namespace nvcuda::wmma;

struct Tile16 {
    static __device__ void load(h16* dst, int ld, const h16* src, int row0, int rows, int limit, int d)
    {
        for (int i = threadIdx.x; i < rows * d; i += NW * 32) {
            const int r = i / d, c = i - r * d;
            h16 x = (h16)0.0f;
            if (row0 + r < limit) x = src[(row0 + r) * d + c];
            dst[r * ld + c] = x;
        }
    }
};

template <int DH>
__global__ void __launch_bounds__(NW * 32)
attn_split(const h16* gq, const h16* gk, const h16* gv, h16* go, int nq, int nk, float sc)
{
    constexpr int LDH = DH + 8, LDW = 64 + 8, LDO = DH + 4;
    __shared__ __align__(32) h16 tq[16 * LDH];
    __shared__ __align__(32) h16 tk[64 * LDH];
    __shared__ __align__(32) h16 tp[16 * LDW];
    __shared__ __align__(32) float ts[16 * 68];
    __shared__ __align__(32) float to[16 * LDO];
    __shared__ float part_max[NW][16], part_sum[NW][16], run_max[16], run_sum[16], fac[16];

    const int w = threadIdx.x / 32, ln = threadIdx.x % 32;
    const int row0 = blockIdx.x * 16;
    gq += blockIdx.y * nq * DH; go += blockIdx.y * nq * DH;
    gk += blockIdx.y * nk * DH; gv += blockIdx.y * nk * DH;

    Tile16::load(tq, LDH, gq, row0, 16, nq, DH);
    for (int i = threadIdx.x; i < 16 * LDO; i += NW * 32) to[i] = 0.0f;
    if (threadIdx.x < 16) { run_max[ln] = -INFINITY; run_sum[ln] = 0.0f; }

    for (int k0 = 0; k0 < nk; k0 += 64) {
        Tile16::load(tk, LDH, gk, k0, 64, nk, DH);
        __syncthreads();
        fragment<accumulator, 16, 16, 16, float> s;
        fill_fragment(s, 0.0f);
        for (int d = 0; d < DH; d += 16) {
            fragment<matrix_a, 16, 16, 16, h16, row_major> fa;
            fragment<matrix_b, 16, 16, 16, h16, col_major> fb;
            load_matrix_sync(fa, tq + d, LDH);
            load_matrix_sync(fb, tk + w * 16 * LDH + d, LDH);
            mma_sync(s, fa, fb, s);
        }
        store_matrix_sync(ts + w * 16, s, 68, mem_row_major);
        __syncwarp();
        // two lanes per row, 8 columns each
        const int r = ln / 2, c0 = w * 16 + (ln % 2) * 8;
        float mx = -INFINITY;
        for (int c = c0; c < c0 + 8; ++c) if (k0 + c < nk) mx = fmaxf(mx, ts[r * 68 + c] * sc);
        mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 1));
        if (ln % 2 == 0) part_max[w][r] = mx;
        __syncthreads();
        const float old = run_max[r];
        float m = old;
        m = fmaxf(m, part_max[w][r]);
        float sum = 0.0f;
        for (int c = c0; c < c0 + 8; ++c) {
            const float e = k0 + c < nk ? __expf(ts[r * 68 + c] * sc - m) : 0.0f;
            tp[r * LDW + c] = __float2half(e);
            sum += e;
        }
        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        if (ln % 2 == 0) part_sum[w][r] = sum;
        __syncthreads();
        if (w == 0 && ln < 16) {
            float mnew = run_max[ln], total = 0.0f;
            for (int i = 0; i < NW; ++i) { mnew = fmaxf(mnew, part_max[i][ln]); total += part_sum[i][ln]; }
            fac[ln] = __expf(run_max[ln] - mnew);
            run_sum[ln] = run_sum[ln] * fac[ln] + total;
            run_max[ln] = mnew;
        }
        Tile16::load(tk, LDH, gv, k0, 64, nk, DH);
        __syncthreads();
        for (int i = threadIdx.x; i < 16 * DH; i += NW * 32) to[i / DH * LDO + i % DH] *= fac[i / DH];
        __syncthreads();
        for (int c = w * 16; c < DH; c += NW * 16) {
            fragment<accumulator, 16, 16, 16, float> o;
            load_matrix_sync(o, to + c, LDO, mem_row_major);
            for (int k = 0; k < 64; k += 16) {
                fragment<matrix_a, 16, 16, 16, h16, row_major> fp;
                fragment<matrix_b, 16, 16, 16, h16, row_major> fv;
                load_matrix_sync(fp, tp + k, LDW);
                load_matrix_sync(fv, tk + k * LDH + c, LDH);
                mma_sync(o, fp, fv, o);
            }
            store_matrix_sync(to + c, o, LDO, mem_row_major);
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < 16 * DH; i += NW * 32)
        if (row0 + i / DH < nq) go[(row0 + i / DH) * DH + i % DH] = __float2half(to[i / DH * LDO + i % DH] / run_sum[i / DH]);
}
