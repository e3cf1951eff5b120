#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// D = op(A) op(B) with op chosen at compile time, all row-major; M, N, K multiples of 32.
template <bool TransA, bool TransB>
__global__ void gemm_flags(const half *A, const half *B, half *D, int M, int N, int K, int lda, int ldb, int ldd) {
    typedef typename std::conditional<TransA, wmma::col_major, wmma::row_major>::type LayoutA;
    typedef typename std::conditional<TransB, wmma::col_major, wmma::row_major>::type LayoutB;
    const int m = (blockIdx.y * blockDim.y + threadIdx.y) * 16;
    const int n = blockIdx.x * 32;
    if (m >= M) return;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> d[2];
    wmma::fill_fragment(d[0], __float2half(0.f));
    wmma::fill_fragment(d[1], __float2half(0.f));
    for (int k = 0; k < K; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, LayoutA> a;
        wmma::load_matrix_sync(a, TransA ? A + k * lda + m : A + m * lda + k, lda);
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> b;
            wmma::load_matrix_sync(b, TransB ? B + (n + 16 * j) * ldb + k : B + k * ldb + n + 16 * j, ldb);
            wmma::mma_sync(d[j], a, b, d[j]);
        }
    }
    for (int j = 0; j < 2; ++j) wmma::store_matrix_sync(D + m * ldd + n + 16 * j, d[j], ldd, wmma::mem_row_major);
}

void gemm(bool transa, bool transb, const half *A, const half *B, half *D, int M, int N, int K) {
    dim3 block(32, 4), grid(N / 32, (M + 63) / 64);
    const int lda = transa ? M : K, ldb = transb ? K : N;
    if (transa && transb)
        gemm_flags<true, true><<<grid, block>>>(A, B, D, M, N, K, lda, ldb, N);
    else if (transa)
        gemm_flags<true, false><<<grid, block>>>(A, B, D, M, N, K, lda, ldb, N);
    else if (transb)
        gemm_flags<false, true><<<grid, block>>>(A, B, D, M, N, K, lda, ldb, N);
    else
        gemm_flags<false, false><<<grid, block>>>(A, B, D, M, N, K, lda, ldb, N);
}
