/* BLAS-like: C = alpha * A * B + beta * C, everything column major with leading dimensions, a loop over the batch. */
#include <cuda_fp16.h>
#include <mma.h>
#define IDX2C(i, j, ld) (((j) * (ld)) + (i))

using nvcuda::wmma::fragment;
using nvcuda::wmma::accumulator;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::col_major;

__global__ void hgemm_nn_kernel(int m, int n, int k, float alpha, const __half *A, int lda, const __half *B, int ldb,
                                float beta, float *C, int ldc)
{
    int i = 16 * (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    int j = 16 * blockIdx.y;
    if (i >= m || j >= n) return;
    fragment<accumulator, 16, 16, 16, float> acc, old;
    nvcuda::wmma::fill_fragment(acc, 0.0f);
    for (int l = 0; l < k; l += 16) {
        fragment<matrix_a, 16, 16, 16, __half, col_major> fa;
        fragment<matrix_b, 16, 16, 16, __half, col_major> fb;
        nvcuda::wmma::load_matrix_sync(fa, A + IDX2C(i, l, lda), lda);
        nvcuda::wmma::load_matrix_sync(fb, B + IDX2C(l, j, ldb), ldb);
        nvcuda::wmma::mma_sync(acc, fa, fb, acc);
    }
    nvcuda::wmma::load_matrix_sync(old, C + IDX2C(i, j, ldc), ldc, nvcuda::wmma::mem_col_major);
    for (int t = 0; t < acc.num_elements; t++) acc.x[t] = alpha * acc.x[t] + beta * old.x[t];
    nvcuda::wmma::store_matrix_sync(C + IDX2C(i, j, ldc), acc, ldc, nvcuda::wmma::mem_col_major);
}

extern "C" int hgemm_batched(int m, int n, int k, float alpha, const __half **A, int lda, const __half **B, int ldb,
                             float beta, float **C, int ldc, int batch, cudaStream_t stream)
{
    if (lda < m || ldb < k || ldc < m) return -1;
    dim3 block(128), grid((m + 63) / 64, (n + 15) / 16);
    for (int b = 0; b < batch; b++)
        hgemm_nn_kernel<<<grid, block, 0, stream>>>(m, n, k, alpha, A[b], lda, B[b], ldb, beta, C[b], ldc);
    return (int)cudaGetLastError();
}
