// Second half of an MLP block in one kernel:  Y = relu(X * W + b) + R
// Two shared memory stages filled with the pipeline primitives of cuda_pipeline.h, products with WMMA.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>

using namespace nvcuda;

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kThreads = 128;
// 8 halves of padding per row against bank conflicts
constexpr int kStrideX = kTileK + 8;
constexpr int kStrideW = kTileN + 8;
constexpr int kStrideY = kTileN + 4;
constexpr int kStageSize = kTileM * kStrideX + kTileK * kStrideW;

__device__ __forceinline__ void copyChunk(half *dst, const half *base, size_t offset, bool valid) {
    // chunks outside the matrix are filled with zeros
    __pipeline_memcpy_async(dst, base + (valid ? offset : 0), 16, valid ? 0 : 16);
}

__device__ void loadStage(half *stage, const half *X, const half *W, int m0, int n0, int k0, int M, int N, int K) {
    half *tileX = stage;
    half *tileW = stage + kTileM * kStrideX;
    for (int chunk = threadIdx.x; chunk < kTileM * kTileK / 8; chunk += kThreads) {
        const int row = chunk / (kTileK / 8);
        const int col = chunk % (kTileK / 8) * 8;
        const bool valid = m0 + row < M && k0 + col < K;
        copyChunk(tileX + row * kStrideX + col, X, (size_t)(m0 + row) * K + k0 + col, valid);
    }
    for (int chunk = threadIdx.x; chunk < kTileK * kTileN / 8; chunk += kThreads) {
        const int row = chunk / (kTileN / 8);
        const int col = chunk % (kTileN / 8) * 8;
        const bool valid = k0 + row < K && n0 + col < N;
        copyChunk(tileW + row * kStrideW + col, W, (size_t)(k0 + row) * N + n0 + col, valid);
    }
}

__global__ void __launch_bounds__(kThreads)
    fusedLinear(const half *X, const half *W, const half *bias, const half *residual, half *Y, int M, int N, int K) {
    __shared__ __align__(128) unsigned char raw[2 * kStageSize * sizeof(half)];
    half *stages = reinterpret_cast<half *>(raw);
    float *tileY = reinterpret_cast<float *>(raw);

    const int warp = threadIdx.x / 32;
    const int warpM = warp / 2 * 32;
    const int warpN = warp % 2 * 32;
    const int m0 = blockIdx.y * kTileM;
    const int n0 = blockIdx.x * kTileN;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            wmma::fill_fragment(acc[i][j], 0.0f);
        }
    }

    const int steps = (K + kTileK - 1) / kTileK;
    loadStage(stages, X, W, m0, n0, 0, M, N, K);
    __pipeline_commit();

    for (int step = 0; step < steps; ++step) {
        if (step + 1 < steps) {
            loadStage(stages + (step + 1) % 2 * kStageSize, X, W, m0, n0, (step + 1) * kTileK, M, N, K);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();

        const half *tileX = stages + step % 2 * kStageSize;
        const half *tileW = tileX + kTileM * kStrideX;
        for (int k = 0; k < kTileK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fragX[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fragW[2];
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(fragX[i], tileX + (warpM + i * 16) * kStrideX + k, kStrideX);
            }
            for (int j = 0; j < 2; ++j) {
                wmma::load_matrix_sync(fragW[j], tileW + k * kStrideW + warpN + j * 16, kStrideW);
            }
            for (int i = 0; i < 2; ++i) {
                for (int j = 0; j < 2; ++j) {
                    wmma::mma_sync(acc[i][j], fragX[i], fragW[j], acc[i][j]);
                }
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; ++i) {
        for (int j = 0; j < 2; ++j) {
            wmma::store_matrix_sync(tileY + (warpM + i * 16) * kStrideY + warpN + j * 16, acc[i][j], kStrideY,
                                    wmma::mem_row_major);
        }
    }
    __syncthreads();

    for (int e = threadIdx.x; e < kTileM * kTileN; e += kThreads) {
        const int row = e / kTileN;
        const int col = e % kTileN;
        if (m0 + row < M && n0 + col < N) {
            const size_t at = (size_t)(m0 + row) * N + n0 + col;
            const float linear = tileY[row * kStrideY + col] + __half2float(bias[n0 + col]);
            Y[at] = __float2half(fmaxf(linear, 0.0f) + __half2float(residual[at]));
        }
    }
}
