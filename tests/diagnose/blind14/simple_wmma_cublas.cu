/* My first tensor core GEMM, written for the HPC course (assignment 3).
 *
 *   C = alpha * A * B + beta * C
 *
 * Everything is COLUMN MAJOR so that I can compare with cublasGemmEx:
 *   A is M x K, B is K x N, C is M x N, lda = M, ldb = K, ldc = M.
 * All sizes have to be multiples of 16. Launch: dim3 block(64, 4): 2 warps along M, 4 along N; each warp does
 * a 32 x 16 piece of C, so that a block makes 64 x 64.
 */
#include <mma.h>
#include <cuda_fp16.h>

using namespace nvcuda;

#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16
#define TILES_M 2          // 16 x 16 tiles of a warp, below each other
#define CHUNK_K 32         // columns of A / rows of B that are in shared memory at a time
#define BLOCK_M 64
#define BLOCK_N 64
#define SKEW 8

__global__ void gemm_course(const half *A, const half *B, float *C, int M, int N, int K, float alpha, float beta)
{
    // column-major as in global memory: As[k][m], Bs[n][k]
    __shared__ __align__(32) half As[CHUNK_K][BLOCK_M + SKEW];
    __shared__ __align__(32) half Bs[BLOCK_N][CHUNK_K + SKEW];

    const int lda = M, ldb = K, ldc = M;
    const int tid = threadIdx.y * blockDim.x + threadIdx.x;
    const int numThreads = blockDim.x * blockDim.y;
    const int warpM = threadIdx.x / warpSize;
    const int warpN = threadIdx.y;
    const int blockM = blockIdx.x * BLOCK_M;
    const int blockN = blockIdx.y * BLOCK_N;
    const int cRow = blockM + warpM * TILES_M * WMMA_M;
    const int cCol = blockN + warpN * WMMA_N;

    wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> aFrag[TILES_M];
    wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> bFrag;
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> accFrag[TILES_M];
    wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> cFrag;

    for (int i = 0; i < TILES_M; i++)
        wmma::fill_fragment(accFrag[i], 0.0f);

    for (int kStart = 0; kStart < K; kStart += CHUNK_K)
    {
        for (int idx = tid; idx < CHUNK_K * BLOCK_M; idx += numThreads)
        {
            int m = idx % BLOCK_M, k = idx / BLOCK_M;
            half value = __float2half(0.0f);
            if (blockM + m < M && kStart + k < K)
                value = A[(blockM + m) + (size_t)(kStart + k) * lda];
            As[k][m] = value;
        }
        for (int idx = tid; idx < CHUNK_K * BLOCK_N; idx += numThreads)
        {
            int k = idx % CHUNK_K, n = idx / CHUNK_K;
            half value = __float2half(0.0f);
            if (kStart + k < K && blockN + n < N)
                value = B[(kStart + k) + (size_t)(blockN + n) * ldb];
            Bs[n][k] = value;
        }
        __syncthreads();

        for (int k = 0; k < CHUNK_K; k += WMMA_K)
        {
            wmma::load_matrix_sync(bFrag, &Bs[warpN * WMMA_N][k], CHUNK_K + SKEW);
            for (int i = 0; i < TILES_M; i++)
            {
                wmma::load_matrix_sync(aFrag[i], &As[k][(warpM * TILES_M + i) * WMMA_M], BLOCK_M + SKEW);
                wmma::mma_sync(accFrag[i], aFrag[i], bFrag, accFrag[i]);
            }
        }
        __syncthreads();
    }

    // C is read and written straight from fragments
    for (int i = 0; i < TILES_M; i++)
    {
        int row = cRow + i * WMMA_M;
        if (row < M && cCol < N)
        {
            float *cTile = C + row + (size_t)cCol * ldc;
            wmma::load_matrix_sync(cFrag, cTile, ldc, wmma::mem_col_major);
            for (int t = 0; t < cFrag.num_elements; t++)
                cFrag.x[t] = alpha * accFrag[i].x[t] + beta * cFrag.x[t];
            wmma::store_matrix_sync(cTile, cFrag, ldc, wmma::mem_col_major);
        }
    }
}
