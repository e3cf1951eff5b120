/*
 * Final project GPU programming: matrix multiplication on Tensor Cores.
 *
 * Version 4: WMMA + shared memory.   D = alpha * A * B + beta * C
 *
 *   A: M x K, half, row major
 *   B: K x N, half, row major
 *   C: M x N, float, row major
 *   D: M x N, float, row major
 *
 * Compile: nvcc -arch=sm_70 -O3 wmma_shared_gemm.cu -o wmma_shared_gemm
 * Run:     ./wmma_shared_gemm 1024 1024 1024
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda::wmma;

#define CHECK_CUDA(call)                                                          \
    do {                                                                          \
        cudaError_t err = (call);                                                 \
        if (err != cudaSuccess) {                                                 \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err)); \
            exit(1);                                                              \
        }                                                                         \
    } while (0)

// size of one WMMA operation
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

// size of the tile that one block computes
#define BLOCK_ROWS 64
#define BLOCK_COLS 64
#define BLOCK_K 32

// every warp computes 32 x 32 elements, which are 2 x 2 fragments
#define WARP_ROWS 2
#define WARP_COLS 2
#define WARPS_X 2
#define WARPS_Y 2
#define THREADS (32 * WARPS_X * WARPS_Y)

// against bank conflicts
#define SKEW 8

__global__ void matmulWMMAShared(const half *A, const half *B, const float *C, float *D,
                                 int M, int N, int K, float alpha, float beta)
{
    __shared__ __align__(32) half tileA[BLOCK_ROWS][BLOCK_K + SKEW];
    __shared__ __align__(32) half tileB[BLOCK_K][BLOCK_COLS + SKEW];
    __shared__ __align__(32) float tileD[BLOCK_ROWS][BLOCK_COLS + 4];

    int tid = threadIdx.x;
    int warpId = tid / warpSize;
    int warpRow = warpId / WARPS_X;
    int warpCol = warpId % WARPS_X;

    // first row and column of this block
    int blockRow = blockIdx.y * BLOCK_ROWS;
    int blockCol = blockIdx.x * BLOCK_COLS;

    fragment<matrix_a, WMMA_M, WMMA_N, WMMA_K, half, row_major> aFrag[WARP_ROWS];
    fragment<matrix_b, WMMA_M, WMMA_N, WMMA_K, half, row_major> bFrag[WARP_COLS];
    fragment<accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc[WARP_ROWS][WARP_COLS];

    for (int i = 0; i < WARP_ROWS; i++)
        for (int j = 0; j < WARP_COLS; j++)
            fill_fragment(acc[i][j], 0.0f);

    int numTiles = (K + BLOCK_K - 1) / BLOCK_K;
    for (int t = 0; t < numTiles; t++) {
        int kStart = t * BLOCK_K;

        // 1. load the tile of A (coalesced: neighbouring threads, neighbouring columns)
        for (int i = tid; i < BLOCK_ROWS * BLOCK_K; i += THREADS) {
            int r = i / BLOCK_K;
            int c = i % BLOCK_K;
            int gr = blockRow + r;
            int gc = kStart + c;
            if (gr < M && gc < K)
                tileA[r][c] = A[gr * K + gc];
            else
                tileA[r][c] = __float2half(0.0f);
        }

        // 2. load the tile of B
        for (int i = tid; i < BLOCK_K * BLOCK_COLS; i += THREADS) {
            int r = i / BLOCK_COLS;
            int c = i % BLOCK_COLS;
            int gr = kStart + r;
            int gc = blockCol + c;
            if (gr < K && gc < N)
                tileB[r][c] = B[gr * N + gc];
            else
                tileB[r][c] = __float2half(0.0f);
        }
        __syncthreads();

        // 3. multiply
        for (int k = 0; k < BLOCK_K; k += WMMA_K) {
            for (int i = 0; i < WARP_ROWS; i++)
                load_matrix_sync(aFrag[i], &tileA[(warpRow * WARP_ROWS + i) * WMMA_M][k], BLOCK_K + SKEW);
            for (int j = 0; j < WARP_COLS; j++)
                load_matrix_sync(bFrag[j], &tileB[k][(warpCol * WARP_COLS + j) * WMMA_N], BLOCK_COLS + SKEW);
            for (int i = 0; i < WARP_ROWS; i++)
                for (int j = 0; j < WARP_COLS; j++)
                    mma_sync(acc[i][j], aFrag[i], bFrag[j], acc[i][j]);
        }
        // nobody may load the next tile before all warps are done with this one
        __syncthreads();
    }

    // 4. results go through shared memory, because the matrix may end within a fragment
    for (int i = 0; i < WARP_ROWS; i++)
        for (int j = 0; j < WARP_COLS; j++)
            store_matrix_sync(&tileD[(warpRow * WARP_ROWS + i) * WMMA_M][(warpCol * WARP_COLS + j) * WMMA_N],
                              acc[i][j], BLOCK_COLS + 4, mem_row_major);
    __syncthreads();

    for (int i = tid; i < BLOCK_ROWS * BLOCK_COLS; i += THREADS) {
        int r = i / BLOCK_COLS;
        int c = i % BLOCK_COLS;
        int gr = blockRow + r;
        int gc = blockCol + c;
        if (gr < M && gc < N)
            D[gr * N + gc] = alpha * tileD[r][c] + beta * C[gr * N + gc];
    }
}

void launchMatmul(const half *dA, const half *dB, const float *dC, float *dD, int M, int N, int K, float alpha, float beta)
{
    dim3 block(THREADS);
    dim3 grid((N + BLOCK_COLS - 1) / BLOCK_COLS, (M + BLOCK_ROWS - 1) / BLOCK_ROWS);
    matmulWMMAShared<<<grid, block>>>(dA, dB, dC, dD, M, N, K, alpha, beta);
    CHECK_CUDA(cudaGetLastError());
}
