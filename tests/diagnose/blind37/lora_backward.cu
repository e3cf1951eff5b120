// Backward of the LoRA branch  y += scaling * (x A^T) B^T,  for a fine-tuning library.
//
//   h  = x A^T                 [tokens, RANK]       kept by the forward pass
//   u  = scaling * dy B        [tokens, RANK]       never leaves shared memory
//   dB += scaling * dy^T h     [out_features, RANK]
//   dA += u^T x                [RANK, in_features]
//
// Every block takes TOKENS tokens, walks over out_features (u and dB), and then over in_features (dA).
// Gradients are fp32 (main_grad), blocks add to them with atomics; the caller zeroes them, or keeps them for
// gradient accumulation. in_features and out_features are multiples of 8 (vectorised loads).
#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fill_fragment;
using nvcuda::wmma::fragment;
using nvcuda::wmma::load_matrix_sync;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::mma_sync;
using nvcuda::wmma::row_major;
using nvcuda::wmma::store_matrix_sync;

using bf16 = __nv_bfloat16;

constexpr int TOKENS = 32;
constexpr int FEATURES = 64;
constexpr int WARPS = 4;
constexpr int THREADS = WARPS * 32;

// rows x cols of a row-major matrix [total_rows, total_cols], zeros outside of it
template <int ROWS, int COLS, int LD>
__device__ void load_tile(bf16* tile, const bf16* src, int row0, int col0, int total_rows, int total_cols) {
  constexpr int VECS = COLS / 8;
  for (int i = threadIdx.x; i < ROWS * VECS; i += THREADS) {
    const int r = i / VECS;
    const int c = i % VECS * 8;
    uint4 v{0, 0, 0, 0};
    if (row0 + r < total_rows && col0 + c < total_cols)
      v = *reinterpret_cast<const uint4*>(src + static_cast<int64_t>(row0 + r) * total_cols + col0 + c);
    *reinterpret_cast<uint4*>(tile + r * LD + c) = v;
  }
}

}  // namespace

template <int RANK>
__global__ void __launch_bounds__(THREADS)
lora_backward_kernel(float* __restrict__ grad_a, float* __restrict__ grad_b, const bf16* __restrict__ grad_out,
                     const bf16* __restrict__ x, const bf16* __restrict__ h, const bf16* __restrict__ lora_b,
                     int tokens, int in_features, int out_features, float scaling) {
  static_assert(RANK % 16 == 0, "rank must be a multiple of 16");
  constexpr int LD_WIDE = FEATURES + 8;
  constexpr int LD_RANK = RANK + 8;
  constexpr int LD_OUT = FEATURES + 4;  // floats
  constexpr int RANK_TILES = RANK / 16;

  __shared__ __align__(128) bf16 s_wide[TOKENS * LD_WIDE];   // dy, then x
  __shared__ __align__(128) bf16 s_b[FEATURES * LD_RANK];
  __shared__ __align__(128) bf16 s_h[TOKENS * LD_RANK];
  __shared__ __align__(128) bf16 s_u[TOKENS * LD_RANK];
  __shared__ __align__(128) float s_part[2][TOKENS * LD_RANK];
  __shared__ __align__(128) float s_out[FEATURES * LD_OUT];

  const int warp = threadIdx.x / 32;
  const int token0 = blockIdx.x * TOKENS;

  load_tile<TOKENS, RANK, LD_RANK>(s_h, h, token0, 0, tokens, RANK);

  // u: two warps along the tokens, and two that share the features of each tile
  const int u_row = warp % 2 * 16;
  const int u_half = warp / 2;
  fragment<accumulator, 16, 16, 16, float> acc_u[RANK_TILES];
#pragma unroll
  for (int t = 0; t < RANK_TILES; t++) fill_fragment(acc_u[t], 0.f);

  for (int n0 = 0; n0 < out_features; n0 += FEATURES) {
    load_tile<TOKENS, FEATURES, LD_WIDE>(s_wide, grad_out, token0, n0, tokens, out_features);
    load_tile<FEATURES, RANK, LD_RANK>(s_b, lora_b, n0, 0, out_features, RANK);
    __syncthreads();

    // u += dy B
    for (int k = u_half * (FEATURES / 2); k < (u_half + 1) * (FEATURES / 2); k += 16) {
      fragment<matrix_a, 16, 16, 16, bf16, row_major> fa;
      load_matrix_sync(fa, s_wide + u_row * LD_WIDE + k, LD_WIDE);
#pragma unroll
      for (int t = 0; t < RANK_TILES; t++) {
        fragment<matrix_b, 16, 16, 16, bf16, row_major> fb;
        load_matrix_sync(fb, s_b + k * LD_RANK + t * 16, LD_RANK);
        mma_sync(acc_u[t], fa, fb, acc_u[t]);
      }
    }

    // dB = dy^T h, 16 features per warp
#pragma unroll
    for (int t = 0; t < RANK_TILES; t++) {
      fragment<accumulator, 16, 16, 16, float> acc;
      fill_fragment(acc, 0.f);
      for (int k = 0; k < TOKENS; k += 16) {
        fragment<matrix_a, 16, 16, 16, bf16, col_major> fa;
        fragment<matrix_b, 16, 16, 16, bf16, row_major> fb;
        load_matrix_sync(fa, s_wide + k * LD_WIDE + warp * 16, LD_WIDE);
        load_matrix_sync(fb, s_h + k * LD_RANK + t * 16, LD_RANK);
        mma_sync(acc, fa, fb, acc);
      }
      store_matrix_sync(s_out + warp * 16 * LD_OUT + t * 16, acc, LD_OUT, mem_row_major);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < FEATURES * RANK; i += THREADS) {
      const int n = i / RANK;
      const int r = i % RANK;
      if (n0 + n < out_features)
        atomicAdd(grad_b + static_cast<int64_t>(n0 + n) * RANK + r, scaling * s_out[n * LD_OUT + r]);
    }
  }

  // the two halves of u, rounded to bf16 for the second product
#pragma unroll
  for (int t = 0; t < RANK_TILES; t++)
    store_matrix_sync(s_part[u_half] + u_row * LD_RANK + t * 16, acc_u[t], LD_RANK, mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < TOKENS * RANK; i += THREADS) {
    const int at = i / RANK * LD_RANK + i % RANK;
    s_u[at] = __float2bfloat16(scaling * (s_part[0][at] + s_part[1][at]));
  }

  for (int k0 = 0; k0 < in_features; k0 += FEATURES) {
    load_tile<TOKENS, FEATURES, LD_WIDE>(s_wide, x, token0, k0, tokens, in_features);
    __syncthreads();

    // dA = u^T x, 16 features per warp
#pragma unroll
    for (int t = 0; t < RANK_TILES; t++) {
      fragment<accumulator, 16, 16, 16, float> acc;
      fill_fragment(acc, 0.f);
      for (int k = 0; k < TOKENS; k += 16) {
        fragment<matrix_a, 16, 16, 16, bf16, col_major> fa;
        fragment<matrix_b, 16, 16, 16, bf16, row_major> fb;
        load_matrix_sync(fa, s_u + k * LD_RANK + t * 16, LD_RANK);
        load_matrix_sync(fb, s_wide + k * LD_WIDE + warp * 16, LD_WIDE);
        mma_sync(acc, fa, fb, acc);
      }
      store_matrix_sync(s_out + t * 16 * LD_OUT + warp * 16, acc, LD_OUT, mem_row_major);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < RANK * FEATURES; i += THREADS) {
      const int r = i / FEATURES;
      const int k = i % FEATURES;
      if (k0 + k < in_features)
        atomicAdd(grad_a + static_cast<int64_t>(r) * in_features + k0 + k, s_out[r * LD_OUT + k]);
    }
  }
}
