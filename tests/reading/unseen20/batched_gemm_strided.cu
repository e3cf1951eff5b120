#include "cuda_runtime.h"
#include "cuda_fp16.h"
#include "mma.h"

// Strided batched half precision GEMM, a stand-in for cublasGemmStridedBatchedEx in row-major storage:
//
//     C_i = alpha * A_i * op(B_i) + beta * C_i          i = 0 .. batchCount - 1
//
// A_i is m x k, op(B_i) is k x n, C_i is m x n; X_i starts strideX elements after X_(i-1).
// A stride of zero uses the same matrix for the whole batch.

typedef enum { BGEMM_OP_N = 0, BGEMM_OP_T = 1 } bgemmOperation_t;

typedef enum {
    BGEMM_STATUS_SUCCESS = 0,
    BGEMM_STATUS_INVALID_VALUE = 1,
    BGEMM_STATUS_EXECUTION_FAILED = 2
} bgemmStatus_t;

namespace {

using namespace nvcuda;

constexpr int TILE_M = 64;
constexpr int TILE_N = 32;
constexpr int TILE_K = 32;
constexpr int SKEW = 8;
constexpr int BLOCK_THREADS = 128;

template <bool TRANS_B>
__global__ void batchedGemmKernel(int m, int n, int k, float alpha,
                                  const half* __restrict__ A, int lda, long long strideA,
                                  const half* __restrict__ B, int ldb, long long strideB,
                                  float beta, half* __restrict__ C, int ldc, long long strideC)
{
    __shared__ __align__(32) half As[TILE_M][TILE_K + SKEW];
    __shared__ __align__(32) half Bs[TILE_K][TILE_N + SKEW];
    __shared__ __align__(32) float Cs[TILE_M][TILE_N + SKEW];

    const int batch = blockIdx.z;
    A += batch * strideA;
    B += batch * strideB;
    C += batch * strideC;

    const int tileRow = blockIdx.y * TILE_M;
    const int tileCol = blockIdx.x * TILE_N;
    const int warpRow = (threadIdx.x / 32 / 2) * 32;  // 2 x 2 warps of 32 x 16
    const int warpCol = (threadIdx.x / 32 % 2) * 16;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc0, acc1;
    wmma::fill_fragment(acc0, 0.0f);
    wmma::fill_fragment(acc1, 0.0f);

    for (int kBase = 0; kBase < k; kBase += TILE_K)
    {
        for (int idx = threadIdx.x; idx < TILE_M * TILE_K; idx += BLOCK_THREADS)
        {
            const int r = idx / TILE_K;
            const int c = idx % TILE_K;
            half value = __float2half(0.0f);
            if (tileRow + r < m && kBase + c < k)
                value = A[(long long)(tileRow + r) * lda + kBase + c];
            As[r][c] = value;
        }

        for (int idx = threadIdx.x; idx < TILE_K * TILE_N; idx += BLOCK_THREADS)
        {
            // neighbouring threads read neighbouring addresses in both cases
            const int r = TRANS_B ? idx % TILE_K : idx / TILE_N;
            const int c = TRANS_B ? idx / TILE_K : idx % TILE_N;
            half value = __float2half(0.0f);
            if (kBase + r < k && tileCol + c < n)
                value = TRANS_B ? B[(long long)(tileCol + c) * ldb + kBase + r]
                                : B[(long long)(kBase + r) * ldb + tileCol + c];
            Bs[r][c] = value;
        }
        __syncthreads();

        for (int kk = 0; kk < TILE_K; kk += 16)
        {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a0, a1;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
            wmma::load_matrix_sync(a0, &As[warpRow][kk], TILE_K + SKEW);
            wmma::load_matrix_sync(a1, &As[warpRow + 16][kk], TILE_K + SKEW);
            wmma::load_matrix_sync(b, &Bs[kk][warpCol], TILE_N + SKEW);
            wmma::mma_sync(acc0, a0, b, acc0);
            wmma::mma_sync(acc1, a1, b, acc1);
        }
        __syncthreads();
    }

    wmma::store_matrix_sync(&Cs[warpRow][warpCol], acc0, TILE_N + SKEW, wmma::mem_row_major);
    wmma::store_matrix_sync(&Cs[warpRow + 16][warpCol], acc1, TILE_N + SKEW, wmma::mem_row_major);
    __syncthreads();

    for (int idx = threadIdx.x; idx < TILE_M * TILE_N; idx += BLOCK_THREADS)
    {
        const int r = idx / TILE_N;
        const int c = idx % TILE_N;
        if (tileRow + r < m && tileCol + c < n)
        {
            half* dst = C + (long long)(tileRow + r) * ldc + tileCol + c;
            float value = alpha * Cs[r][c];
            if (beta != 0.0f)  // C may be uninitialized otherwise
                value += beta * __half2float(*dst);
            *dst = __float2half(value);
        }
    }
}

}  // namespace

bgemmStatus_t bgemmStridedBatched(bgemmOperation_t transb, int m, int n, int k, const float* alpha,
                                  const half* A, int lda, long long strideA,
                                  const half* B, int ldb, long long strideB,
                                  const float* beta, half* C, int ldc, long long strideC,
                                  int batchCount, cudaStream_t stream)
{
    if (m < 0 || n < 0 || k < 0 || batchCount < 0 || lda < k || ldc < n)
        return BGEMM_STATUS_INVALID_VALUE;
    if (ldb < (transb == BGEMM_OP_T ? k : n))
        return BGEMM_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batchCount == 0)
        return BGEMM_STATUS_SUCCESS;

    const dim3 grid((n + TILE_N - 1) / TILE_N, (m + TILE_M - 1) / TILE_M, batchCount);
    const dim3 block(BLOCK_THREADS);
    if (transb == BGEMM_OP_T)
        batchedGemmKernel<true><<<grid, block, 0, stream>>>(m, n, k, *alpha, A, lda, strideA, B, ldb, strideB,
                                                            *beta, C, ldc, strideC);
    else
        batchedGemmKernel<false><<<grid, block, 0, stream>>>(m, n, k, *alpha, A, lda, strideA, B, ldb, strideB,
                                                             *beta, C, ldc, strideC);

    return cudaGetLastError() == cudaSuccess ? BGEMM_STATUS_SUCCESS : BGEMM_STATUS_EXECUTION_FAILED;
}
