// Tensor cores for the rest of us, part 3: shared memory tiles and eight warps.
//
//   D = alpha * A * B + beta * C
//
// A is M x K, B is K x N, C and D are M x N, all row-major. A and B are half,
// everything that is summed up is float. M and N must be multiples of 16 and K a
// multiple of 8, but they do not have to be multiples of the block tile.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// one tensor core instruction
#define WMMA_TILE 16

// what a block computes
#define BLOCK_M 128
#define BLOCK_N 64
#define BLOCK_K 32

// the warps of a block: 4 x 2, each 32 x 32
#define WARPS_M 4
#define WARPS_N 2
#define WARP_TILE 32
#define FRAGS (WARP_TILE / WMMA_TILE)
#define THREADS (32 * WARPS_M * WARPS_N)

// half elements in a 16 byte load, and padding against bank conflicts
#define VEC 8
#define PAD 8

__global__ void gemm_wmma_part3(const half *A, const half *B, const float *C, float *D,
                                int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half As[BLOCK_M][BLOCK_K + PAD];
    __shared__ __align__(32) half Bs[BLOCK_K][BLOCK_N + PAD];

    // blockDim = (32, 8): threadIdx.y is the warp
    const int warpId = threadIdx.y;
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;

    const int warpRow = warpId / WARPS_N;
    const int warpCol = warpId % WARPS_N;

    const int blockRow = blockIdx.y * BLOCK_M;
    const int blockCol = blockIdx.x * BLOCK_N;

    wmma::fragment<wmma::matrix_a, WMMA_TILE, WMMA_TILE, WMMA_TILE, half, wmma::row_major> aFrag[FRAGS];
    wmma::fragment<wmma::matrix_b, WMMA_TILE, WMMA_TILE, WMMA_TILE, half, wmma::row_major> bFrag[FRAGS];
    wmma::fragment<wmma::accumulator, WMMA_TILE, WMMA_TILE, WMMA_TILE, float> acc[FRAGS][FRAGS];
    wmma::fragment<wmma::accumulator, WMMA_TILE, WMMA_TILE, WMMA_TILE, float> cFrag;

    for (int i = 0; i < FRAGS; ++i)
        for (int j = 0; j < FRAGS; ++j)
            wmma::fill_fragment(acc[i][j], 0.0f);

    // walk along K
    for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
        // every thread loads two vectors of A ...
        for (int v = tid; v < BLOCK_M * BLOCK_K / VEC; v += THREADS) {
            int r = v / (BLOCK_K / VEC);
            int c = v % (BLOCK_K / VEC) * VEC;
            float4 val = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (blockRow + r < M && k0 + c < K)
                val = *reinterpret_cast<const float4 *>(&A[(blockRow + r) * K + k0 + c]);
            *reinterpret_cast<float4 *>(&As[r][c]) = val;
        }
        // ... and one of B
        for (int v = tid; v < BLOCK_K * BLOCK_N / VEC; v += THREADS) {
            int r = v / (BLOCK_N / VEC);
            int c = v % (BLOCK_N / VEC) * VEC;
            float4 val = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
            if (k0 + r < K && blockCol + c < N)
                val = *reinterpret_cast<const float4 *>(&B[(k0 + r) * N + blockCol + c]);
            *reinterpret_cast<float4 *>(&Bs[r][c]) = val;
        }
        __syncthreads();

        for (int kk = 0; kk < BLOCK_K; kk += WMMA_TILE) {
            for (int i = 0; i < FRAGS; ++i)
                wmma::load_matrix_sync(aFrag[i], &As[warpRow * WARP_TILE + i * WMMA_TILE][kk], BLOCK_K + PAD);
            for (int j = 0; j < FRAGS; ++j)
                wmma::load_matrix_sync(bFrag[j], &Bs[kk][warpCol * WARP_TILE + j * WMMA_TILE], BLOCK_N + PAD);
            for (int i = 0; i < FRAGS; ++i)
                for (int j = 0; j < FRAGS; ++j)
                    wmma::mma_sync(acc[i][j], aFrag[i], bFrag[j], acc[i][j]);
        }
        __syncthreads();   // the tiles are overwritten in the next round
    }

    // epilogue: D = alpha * acc + beta * C
    for (int i = 0; i < FRAGS; ++i) {
        for (int j = 0; j < FRAGS; ++j) {
            int row = blockRow + warpRow * WARP_TILE + i * WMMA_TILE;
            int col = blockCol + warpCol * WARP_TILE + j * WMMA_TILE;
            if (row < M && col < N) {
                wmma::load_matrix_sync(cFrag, C + row * N + col, N, wmma::mem_row_major);
                for (int t = 0; t < cFrag.num_elements; ++t)
                    cFrag.x[t] = alpha * acc[i][j].x[t] + beta * cFrag.x[t];
                wmma::store_matrix_sync(D + row * N + col, cFrag, N, wmma::mem_row_major);
            }
        }
    }
}
