#pragma once
// Column-major strided batched GEMM on TF32 tensor cores, cuBLAS conventions:
// C_i = alpha * A_i * B_i + beta * C_i,  A_i: m x k (lda), B_i: k x n (ldb), C_i: m x n (ldc)
#include <cuda_runtime.h>
#include <mma.h>

namespace tcgemm {
namespace detail {

template <int BM, int BN>
__global__ void __launch_bounds__(32 * (BM / 16) * (BN / 16))
    sgemm_tf32_nn(int m, int n, int k, float alpha, const float* __restrict__ A, int lda, long long strideA,
                  const float* __restrict__ B, int ldb, long long strideB, float beta, float* __restrict__ C, int ldc,
                  long long strideC) {
  using namespace nvcuda;
  constexpr int WARPS_M = BM / 16;
  const int warp = threadIdx.x / 32;
  const int row = blockIdx.x * BM + (warp % WARPS_M) * 16;
  const int col = blockIdx.y * BN + (warp / WARPS_M) * 16;
  A += blockIdx.z * strideA;
  B += blockIdx.z * strideB;
  C += blockIdx.z * strideC;
  if (row >= m || col >= n) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::col_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc, c;
  wmma::fill_fragment(acc, 0.f);
  for (int p = 0; p < k; p += 8) {
    wmma::load_matrix_sync(a, A + row + (long long)p * lda, lda);
    wmma::load_matrix_sync(b, B + p + (long long)col * ldb, ldb);
#pragma unroll
    for (int t = 0; t < a.num_elements; ++t) a.x[t] = wmma::__float_to_tf32(a.x[t]);
#pragma unroll
    for (int t = 0; t < b.num_elements; ++t) b.x[t] = wmma::__float_to_tf32(b.x[t]);
    wmma::mma_sync(acc, a, b, acc);
  }
  float* tile = C + row + (long long)col * ldc;
  if (beta != 0.f) {
    wmma::load_matrix_sync(c, tile, ldc, wmma::mem_col_major);
    for (int t = 0; t < acc.num_elements; ++t) acc.x[t] = alpha * acc.x[t] + beta * c.x[t];
  } else {
    for (int t = 0; t < acc.num_elements; ++t) acc.x[t] *= alpha;
  }
  wmma::store_matrix_sync(tile, acc, ldc, wmma::mem_col_major);
}

}  // namespace detail

/// m, n multiples of 16, k multiple of 8; leading dimensions multiples of 4.
inline cudaError_t sgemm_strided_batched(int m, int n, int k, float alpha, const float* A, int lda, long long strideA,
                                         const float* B, int ldb, long long strideB, float beta, float* C, int ldc,
                                         long long strideC, int batch_count, cudaStream_t stream = 0) {
  if (m % 16 || n % 16 || k % 8) return cudaErrorInvalidValue;
  constexpr int BM = 64, BN = 32;
  dim3 grid((m + BM - 1) / BM, (n + BN - 1) / BN, batch_count);
  detail::sgemm_tf32_nn<BM, BN><<<grid, 32 * (BM / 16) * (BN / 16), 0, stream>>>(
      m, n, k, alpha, A, lda, strideA, B, ldb, strideB, beta, C, ldc, strideC);
  return cudaGetLastError();
}

}  // namespace tcgemm
