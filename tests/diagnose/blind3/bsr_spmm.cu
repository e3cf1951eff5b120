/*
 * Block-sparse matrix times dense matrix on tensor cores (WMMA API).
 *
 * This sample multiplies a matrix in BSR format (32x32 blocks) with a row major dense matrix:
 *
 *     Y = alpha * W * X + beta * Y
 *
 * W is (blockRows * 32) x K with the blocks of block row i at
 *     values[rowPtr[i]] ... values[rowPtr[i + 1] - 1]
 * and their block columns in colIdx. X is K x N, Y is (blockRows * 32) x N. Blocks are row major.
 *
 * A CTA computes one block row by 64 columns. Its four warps are arranged as 2 x 2, each computes 16 x 32.
 */

#include <assert.h>
#include <stdio.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>

// helper functions and utilities to work with CUDA
#include <helper_cuda.h>
#include <helper_functions.h>

#define WARP_SIZE 32

// MMA matrix tile dimensions.
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

#define BLOCK_SIZE 32
#define CTA_COLS 64
#define WARPS_PER_BLOCK 4
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)

#define SKEW_HALF 16

#define LD_W (BLOCK_SIZE + SKEW_HALF)
#define LD_X (CTA_COLS + SKEW_HALF)
#define LD_Y (CTA_COLS + 8)

#define CHUNK_HALFS (sizeof(int4) / sizeof(half))

#define checkKernelErrors(expr)                                                              \
    do {                                                                                     \
        expr;                                                                                \
        cudaError_t __err = cudaGetLastError();                                              \
        if (__err != cudaSuccess) {                                                          \
            printf("Line %d: '%s' failed: %s\n", __LINE__, #expr, cudaGetErrorString(__err)); \
            abort();                                                                         \
        }                                                                                    \
    } while (0)

using namespace nvcuda;

__global__ void bsr_spmm(const int *rowPtr, const int *colIdx, const half *values, const half *X, float *Y, int n,
                         float alpha, float beta)
{
    // operands while the blocks are summed up, the result afterwards
    __shared__ union {
        struct {
            half w[2][BLOCK_SIZE * LD_W];
            half x[2][BLOCK_SIZE * LD_X];
        } in;
        float y[BLOCK_SIZE * LD_Y];
    } shmem;

    const unsigned int warpId = threadIdx.x / WARP_SIZE;
    const unsigned int warpRow = warpId / 2;
    const unsigned int warpCol = warpId % 2;
    const int blockRow = blockIdx.y;
    const int colStart = blockIdx.x * CTA_COLS;

    const int first = rowPtr[blockRow];
    const int last = rowPtr[blockRow + 1];

    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        wmma::fill_fragment(c[j], 0.0f);
    }

    for (int b = first; b < last; b++) {
        const int stage = (b - first) % 2;
        half *w = shmem.in.w[stage];
        half *x = shmem.in.x[stage];

        // Copy the block of W: 32 x 32 halfs, 128 chunks of 16 bytes.
        const half *src = values + (size_t)b * BLOCK_SIZE * BLOCK_SIZE;
        {
            const int row = threadIdx.x / (BLOCK_SIZE / CHUNK_HALFS);
            const int col = threadIdx.x % (BLOCK_SIZE / CHUNK_HALFS) * CHUNK_HALFS;
            *((int4 *)(w + row * LD_W + col)) = *((const int4 *)(src + row * BLOCK_SIZE + col));
        }

        // Copy the rows of X that meet it: 32 x 64 halfs.
        const int rowStart = colIdx[b] * BLOCK_SIZE;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int chunk = threadIdx.x + i * THREADS_PER_BLOCK;
            const int row = chunk / (CTA_COLS / CHUNK_HALFS);
            const int col = chunk % (CTA_COLS / CHUNK_HALFS) * CHUNK_HALFS;
            int4 data = make_int4(0, 0, 0, 0);
            if (colStart + col < n) {
                data = *((const int4 *)(X + (size_t)(rowStart + row) * n + colStart + col));
            }
            *((int4 *)(x + row * LD_X + col)) = data;
        }

        // One barrier per block is enough: two steps on, all have passed the next one.
        __syncthreads();

#pragma unroll
        for (int k = 0; k < BLOCK_SIZE; k += WMMA_K) {
            wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a;
            wmma::load_matrix_sync(a, w + warpRow * WMMA_M * LD_W + k, LD_W);
#pragma unroll
            for (int j = 0; j < 2; j++) {
                wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> bf;
                wmma::load_matrix_sync(bf, x + k * LD_X + (warpCol * 2 + j) * WMMA_N, LD_X);
                wmma::mma_sync(c[j], a, bf, c[j]);
            }
        }
    }

    __syncthreads();

    // Store the fragments to shared memory, then stream whole rows to global memory.
#pragma unroll
    for (int j = 0; j < 2; j++) {
        float *tile = shmem.y + warpRow * WMMA_M * LD_Y + (warpCol * 2 + j) * WMMA_N;
#pragma unroll
        for (int t = 0; t < c[j].num_elements; t++) {
            c[j].x[t] *= alpha;
        }
        wmma::store_matrix_sync(tile, c[j], LD_Y, wmma::mem_row_major);
    }

    __syncthreads();

    for (int i = threadIdx.x; i < BLOCK_SIZE * CTA_COLS; i += THREADS_PER_BLOCK) {
        const int row = i / CTA_COLS;
        const int col = i % CTA_COLS;
        if (colStart + col < n) {
            float *out = Y + (size_t)(blockRow * BLOCK_SIZE + row) * n + colStart + col;
            *out = shmem.y[row * LD_Y + col] + beta * *out;
        }
    }
}

int main(int argc, char **argv)
{
    printf("Initializing...\n");
    int dev = findCudaDevice(argc, (const char **)argv);
    cudaDeviceProp deviceProp;
    checkCudaErrors(cudaGetDeviceProperties(&deviceProp, dev));
    if (deviceProp.major < 7) {
        printf("bsrSpmm requires SM 7.0 or higher to use Tensor Cores.  Exiting...\n");
        exit(EXIT_WAIVED);
    }

    const int blockRows = 64, blockCols = 64, n = 1024, perRow = 8;
    const int nnzb = blockRows * perRow;
    int *rowPtr, *colIdx;
    half *values, *X;
    float *Y;
    checkCudaErrors(cudaMallocManaged(&rowPtr, (blockRows + 1) * sizeof(int)));
    checkCudaErrors(cudaMallocManaged(&colIdx, nnzb * sizeof(int)));
    checkCudaErrors(cudaMallocManaged(&values, nnzb * BLOCK_SIZE * BLOCK_SIZE * sizeof(half)));
    checkCudaErrors(cudaMallocManaged(&X, blockCols * BLOCK_SIZE * n * sizeof(half)));
    checkCudaErrors(cudaMallocManaged(&Y, blockRows * BLOCK_SIZE * n * sizeof(float)));
    for (int i = 0; i <= blockRows; i++) rowPtr[i] = i * perRow;
    for (int i = 0; i < nnzb; i++) colIdx[i] = (i * 7) % blockCols;
    for (int i = 0; i < nnzb * BLOCK_SIZE * BLOCK_SIZE; i++) values[i] = __float2half(rand() % 3 - 1);
    for (int i = 0; i < blockCols * BLOCK_SIZE * n; i++) X[i] = __float2half(rand() % 3 - 1);
    memset(Y, 0, blockRows * BLOCK_SIZE * n * sizeof(float));

    dim3 gridDim((n + CTA_COLS - 1) / CTA_COLS, blockRows);
    checkKernelErrors((bsr_spmm<<<gridDim, THREADS_PER_BLOCK>>>(rowPtr, colIdx, values, X, Y, n, 1.0f, 0.0f)));
    checkCudaErrors(cudaDeviceSynchronize());
    printf("Y[0] = %f\n", Y[0]);
    return 0;
}
