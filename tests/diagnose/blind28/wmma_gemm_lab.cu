// Lab 6 - matrix multiplication on Tensor Cores with shared memory tiles
//
//   D = alpha * A * B + beta * C
//
// A is MxK, B is KxN, C and D are MxN, all of them row major. A and B are half, C and D float.
// Any M, N, K are allowed: what hangs over the edge is loaded as 0 and never written back.
//
// nvcc -arch=sm_80 -o wmma_gemm_lab wmma_gemm_lab.cu
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>

using namespace nvcuda;

// the only shape that everybody supports
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

// a block is 2 x 2 warps, and a warp computes 2 x 2 fragments
#define WARPS_M 2
#define WARPS_N 2
#define FRAGS_M 2
#define FRAGS_N 2
#define THREADS (WARPS_M * WARPS_N * 32)

#define TILE_M (WARPS_M * FRAGS_M * WMMA_M)  // 64
#define TILE_N (WARPS_N * FRAGS_N * WMMA_N)  // 64
#define TILE_K 32

// padding against bank conflicts; 16 bytes, since ldm has to be a multiple of that
#define PAD 8
#define LDS_A (TILE_K + PAD)
#define LDS_B (TILE_N + PAD)
#define LDS_C (TILE_N + 4)

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

// one TILE_M x TILE_K piece of A
__device__ void loadTileA(half *As, const half *A, int rowStart, int kStart, int M, int K)
{
    for (int i = threadIdx.x; i < TILE_M * TILE_K; i += THREADS) {
        int r = i / TILE_K;
        int c = i % TILE_K;
        int gr = rowStart + r;
        int gc = kStart + c;
        if (gr < M && gc < K)
            As[r * LDS_A + c] = A[(size_t)gr * K + gc];
        else
            As[r * LDS_A + c] = __float2half(0.0f);
    }
}

// one TILE_K x TILE_N piece of B
__device__ void loadTileB(half *Bs, const half *B, int kStart, int colStart, int K, int N)
{
    for (int i = threadIdx.x; i < TILE_K * TILE_N; i += THREADS) {
        int r = i / TILE_N, c = i % TILE_N;
        int gk = kStart + r;
        int gn = colStart + c;
        half value = __float2half(0.0f);
        if (gk < K && gn < N) value = B[(size_t)gk * N + gn];
        Bs[r * LDS_B + c] = value;
    }
}

__global__ void wmmaGemmShared(const half *A, const half *B, const float *C, float *D,
                               int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half As[TILE_M * LDS_A];
    __shared__ __align__(32) half Bs[TILE_K * LDS_B];
    __shared__ __align__(32) float Cs[TILE_M * LDS_C];

    int warpId = threadIdx.x / warpSize;
    int warpM = warpId / WARPS_N;
    int warpN = warpId % WARPS_N;
    int blockRow = blockIdx.y * TILE_M;
    int blockCol = blockIdx.x * TILE_N;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> aFrag[FRAGS_M];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> bFrag[FRAGS_N];
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> accFrag[FRAGS_M][FRAGS_N];

    // the accumulators start at zero
    for (int i = 0; i < FRAGS_M; i++)
        for (int j = 0; j < FRAGS_N; j++)
            wmma::fill_fragment(accFrag[i][j], 0.0f);

    int numTiles = CEIL_DIV(K, TILE_K);
    for (int t = 0; t < numTiles; t++) {
        loadTileA(As, A, blockRow, t * TILE_K, M, K);
        loadTileB(Bs, B, t * TILE_K, blockCol, K, N);
        __syncthreads();  // the tiles are complete

        for (int kk = 0; kk < TILE_K; kk += WMMA_K) {
            for (int i = 0; i < FRAGS_M; i++) {
                int row = (warpM * FRAGS_M + i) * WMMA_M;
                wmma::load_matrix_sync(aFrag[i], As + row * LDS_A + kk, LDS_A);
            }
            for (int j = 0; j < FRAGS_N; j++) {
                int col = (warpN * FRAGS_N + j) * WMMA_N;
                wmma::load_matrix_sync(bFrag[j], Bs + kk * LDS_B + col, LDS_B);
            }
            for (int i = 0; i < FRAGS_M; i++)
                for (int j = 0; j < FRAGS_N; j++)
                    wmma::mma_sync(accFrag[i][j], aFrag[i], bFrag[j], accFrag[i][j]);
        }
        __syncthreads();  // nobody needs the tiles any more
    }

    // fragments -> shared memory, because global memory has no room for what hangs over the edge
    for (int i = 0; i < FRAGS_M; i++) {
        for (int j = 0; j < FRAGS_N; j++) {
            int row = (warpM * FRAGS_M + i) * WMMA_M;
            int col = (warpN * FRAGS_N + j) * WMMA_N;
            wmma::store_matrix_sync(Cs + row * LDS_C + col, accFrag[i][j], LDS_C, wmma::mem_row_major);
        }
    }
    __syncthreads();

    // shared memory -> D, one row of the tile after the other so that it is coalesced
    for (int i = threadIdx.x; i < TILE_M * TILE_N; i += THREADS) {
        int r = i / TILE_N;
        int c = i - r * TILE_N;
        int outRow = blockRow + r;
        int outCol = blockCol + c;
        if (outRow < M && outCol < N) {
            size_t idx = (size_t)outRow * N + outCol;
            D[idx] = alpha * Cs[r * LDS_C + c] + beta * C[idx];
        }
    }
}

void gemm(const half *dA, const half *dB, const float *dC, float *dD, int M, int N, int K, float alpha, float beta)
{
    dim3 block(THREADS);
    dim3 grid(CEIL_DIV(N, TILE_N), CEIL_DIV(M, TILE_M));
    wmmaGemmShared<<<grid, block>>>(dA, dB, dC, dD, M, N, K, alpha, beta);
    cudaError_t err = cudaGetLastError();
    if (err != cudaSuccess) printf("launch failed: %s\n", cudaGetErrorString(err));
}
