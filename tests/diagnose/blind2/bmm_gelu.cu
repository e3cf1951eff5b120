// Batched linear layer with fused bias + GELU, for the MLP of the transformer block.
//   Y[b] = gelu(X[b] @ W[b]^T + bias[b])
// X is [batch, rows, in_features], W is [batch, out_features, in_features] (nn.Linear layout).

#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

namespace mlp {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

struct BatchedLinearParams {
  const __half* x;
  const __half* w;
  const __half* bias;
  __half* y;
  int rows;
  int in_features;
  int out_features;
  int64_t stride_x;
  int64_t stride_w;
  int64_t stride_bias;
  int64_t stride_y;
};

template <int kRows, int kCols, int kDepth>
struct Tile {
  static constexpr int kPad = 8;
  static constexpr int kPitchX = kDepth + kPad;
  static constexpr int kPitchW = kDepth + kPad;
  static constexpr int kPitchY = kCols + 4;
  __half x[kRows][kPitchX];
  __half w[kCols][kPitchW];
};

__device__ __forceinline__ float gelu_tanh(float v) {
  constexpr float kAlpha = 0.7978845608028654f;  // sqrt(2 / pi)
  constexpr float kBeta = 0.044715f;
  return 0.5f * v * (1.0f + tanhf(kAlpha * (v + kBeta * v * v * v)));
}

// Copies a [kRows, kDepth] tile with 16-byte loads; rows past the end become zero.
template <int kRows, int kDepth, int kPitch, int kThreads>
__device__ void copy_tile(__half (*dst)[kPitch], const __half* src, int ld, int first_row, int n_rows, int k0) {
  constexpr int kVec = 8;
  constexpr int kVecsPerRow = kDepth / kVec;
  for (int i = threadIdx.x; i < kRows * kVecsPerRow; i += kThreads) {
    const int r = i / kVecsPerRow;
    const int c = (i % kVecsPerRow) * kVec;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (first_row + r < n_rows) {
      v = *reinterpret_cast<const uint4*>(src + static_cast<int64_t>(first_row + r) * ld + k0 + c);
    }
    *reinterpret_cast<uint4*>(&dst[r][c]) = v;
  }
}

template <int kRows, int kCols, int kDepth, int kWarps>
__global__ void batched_linear_gelu(const BatchedLinearParams p) {
  using Smem = Tile<kRows, kCols, kDepth>;
  constexpr int kThreads = kWarps * 32;
  constexpr int kRowTiles = kRows / 16;
  constexpr int kColTiles = kCols / 16;
  constexpr int kTilesPerWarp = kRowTiles * kColTiles / kWarps;
  static_assert(kRowTiles * kColTiles % kWarps == 0, "tiles must be spread evenly over the warps");

  __shared__ __align__(128) Smem smem;
  __shared__ __align__(128) float staging[kRows][Smem::kPitchY];

  const int warp = threadIdx.x >> 5;
  const int row0 = blockIdx.y * kRows;
  const int col0 = blockIdx.x * kCols;
  const int b = blockIdx.z;

  const __half* x = p.x + b * p.stride_x;
  const __half* w = p.w + b * p.stride_w;
  const __half* bias = p.bias + b * p.stride_bias;
  __half* y = p.y + b * p.stride_y;

  fragment<accumulator, 16, 16, 16, float> acc[kTilesPerWarp];
#pragma unroll
  for (int t = 0; t < kTilesPerWarp; ++t) nvcuda::wmma::fill_fragment(acc[t], 0.0f);

  for (int k0 = 0; k0 < p.in_features; k0 += kDepth) {
    copy_tile<kRows, kDepth, Smem::kPitchX, kThreads>(smem.x, x, p.in_features, row0, p.rows, k0);
    copy_tile<kCols, kDepth, Smem::kPitchW, kThreads>(smem.w, w, p.in_features, col0, p.out_features, k0);
    __syncthreads();

#pragma unroll
    for (int t = 0; t < kTilesPerWarp; ++t) {
      const int tile = warp * kTilesPerWarp + t;
      const int tr = tile / kColTiles;
      const int tc = tile % kColTiles;
#pragma unroll
      for (int kk = 0; kk < kDepth; kk += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> fx;
        fragment<matrix_b, 16, 16, 16, __half, col_major> fw;
        nvcuda::wmma::load_matrix_sync(fx, &smem.x[tr * 16][kk], Smem::kPitchX);
        nvcuda::wmma::load_matrix_sync(fw, &smem.w[tc * 16][kk], Smem::kPitchW);
        nvcuda::wmma::mma_sync(acc[t], fx, fw, acc[t]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int t = 0; t < kTilesPerWarp; ++t) {
    const int tile = warp * kTilesPerWarp + t;
    nvcuda::wmma::store_matrix_sync(&staging[(tile / kColTiles) * 16][(tile % kColTiles) * 16], acc[t],
                                    Smem::kPitchY, nvcuda::wmma::mem_row_major);
  }
  __syncthreads();

  for (int i = threadIdx.x; i < kRows * kCols; i += kThreads) {
    const int r = i / kCols;
    const int c = i % kCols;
    if (row0 + r >= p.rows || col0 + c >= p.out_features) continue;
    const float v = staging[r][c] + __half2float(bias[col0 + c]);
    y[static_cast<int64_t>(row0 + r) * p.out_features + col0 + c] = __float2half(gelu_tanh(v));
  }
}

void launch_batched_linear_gelu(const BatchedLinearParams& p, int batch, cudaStream_t stream) {
  constexpr int kRows = 32, kCols = 64, kDepth = 32, kWarps = 4;
  const dim3 grid((p.out_features + kCols - 1) / kCols, (p.rows + kRows - 1) / kRows, batch);
  batched_linear_gelu<kRows, kCols, kDepth, kWarps><<<grid, kWarps * 32, 0, stream>>>(p);
}

}  // namespace mlp
