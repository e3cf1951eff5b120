/*
 * Tensor core matrix multiply with shared memory blocking, after chapter 5 of the book.
 * C = alpha * A * B + beta * C, everything row major. Thread blocks are two dimensional: (32, warps).
 */
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <iostream>

using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::accumulator;
using nvcuda::wmma::row_major;

#define TILE_M 64
#define TILE_N 32
#define TILE_K 32
#define WARPS_Y 2
#define WARPS_X 2
#define SKEW_HALF 16

struct GemmArgs {
    const __half *a;
    const __half *b;
    float *c;
    int rows, cols, depth;
    float alpha, beta;
};

__device__ void copy_tile(__half *tile, int tile_rows, int tile_cols, int pitch, const __half *matrix, int row0, int col0,
                          int rows, int cols)
{
    int thread = threadIdx.y * blockDim.x + threadIdx.x;
    int threads = blockDim.x * blockDim.y;
    for (int i = thread; i < tile_rows * tile_cols; i += threads) {
        int y = i / tile_cols;
        int x = i % tile_cols;
        bool valid = row0 + y < rows && col0 + x < cols;
        tile[y * pitch + x] = valid ? matrix[(size_t)(row0 + y) * cols + col0 + x] : __float2half(0.0f);
    }
}

__global__ void blocked_gemm(GemmArgs args)
{
    __shared__ __align__(32) __half tile_a[TILE_M * (TILE_K + SKEW_HALF)];
    __shared__ __align__(32) __half tile_b[TILE_K * (TILE_N + SKEW_HALF)];
    __shared__ __align__(32) float tile_c[TILE_M * TILE_N];

    const int block_row = blockIdx.y * TILE_M;
    const int block_col = blockIdx.x * TILE_N;
    const int warp_y = threadIdx.y / WARPS_X;
    const int warp_x = threadIdx.y % WARPS_X;

    fragment<accumulator, 16, 16, 16, float> sums[2];
    nvcuda::wmma::fill_fragment(sums[0], 0.0f);
    nvcuda::wmma::fill_fragment(sums[1], 0.0f);

    const int steps = (args.depth + TILE_K - 1) / TILE_K;
    for (int step = 0; step < steps; ++step) {
        copy_tile(tile_a, TILE_M, TILE_K, TILE_K + SKEW_HALF, args.a, block_row, step * TILE_K, args.rows, args.depth);
        copy_tile(tile_b, TILE_K, TILE_N, TILE_N + SKEW_HALF, args.b, step * TILE_K, block_col, args.depth, args.cols);
        __syncthreads();

        for (int k = 0; k < TILE_K; k += 16) {
            fragment<matrix_b, 16, 16, 16, __half, row_major> frag_b;
            nvcuda::wmma::load_matrix_sync(frag_b, tile_b + k * (TILE_N + SKEW_HALF) + warp_x * 16, TILE_N + SKEW_HALF);
            for (int i = 0; i < 2; ++i) {
                fragment<matrix_a, 16, 16, 16, __half, row_major> frag_a;
                const __half *from = tile_a + (warp_y * 32 + i * 16) * (TILE_K + SKEW_HALF) + k;
                nvcuda::wmma::load_matrix_sync(frag_a, from, TILE_K + SKEW_HALF);
                nvcuda::wmma::mma_sync(sums[i], frag_a, frag_b, sums[i]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i)
        nvcuda::wmma::store_matrix_sync(tile_c + (warp_y * 32 + i * 16) * TILE_N + warp_x * 16, sums[i], TILE_N,
                                        nvcuda::wmma::mem_row_major);
    __syncthreads();

    for (int y = threadIdx.y; y < TILE_M; y += blockDim.y) {
        int row = block_row + y;
        int col = block_col + threadIdx.x;
        if (row < args.rows && col < args.cols) {
            float *out = args.c + (size_t)row * args.cols + col;
            *out = args.alpha * tile_c[y * TILE_N + threadIdx.x] + args.beta * *out;
        }
    }
}

void gemm(const __half *a, const __half *b, float *c, int rows, int cols, int depth, float alpha, float beta)
{
    GemmArgs args = {a, b, c, rows, cols, depth, alpha, beta};
    dim3 threads(32, WARPS_Y * WARPS_X);
    dim3 blocks((cols + TILE_N - 1) / TILE_N, (rows + TILE_M - 1) / TILE_M);
    blocked_gemm<<<blocks, threads>>>(args);
    cudaError_t error = cudaDeviceSynchronize();
    if (error != cudaSuccess) std::cerr << cudaGetErrorString(error) << std::endl;
}
