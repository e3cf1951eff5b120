// Row-major GEMM, C = alpha * A @ B + beta * C.
#pragma once
#include <cuda_runtime.h>
#include <mma.h>
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
using namespace nvcuda;

template <const int BM, const int BN, const int BK>
__global__ void __launch_bounds__(128)
    hgemm_block_tiling(int M, int N, int K, float alpha, const half *A, int lda, const half *B, int ldb, float beta,
                       float *C, int ldc) {
  const uint cRow = blockIdx.y;
  const uint cCol = blockIdx.x;
  __shared__ half As[BM * BK];
  __shared__ half Bs[BK * BN];
  A += cRow * BM * lda;
  B += cCol * BN;
  C += cRow * BM * ldc + cCol * BN;
  const int warpId = threadIdx.x >> 5;
  const int wr = warpId >> 1, wc = warpId & 1;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BM / 32][BN / 32];
  for (int i = 0; i < BM / 32; ++i)
    for (int j = 0; j < BN / 32; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
  for (uint bkIdx = 0; bkIdx < K; bkIdx += BK) {
    for (uint i = threadIdx.x * 8; i < BM * BK; i += 128 * 8)
      *reinterpret_cast<float4 *>(&As[i]) = *reinterpret_cast<const float4 *>(&A[(i / BK) * lda + i % BK]);
    for (uint i = threadIdx.x * 8; i < BK * BN; i += 128 * 8)
      *reinterpret_cast<float4 *>(&Bs[i]) = *reinterpret_cast<const float4 *>(&B[(i / BN) * ldb + i % BN]);
    __syncthreads();
    A += BK;
    B += BK * ldb;
    for (int kk = 0; kk < BK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> af[BM / 32];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> bf[BN / 32];
      for (int i = 0; i < BM / 32; ++i) wmma::load_matrix_sync(af[i], &As[(wr * (BM / 2) + i * 16) * BK + kk], BK);
      for (int j = 0; j < BN / 32; ++j) wmma::load_matrix_sync(bf[j], &Bs[kk * BN + wc * (BN / 2) + j * 16], BN);
      for (int i = 0; i < BM / 32; ++i)
        for (int j = 0; j < BN / 32; ++j) wmma::mma_sync(acc[i][j], af[i], bf[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < BM / 32; ++i)
    for (int j = 0; j < BN / 32; ++j) {
      float *c = C + (wr * (BM / 2) + i * 16) * ldc + wc * (BN / 2) + j * 16;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> old;
      wmma::load_matrix_sync(old, c, ldc, wmma::mem_row_major);
      for (int t = 0; t < old.num_elements; ++t) old.x[t] = alpha * acc[i][j].x[t] + beta * old.x[t];
      wmma::store_matrix_sync(c, old, ldc, wmma::mem_row_major);
    }
}

void runHgemmBlocktiling(int M, int N, int K, float alpha, half *A, int lda, half *B, int ldb, float beta, float *C,
                         int ldc) {
  const uint BK = 32;
  if (M >= 128 and N >= 128) {
    const uint BM = 128;
    const uint BN = 128;
    dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    hgemm_block_tiling<BM, BN, BK><<<gridDim, 128>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
  } else {
    const uint BM = 64;
    const uint BN = 64;
    dim3 gridDim(CEIL_DIV(N, BN), CEIL_DIV(M, BM));
    hgemm_block_tiling<BM, BN, BK><<<gridDim, 128>>>(M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
  }
}
