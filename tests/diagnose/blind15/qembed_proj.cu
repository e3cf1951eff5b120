// Quantised embedding lookup and projection in one kernel (int8 tensor cores):
//   out[t][n] = row_scale[id] * col_scale[n] * sum_k table[id][k] * proj[n][k]      id = token_ids[t]
// Padding tokens have a negative id, and get zeros. table: [vocab, dim] int8, proj: [hidden, dim] int8, dim % 16 == 0.
#include <cstdint>
#include <cuda_fp16.h>
#include <mma.h>

namespace embed {

using namespace nvcuda;

constexpr int kTokens = 32;
constexpr int kHidden = 64;
constexpr int kDim = 64;
constexpr int kPitch = kDim + 16;     // bytes
constexpr int kOutPitch = kHidden + 4;  // ints
constexpr int kThreads = 256;

struct Params {
  const int8_t *table;
  const float *row_scale;
  const int8_t *proj;
  const float *col_scale;
  const int *token_ids;
  __half *out;
  int tokens;
  int hidden;
  int dim;
};

__global__ void __launch_bounds__(kThreads) embed_proj_int8(Params params) {
  __shared__ int ids[kTokens];
  __shared__ float scales[kTokens];
  __shared__ __align__(32) int8_t table_tile[kTokens * kPitch];
  __shared__ __align__(32) int8_t proj_tile[kHidden * kPitch];
  __shared__ __align__(32) int sums[kTokens * kOutPitch];

  const int token0 = blockIdx.y * kTokens;
  const int hidden0 = blockIdx.x * kHidden;
  const int warp = threadIdx.x / 32;
  const int warp_token = warp / 4 * 16;   // 2 x 4 warps, 16 x 16 each
  const int warp_hidden = warp % 4 * 16;

  if (threadIdx.x < kTokens) {
    const int t = token0 + threadIdx.x;
    const int id = t < params.tokens ? params.token_ids[t] : -1;
    ids[threadIdx.x] = id;
    scales[threadIdx.x] = id >= 0 ? params.row_scale[id] : 0.f;
  }
  __syncthreads();

  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc;
  wmma::fill_fragment(acc, 0);

  for (int d0 = 0; d0 < params.dim; d0 += kDim) {
    // 16 values at a time
    if (threadIdx.x < kTokens * kDim / 16) {
      const int t = threadIdx.x / (kDim / 16);
      const int d = threadIdx.x % (kDim / 16) * 16;
      int4 v = make_int4(0, 0, 0, 0);
      const int id = ids[t];
      if (id >= 0 && d0 + d < params.dim) {
        v = *reinterpret_cast<const int4 *>(params.table + static_cast<int64_t>(id) * params.dim + d0 + d);
      }
      *reinterpret_cast<int4 *>(table_tile + t * kPitch + d) = v;
    }
    {
      const int n = threadIdx.x / (kDim / 16);
      const int d = threadIdx.x % (kDim / 16) * 16;
      int4 v = make_int4(0, 0, 0, 0);
      if (hidden0 + n < params.hidden && d0 + d < params.dim) {
        v = *reinterpret_cast<const int4 *>(params.proj + static_cast<int64_t>(hidden0 + n) * params.dim + d0 + d);
      }
      *reinterpret_cast<int4 *>(proj_tile + n * kPitch + d) = v;
    }
    __syncthreads();

#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b;
      wmma::load_matrix_sync(a, table_tile + warp_token * kPitch + d, kPitch);
      wmma::load_matrix_sync(b, proj_tile + warp_hidden * kPitch + d, kPitch);
      wmma::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(sums + warp_token * kOutPitch + warp_hidden, acc, kOutPitch, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < kTokens * kHidden; i += kThreads) {
    const int t = i / kHidden;
    const int n = i % kHidden;
    if (token0 + t < params.tokens && hidden0 + n < params.hidden) {
      const float value = static_cast<float>(sums[t * kOutPitch + n]) * scales[t] * params.col_scale[hidden0 + n];
      params.out[static_cast<int64_t>(token0 + t) * params.hidden + hidden0 + n] = __float2half(value);
    }
  }
}

}  // namespace embed
