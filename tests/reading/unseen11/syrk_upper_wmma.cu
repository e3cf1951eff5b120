// C = A * A^T (SYRK, full storage, only tiles on or above the diagonal are computed, the rest is mirrored)
#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>

using namespace nvcuda;

static constexpr int kTile = 64;
static constexpr int kDepth = 16;

__device__ __forceinline__ void tile_of(int index, int tiles, int& row, int& col) {
  row = 0;
  while (index >= tiles - row) {
    index -= tiles - row;
    ++row;
  }
  col = row + index;
}

__global__ void __launch_bounds__(128) syrk_kernel(const half* __restrict__ A, float* __restrict__ C, int n, int k, int lda, int ldc) {
  __shared__ __align__(32) half rows[kTile * kDepth];
  __shared__ __align__(32) half cols[kTile * kDepth];
  __shared__ __align__(32) float stage[kTile * kTile];
  int bi, bj;
  tile_of(blockIdx.x, (n + kTile - 1) / kTile, bi, bj);
  const int warp = threadIdx.x >> 5;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[4];
  for (int j = 0; j < 4; ++j) wmma::fill_fragment(acc[j], 0.f);
  for (int kk = 0; kk < k; kk += kDepth) {
    for (int t = threadIdx.x; t < kTile * kDepth; t += 128) {
      const int r = t / kDepth, c = t % kDepth;
      rows[t] = (bi * kTile + r < n && kk + c < k) ? A[(size_t)(bi * kTile + r) * lda + kk + c] : __float2half(0.f);
      cols[t] = (bj * kTile + r < n && kk + c < k) ? A[(size_t)(bj * kTile + r) * lda + kk + c] : __float2half(0.f);
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, rows + warp * 16 * kDepth, kDepth);
    for (int j = 0; j < 4; ++j) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
      wmma::load_matrix_sync(fb, cols + j * 16 * kDepth, kDepth);
      wmma::mma_sync(acc[j], fa, fb, acc[j]);
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) wmma::store_matrix_sync(stage + warp * 16 * kTile + j * 16, acc[j], kTile, wmma::mem_row_major);
  __syncthreads();
  for (int t = threadIdx.x; t < kTile * kTile; t += 128) {
    const int r = bi * kTile + t / kTile, c = bj * kTile + t % kTile;
    if (r < n && c < n) {
      C[(size_t)r * ldc + c] = stage[t];
      C[(size_t)c * ldc + r] = stage[t];
    }
  }
}

void syrk(const half* A, float* C, int n, int k, cudaStream_t stream = 0) {
  const int tiles = (n + kTile - 1) / kTile;
  syrk_kernel<<<tiles * (tiles + 1) / 2, 128, 0, stream>>>(A, C, n, k, k, n);
}
