/*
 * Column-major BLAS semantics, op(A) = A^T, op(B) = B:  C = alpha * A^T B + beta * C
 * A is k x m (lda), B is k x n (ldb), C is m x n (ldc).
 */
#include <cuda_fp16.h>
#include <mma.h>

#define TILE 16
#define WARPS_PER_BLOCK 8

static inline unsigned int iDivUp(unsigned int a, unsigned int b) { return (a % b != 0) ? (a / b + 1) : (a / b); }

__global__ void hgemm_tn(int m, int n, int k, float alpha, const half *__restrict__ A, int lda,
                         const half *__restrict__ B, int ldb, float beta, float *__restrict__ C, int ldc) {
    using namespace nvcuda::wmma;
    const int tiles_m = m / TILE;
    const int tile = blockIdx.x * WARPS_PER_BLOCK + threadIdx.y;
    const int i = (tile % tiles_m) * TILE;
    const int j = (tile / tiles_m) * TILE;
    if (j >= n) return;

    fragment<matrix_a, 16, 16, 16, half, row_major> fa;   // A^T: k runs fastest in memory
    fragment<matrix_b, 16, 16, 16, half, col_major> fb;
    fragment<accumulator, 16, 16, 16, float> acc, old;
    fill_fragment(acc, 0.0f);
    for (int p = 0; p < k; p += TILE) {
        load_matrix_sync(fa, A + p + (size_t)i * lda, lda);
        load_matrix_sync(fb, B + p + (size_t)j * ldb, ldb);
        mma_sync(acc, fa, fb, acc);
    }
    float *dst = C + i + (size_t)j * ldc;
    if (beta != 0.0f) {
        load_matrix_sync(old, dst, ldc, mem_col_major);
#pragma unroll
        for (int t = 0; t < acc.num_elements; ++t) acc.x[t] = alpha * acc.x[t] + beta * old.x[t];
    } else {
#pragma unroll
        for (int t = 0; t < acc.num_elements; ++t) acc.x[t] *= alpha;
    }
    store_matrix_sync(dst, acc, ldc, mem_col_major);
}

cudaError_t gemm_tn(int m, int n, int k, const float *alpha, const half *A, int lda, const half *B, int ldb,
                    const float *beta, float *C, int ldc, cudaStream_t s) {
    if (m % TILE || n % TILE || k % TILE) return cudaErrorInvalidValue;
    dim3 threads(32, WARPS_PER_BLOCK);
    unsigned int blocks = iDivUp((m / TILE) * (n / TILE), WARPS_PER_BLOCK);
    hgemm_tn<<<blocks, threads, 0, s>>>(m, n, k, *alpha, A, lda, B, ldb, *beta, C, ldc);
    return cudaPeekAtLastError();
}
