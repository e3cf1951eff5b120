// WRONG: half the rows of a tile have no warp.
//
// A tile is 32 rows x 64 columns, 2 x 4 fragments, and warp w computes fragment (w / 4, w % 4): that takes eight warps.
// The block is launched with 128 threads, four warps. The scores of rows 16 to 31 are shared memory that nobody has
// written, and nobody adds to their output, which stays zero or becomes what softmax makes of the garbage.
// Fix: launch 256 threads, or give each warp two fragments.
//
// What comes out: of each 32 rows the first 16 are right and the last 16 wrong, in every head: the 16-row tiles 1, 3,
// 5, ... S <= 16 is right.
//
// attention, HEAD_DIM 64. Launch: grid (ceil(S / 32), batch * heads), block 128.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define D 64
#define BLOCK_M 32
#define BLOCK_N 64
#define PITCH 72    // half tiles: 64 + 8, against bank conflicts
#define PITCH_F 68  // float tiles: 64 + 4

extern "C" __global__ void attention(const half* Q, const half* K, const half* V, half* O, int S, float scale)
{
    __shared__ __align__(32) half sQ[BLOCK_M][PITCH];
    __shared__ __align__(32) half sK[BLOCK_N][PITCH];
    __shared__ __align__(32) half sV[BLOCK_N][PITCH];
    __shared__ __align__(32) half sP[BLOCK_M][PITCH];
    __shared__ __align__(32) float sS[BLOCK_M][PITCH_F];
    __shared__ __align__(32) float sO[BLOCK_M][PITCH_F];
    __shared__ float sMax[BLOCK_M];
    __shared__ float sSum[BLOCK_M];

    const int tid = threadIdx.x;
    const int warp = tid / 32;
    const int row0 = blockIdx.x * BLOCK_M;
    const size_t base = (size_t)blockIdx.y * S * D;  // blockIdx.y = batch * heads + head

    for (int i = tid; i < BLOCK_M * D; i += blockDim.x) {
        const int r = i / D, d = i % D;
        sQ[r][d] = row0 + r < S ? Q[base + (size_t)(row0 + r) * D + d] : __float2half(0.0f);
        sO[r][d] = 0.0f;
    }
    if (tid < BLOCK_M) {
        sMax[tid] = -1e30f;
        sSum[tid] = 0.0f;
    }

    for (int key0 = 0; key0 < S; key0 += BLOCK_N) {
        for (int i = tid; i < BLOCK_N * D; i += blockDim.x) {
            const int j = i / D, d = i % D;
            const bool inside = key0 + j < S;
            sK[j][d] = inside ? K[base + (size_t)(key0 + j) * D + d] : __float2half(0.0f);
            sV[j][d] = inside ? V[base + (size_t)(key0 + j) * D + d] : __float2half(0.0f);
        }
        __syncthreads();

        // S = Q K^T, 2 x 4 tiles, one per warp
        {
            const int ti = warp / 4, tj = warp % 4;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::fill_fragment(acc, 0.0f);
            for (int k = 0; k < D; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
                wmma::load_matrix_sync(a, &sQ[ti * 16][k], PITCH);
                wmma::load_matrix_sync(b, &sK[tj * 16][k], PITCH);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&sS[ti * 16][tj * 16], acc, PITCH_F, wmma::mem_row_major);
        }
        __syncthreads();

        // online softmax, one thread per row
        if (tid < BLOCK_M) {
            const int visible = min(BLOCK_N, S - key0);
            float tileMax = -1e30f;
            for (int j = 0; j < visible; ++j) {
                tileMax = fmaxf(tileMax, sS[tid][j] * scale);
            }
            const float newMax = fmaxf(sMax[tid], tileMax);
            const float rescale = __expf(sMax[tid] - newMax);
            float sum = 0.0f;
            for (int j = 0; j < BLOCK_N; ++j) {
                const float p = j < visible ? __expf(sS[tid][j] * scale - newMax) : 0.0f;
                sP[tid][j] = __float2half(p);
                sum += p;
            }
            sMax[tid] = newMax;
            sSum[tid] = sSum[tid] * rescale + sum;
            for (int d = 0; d < D; ++d) {
                sO[tid][d] *= rescale;
            }
        }
        __syncthreads();

        // O += P V, 2 x 4 tiles, one per warp
        {
            const int ti = warp / 4, tj = warp % 4;
            wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
            wmma::load_matrix_sync(acc, &sO[ti * 16][tj * 16], PITCH_F, wmma::mem_row_major);
            for (int k = 0; k < BLOCK_N; k += 16) {
                wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
                wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
                wmma::load_matrix_sync(a, &sP[ti * 16][k], PITCH);
                wmma::load_matrix_sync(b, &sV[k][tj * 16], PITCH);
                wmma::mma_sync(acc, a, b, acc);
            }
            wmma::store_matrix_sync(&sO[ti * 16][tj * 16], acc, PITCH_F, wmma::mem_row_major);
        }
        __syncthreads();
    }

    for (int i = tid; i < BLOCK_M * D; i += blockDim.x) {
        const int r = i / D, d = i % D;
        if (row0 + r < S) {
            O[base + (size_t)(row0 + r) * D + d] = __float2half(sO[r][d] / sSum[r]);
        }
    }
}
