// Fused attention with a two stage K/V pipeline (__pipeline_memcpy_async). D = 32, 32 queries per block, 2 warps.
// Everything after the scores is done by the warp that owns the 16 rows.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;

const int D = 32, BM = 32, BN = 32, PAD = 8, LD = D + PAD, LDF = D + 4;

__device__ void async_tile(half (*dst)[LD], const half* src, int first, int rows)
{
    for (int i = threadIdx.x; i < BN * D / 8; i += blockDim.x) {
        const int r = i / (D / 8), c = (i % (D / 8)) * 8;
        if (first + r < rows)
            __pipeline_memcpy_async(&dst[r][c], src + (size_t)(first + r) * D + c, 16);
        else
            *reinterpret_cast<uint4*>(&dst[r][c]) = make_uint4(0, 0, 0, 0);
    }
}

__global__ void attention_pipelined(const half* __restrict__ q, const half* __restrict__ k, const half* __restrict__ v,
                                    float* __restrict__ o, float* __restrict__ lse, int S, float scale)
{
    __shared__ __align__(128) half qs[BM][LD];
    __shared__ __align__(128) half ks[2][BN][LD];
    __shared__ __align__(128) half vs[2][BN][LD];
    __shared__ __align__(128) half ps[BM][LD];
    __shared__ __align__(128) float ss[BM][LDF];
    __shared__ __align__(128) float os[BM][LDF];

    const size_t base = (size_t)blockIdx.y * S * D;
    const int q0 = blockIdx.x * BM, warp = threadIdx.x / 32, lane = threadIdx.x % 32, r0 = warp * 16;

    async_tile(ks[0], k + base, 0, S);
    async_tile(vs[0], v + base, 0, S);
    __pipeline_commit();
    for (int i = threadIdx.x; i < BM * D; i += blockDim.x) {
        qs[i / D][i % D] = q0 + i / D < S ? q[base + (size_t)q0 * D + i] : __ushort_as_half(0);
        os[i / D][i % D] = 0.0f;
    }

    // lanes 0..15 keep the statistics of their row
    float row_max = -1e20f, row_sum = 0.0f;
    const int tiles = (S + BN - 1) / BN;
    for (int t = 0; t < tiles; ++t) {
        const int cur = t % 2;
        if (t + 1 < tiles) {
            async_tile(ks[cur ^ 1], k + base, (t + 1) * BN, S);
            async_tile(vs[cur ^ 1], v + base, (t + 1) * BN, S);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();

        for (int n = 0; n < BN; n += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.0f);
            for (int d = 0; d < D; d += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, &qs[r0][d], LD);
                wmma::load_matrix_sync(b, &ks[cur][n][d], LD);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&ss[r0][n], acc, LDF, wmma::mem_row_major);
        }
        __syncwarp();
        if (lane < 16) {
            const int r = r0 + lane;
            const int valid = min(BN, S - t * BN);
            float m = row_max;
            for (int j = 0; j < valid; ++j) m = fmaxf(m, ss[r][j] * scale);
            const float c = __expf(row_max - m);
            row_sum *= c;
            for (int j = 0; j < BN; ++j) {
                const float e = j < valid ? __expf(ss[r][j] * scale - m) : 0.0f;
                row_sum += e;
                ps[lane][j] = __float2half_rn(e);
            }
            for (int d = 0; d < D; ++d) os[r][d] *= c;
            row_max = m;
        }
        __syncwarp();
        for (int d = 0; d < D; d += 16) {
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, &os[r0][d], LDF, wmma::mem_row_major);
            for (int n = 0; n < BN; n += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, &ps[r0][n], LD);
                wmma::load_matrix_sync(b, &vs[cur][n][d], LD);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&os[r0][d], acc, LDF, wmma::mem_row_major);
        }
        __syncthreads();
    }

    if (lane < 16 && q0 + r0 + lane < S) {
        const int row = q0 + r0 + lane;
        for (int d = 0; d < D; ++d) o[base + (size_t)row * D + d] = os[r0 + lane][d] / row_sum;
        lse[(size_t)blockIdx.y * S + row] = row_max + __logf(row_sum);
    }
}
