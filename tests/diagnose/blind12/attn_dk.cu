// flash attention backward, gradient of K only (V frozen): used for prefix tuning
//   P = exp(scale * Q K^T - L),  dP = dO V^T,  dS = P o (dP - delta),  dK = scale * dS^T Q
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;
using FragA  = fragment<matrix_a, 16, 16, 16, half, row_major>;
using FragAT = fragment<matrix_a, 16, 16, 16, half, col_major>;
using FragB  = fragment<matrix_b, 16, 16, 16, half, row_major>;
using FragBT = fragment<matrix_b, 16, 16, 16, half, col_major>;
using FragC  = fragment<accumulator, 16, 16, 16, float>;

template <int D, int BQ = 32, int BK = 32>
__global__ void bwd_dk_kernel(const half *__restrict__ gQ, const half *__restrict__ gK, const half *__restrict__ gV,
                              const half *__restrict__ gdO, const float *__restrict__ gL,
                              const float *__restrict__ gDelta, half *__restrict__ gdK, int N, float scale,
                              bool causal) {
    constexpr int LD = D + 8, LDS = BK + 8;
    __shared__ __align__(32) half sK[BK * LD], sV[BK * LD], sQ[BQ * LD], sdO[BQ * LD];
    __shared__ __align__(32) float sS[BQ * LDS], sdP[BQ * LDS];
    __shared__ __align__(32) half sdS[BQ * LDS];
    __shared__ float sL[BQ], sDelta[BQ];

    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    const int kb = blockIdx.x, bh = blockIdx.y;
    const size_t off = (size_t)bh * N * D;

    auto load = [&](half *s, const half *g, int row0) {
        for (int i = tid; i < 32 * D / 8; i += 128) {
            int r = i / (D / 8), c = i % (D / 8) * 8;
            *(int4 *)&s[r * LD + c] =
                row0 + r < N ? *(const int4 *)&g[off + (size_t)(row0 + r) * D + c] : make_int4(0, 0, 0, 0);
        }
    };

    load(sK, gK, kb * BK);
    load(sV, gV, kb * BK);

    // dK is BK x D; each warp has 16 rows and half of the columns
    constexpr int NT = D / 32;
    const int wr = warp / 2 * 16, wc = warp % 2;
    FragC dk[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) fill_fragment(dk[n], 0.f);

    const int nq = (N + BQ - 1) / BQ;
    for (int qb = causal ? kb * BK / BQ : 0; qb < nq; qb++) {
        load(sQ, gQ, qb * BQ);
        load(sdO, gdO, qb * BQ);
        if (tid < BQ) {
            int q = qb * BQ + tid;
            sL[tid] = q < N ? gL[(size_t)bh * N + q] : 0.f;
            sDelta[tid] = q < N ? gDelta[(size_t)bh * N + q] : 0.f;
        }
        __syncthreads();

        // S and dP, a 16 x 16 tile of each per warp
        {
            FragC s, dp;
            fill_fragment(s, 0.f);
            fill_fragment(dp, 0.f);
            for (int d = 0; d < D; d += 16) {
                FragA q, dO;
                FragBT k, v;
                load_matrix_sync(q, &sQ[wr * LD + d], LD);
                load_matrix_sync(k, &sK[wc * 16 * LD + d], LD);
                mma_sync(s, q, k, s);
                load_matrix_sync(dO, &sdO[wr * LD + d], LD);
                load_matrix_sync(v, &sV[wc * 16 * LD + d], LD);
                mma_sync(dp, dO, v, dp);
            }
            store_matrix_sync(&sS[wr * LDS + wc * 16], s, LDS, mem_row_major);
            store_matrix_sync(&sdP[wr * LDS + wc * 16], dp, LDS, mem_row_major);
        }
        __syncthreads();

        for (int r = warp; r < BQ; r += 4) {
            int q = qb * BQ + r, k = kb * BK + lane;
            float p = __expf(scale * sS[r * LDS + lane] - sL[r]);
            if (q >= N || k >= N || (causal && k > q)) p = 0.f;
            sdS[r * LDS + lane] = __float2half(p * (sdP[r * LDS + lane] - sDelta[r]));
        }
        __syncthreads();

        // dK += dS^T Q
        for (int q = 0; q < BQ; q += 16) {
            FragAT ds;
            load_matrix_sync(ds, &sdS[q * LDS + wr], LDS);
#pragma unroll
            for (int n = 0; n < NT; n++) {
                FragB fq;
                load_matrix_sync(fq, &sQ[q * LD + (wc * NT + n) * 16], LD);
                mma_sync(dk[n], ds, fq, dk[n]);
            }
        }
        __syncthreads();
    }

    // sS is free now: go through it to half precision, 16 x 16 at a time
    float *stage = &sS[warp * 256];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        store_matrix_sync(stage, dk[n], 16, mem_row_major);
        __syncwarp();
        for (int i = lane; i < 256; i += 32) {
            int k = kb * BK + wr + i / 16, d = (wc * NT + n) * 16 + i % 16;
            if (k < N) gdK[off + (size_t)k * D + d] = __float2half(scale * stage[i]);
        }
        __syncwarp();
    }
}

template __global__ void bwd_dk_kernel<64>(const half *, const half *, const half *, const half *, const float *,
                                           const float *, half *, int, float, bool);
