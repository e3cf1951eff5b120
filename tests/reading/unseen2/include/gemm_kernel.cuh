#pragma once
#include <cuda_fp16.h>
#include <mma.h>
#include "tile_config.h"

namespace gemm {

template <typename Config>
__device__ void load_tile(half (*dst)[Config::kLd], const half* src, int ld, int rows, int cols) {
  for (int i = threadIdx.x; i < rows * cols / 8; i += Config::kThreads) {
    const int r = i / (cols / 8), c = (i % (cols / 8)) * 8;
    *reinterpret_cast<int4*>(&dst[r][c]) = *reinterpret_cast<const int4*>(src + r * ld + c);
  }
}

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads)
gemm_tn(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, const int M, const int N,
        const int K) {
  using namespace nvcuda::wmma;
  __shared__ __align__(128) half As[Config::kBM][Config::kLd];
  __shared__ __align__(128) half Bs[Config::kBN][Config::kLd];
  const int warp = threadIdx.x / 32;
  const int wm = warp / Config::kWarpsN * 32, wn = warp % Config::kWarpsN * 32;
  fragment<accumulator, 16, 16, 16, half> acc[2][2];
  for (auto& r : acc) for (auto& f : r) fill_fragment(f, __float2half(0.f));
  for (int k = 0; k < K; k += Config::kBK) {
    load_tile<Config>(As, A + blockIdx.y * Config::kBM * K + k, K, Config::kBM, Config::kBK);
    load_tile<Config>(Bs, B + blockIdx.x * Config::kBN * K + k, K, Config::kBN, Config::kBK);
    __syncthreads();
    for (int kk = 0; kk < Config::kBK; kk += 16) {
      fragment<matrix_a, 16, 16, 16, half, row_major> a[2];
      fragment<matrix_b, 16, 16, 16, half, col_major> b[2];
      for (int i = 0; i < 2; ++i) load_matrix_sync(a[i], &As[wm + i * 16][kk], Config::kLd);
      for (int j = 0; j < 2; ++j) load_matrix_sync(b[j], &Bs[wn + j * 16][kk], Config::kLd);
      for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; ++j) mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      store_matrix_sync(C + (blockIdx.y * Config::kBM + wm + i * 16) * N + blockIdx.x * Config::kBN + wn + j * 16,
                        acc[i][j], N, mem_row_major);
}

}  // namespace gemm
