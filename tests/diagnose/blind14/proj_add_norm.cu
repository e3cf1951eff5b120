// Output projection of an attention layer with the residual and the (post-) layer norm behind it:
//     out = LayerNorm(ctx @ Wo + bo + x) * gamma + beta
// A block has 16 complete rows, so that the norm needs nothing from other blocks. Wo is [depth, E] as in Keras.
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <mma.h>

namespace cg = cooperative_groups;
namespace wmma = nvcuda::wmma;

template <int E>
__global__ void proj_add_layernorm(const __half* __restrict__ ctx, const __half* __restrict__ Wo,
                                   const float* __restrict__ bo, const __half* __restrict__ x,
                                   const float* __restrict__ gamma, const float* __restrict__ beta,
                                   __half* __restrict__ out, int rows, int depth, float eps) {
  constexpr int kWarps = 4;
  constexpr int kTilesPerWarp = E / 16 / kWarps;
  constexpr int kStep = 32;
  constexpr int kLdRow = E + 4;
  __shared__ __align__(32) __half tile[16][kStep + 8];
  __shared__ __align__(32) float row_buf[16 * kLdRow];

  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  const int warp_id = warp.meta_group_rank();
  const int row0 = blockIdx.x * 16;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[kTilesPerWarp];
#pragma unroll
  for (int t = 0; t < kTilesPerWarp; ++t) wmma::fill_fragment(acc[t], 0.f);

  for (int k0 = 0; k0 < depth; k0 += kStep) {
    for (int i = block.thread_rank(); i < 16 * kStep; i += block.size()) {
      const int r = i / kStep, k = i % kStep;
      tile[r][k] = row0 + r < rows ? ctx[(size_t)(row0 + r) * depth + k0 + k] : __half(0.f);
    }
    block.sync();
#pragma unroll
    for (int k = 0; k < kStep; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &tile[0][k], kStep + 8);
#pragma unroll
      for (int t = 0; t < kTilesPerWarp; ++t) {
        // weights come from global memory as they lie (L2 has them after the first blocks)
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b;
        const int col = (warp_id * kTilesPerWarp + t) * 16;
        wmma::load_matrix_sync(b, Wo + (size_t)(k0 + k) * E + col, E);
        wmma::mma_sync(acc[t], a, b, acc[t]);
      }
    }
    block.sync();
  }

#pragma unroll
  for (int t = 0; t < kTilesPerWarp; ++t)
    wmma::store_matrix_sync(&row_buf[(warp_id * kTilesPerWarp + t) * 16], acc[t], kLdRow, wmma::mem_row_major);
  block.sync();

  // each warp takes every fourth row
  for (int r = warp_id; r < 16; r += kWarps) {
    const int row = row0 + r;
    if (row >= rows) break;
    float v[E / 32];
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < E / 32; ++i) {
      const int c = i * 32 + warp.thread_rank();
      v[i] = row_buf[r * kLdRow + c] + bo[c] + __half2float(x[(size_t)row * E + c]);
      sum += v[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sum += warp.shfl_xor(sum, offset);
    const float mean = sum / E;

    float sq = 0.f;
#pragma unroll
    for (int i = 0; i < E / 32; ++i) {
      v[i] -= mean;
      sq += v[i] * v[i];
    }
    for (int offset = 16; offset > 0; offset /= 2) sq += warp.shfl_xor(sq, offset);
    const float inv_std = rsqrtf(sq / E + eps);

#pragma unroll
    for (int i = 0; i < E / 32; ++i) {
      const int c = i * 32 + warp.thread_rank();
      out[(size_t)row * E + c] = __float2half(v[i] * inv_std * gamma[c] + beta[c]);
    }
  }
}

template __global__ void proj_add_layernorm<128>(const __half*, const __half*, const float*, const __half*,
                                                 const float*, const float*, __half*, int, int, float);
