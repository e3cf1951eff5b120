/*
 * Strided batched SGEMM on TF32 tensor cores:  C[i] = alpha * A[i] * B[i]
 *
 * A[i] is m x k and B[i] is k x n, both row-major with leading dimensions lda, ldb;
 * C[i] is COLUMN-major with ldc >= m, so that BLAS-style callers can take it as it is.
 * 32x64 of C per block, 4 warps side by side with 32x16 each.
 */
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

static const int WMMA_M = 16;
static const int WMMA_N = 16;
static const int WMMA_K = 8;

static const int BLOCK_ROWS = 32;
static const int BLOCK_COLS = 64;
static const int DEPTH      = 16;
static const int SKEW       = 4;
static const int WARPS      = 4;

typedef wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, wmma::precision::tf32, wmma::row_major> FragA;
typedef wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, wmma::precision::tf32, wmma::row_major> FragB;
typedef wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> FragC;

template <typename Frag>
__device__ __forceinline__ void toTf32(Frag &f)
{
    for (int i = 0; i < f.num_elements; i++)
        f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

extern "C" __global__ void sgemmTf32StridedBatched(int m, int n, int k,
                                                   float alpha,
                                                   const float *A, int lda, long long strideA,
                                                   const float *B, int ldb, long long strideB,
                                                   float *C, int ldc, long long strideC)
{
    __shared__ __align__(32) float shA[BLOCK_ROWS][DEPTH + SKEW];
    __shared__ __align__(32) float shB[DEPTH][BLOCK_COLS + SKEW];
    __shared__ __align__(32) float shC[BLOCK_COLS][BLOCK_ROWS + SKEW];   // column by column

    const int batch  = blockIdx.z;
    const int rowBeg = blockIdx.x * BLOCK_ROWS;
    const int colBeg = blockIdx.y * BLOCK_COLS;
    const int warpId = threadIdx.x >> 5;

    A += batch * strideA;
    B += batch * strideB;
    C += batch * strideC;

    FragC acc[2];
    wmma::fill_fragment(acc[0], 0.0f);
    wmma::fill_fragment(acc[1], 0.0f);

    for (int kBeg = 0; kBeg < k; kBeg += DEPTH)
    {
        for (int idx = threadIdx.x; idx < BLOCK_ROWS * DEPTH; idx += WARPS * 32)
        {
            const int r = idx / DEPTH;
            const int c = idx % DEPTH;
            float val = 0.0f;
            if (rowBeg + r < m && kBeg + c < k)
                val = A[(long long)(rowBeg + r) * lda + kBeg + c];
            shA[r][c] = val;
        }
        for (int idx = threadIdx.x; idx < DEPTH * BLOCK_COLS; idx += WARPS * 32)
        {
            const int r = idx / BLOCK_COLS;
            const int c = idx % BLOCK_COLS;
            float val = 0.0f;
            if (kBeg + r < k && colBeg + c < n)
                val = B[(long long)(kBeg + r) * ldb + colBeg + c];
            shB[r][c] = val;
        }
        __syncthreads();

        for (int kk = 0; kk < DEPTH; kk += WMMA_K)
        {
            FragB b;
            wmma::load_matrix_sync(b, &shB[kk][warpId * WMMA_N], BLOCK_COLS + SKEW);
            toTf32(b);
            for (int i = 0; i < 2; i++)
            {
                FragA a;
                wmma::load_matrix_sync(a, &shA[i * WMMA_M][kk], DEPTH + SKEW);
                toTf32(a);
                wmma::mma_sync(acc[i], a, b, acc[i]);
            }
        }
        __syncthreads();
    }

    for (int i = 0; i < 2; i++)
    {
        for (int e = 0; e < acc[i].num_elements; e++)
            acc[i].x[e] *= alpha;
        wmma::store_matrix_sync(&shC[warpId * WMMA_N][i * WMMA_M], acc[i], BLOCK_ROWS + SKEW, wmma::mem_col_major);
    }
    __syncthreads();

    // neighbours along a column go to neighbours in memory
    for (int idx = threadIdx.x; idx < BLOCK_COLS * BLOCK_ROWS; idx += WARPS * 32)
    {
        const int c = idx / BLOCK_ROWS;
        const int r = idx % BLOCK_ROWS;
        if (rowBeg + r < m && colBeg + c < n)
            C[(long long)(colBeg + c) * ldc + rowBeg + r] = shC[c][r];
    }
}
