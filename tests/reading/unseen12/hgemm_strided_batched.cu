#include <cuda_fp16.h>
#include <mma.h>

#include "hgemm_strided_batched.h"

namespace tc {

namespace wmma = nvcuda::wmma;

static constexpr int TILE_M = 32;
static constexpr int TILE_N = 32;

__global__ void hgemm_strided_batched_kernel(int m, int n, int k, const half *alpha, const half *A, int lda,
                                             long long int strideA, const half *B, int ldb, long long int strideB,
                                             const half *beta, half *C, int ldc, long long int strideC) {
    const half *a = A + blockIdx.z * strideA;
    const half *b = B + blockIdx.z * strideB;
    half *c = C + blockIdx.z * strideC;

    const int warp = threadIdx.y;
    const int row = blockIdx.x * TILE_M + (warp & 1) * 16;
    const int col = blockIdx.y * TILE_N + (warp >> 1) * 16;

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> af;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bf;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc, cf;
    wmma::fill_fragment(acc, __float2half(0.0f));

    for (int p = 0; p < k; p += 16) {
        wmma::load_matrix_sync(af, a + row + p * lda, lda);
        wmma::load_matrix_sync(bf, b + p + col * ldb, ldb);
        wmma::mma_sync(acc, af, bf, acc);
    }

    const half al = *alpha, be = *beta;
    wmma::load_matrix_sync(cf, c + row + col * ldc, ldc, wmma::mem_col_major);
    for (int i = 0; i < cf.num_elements; i++) cf.x[i] = __hadd(__hmul(al, acc.x[i]), __hmul(be, cf.x[i]));
    wmma::store_matrix_sync(c + row + col * ldc, cf, ldc, wmma::mem_col_major);
}

cudaError_t hgemm_strided_batched(cudaStream_t stream, int m, int n, int k, const half *alpha, const half *A, int lda,
                                  long long int strideA, const half *B, int ldb, long long int strideB, const half *beta,
                                  half *C, int ldc, long long int strideC, int batchCount) {
    if (m % TILE_M || n % TILE_N || k % 16) return cudaErrorInvalidValue;
    dim3 block(32, 4, 1);
    dim3 grid(m / TILE_M, n / TILE_N, batchCount);
    hgemm_strided_batched_kernel<<<grid, block, 0, stream>>>(m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C,
                                                             ldc, strideC);
    return cudaGetLastError();
}

}  // namespace tc
