// Segmented LoRA for multi-tenant serving: the tokens of a batch are grouped by adapter, and each group
// gets the low-rank update of its own adapter, on top of what the base layer has already written to y:
//
//     y[t, :] += scaling[a] * (x[t, :] A_a^T) B_a^T        for t in segment s, a = adapter_of[s]
//
// x          [tokens, K]   half
// lora_a     lora_a[a] -> [R, K] half     (one pointer per adapter)
// lora_b     lora_b[a] -> [N, R] half
// scaling    [adapters]    float
// seg_start  [segments + 1] first token of every segment
// adapter_of [segments]     -1 = no adapter, the segment is left as it is
// y          [tokens, N]   half, in place
//
// R is 16, 32 or 64; K a multiple of 64, N a multiple of 16; all pointers 32-byte aligned.
//
// Launch (from the Rust side, through the driver API):
//     grid  = (ceil(longest segment / 16), segments)
//     block = 128
// e.g. K = 4096, N = 4096, R = 16, up to a few hundred tokens.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

#define TOKENS_PER_BLOCK 16
#define NUM_WARPS 4
#define X_PITCH 72  // 64 values of k + 8

template <int R>
__device__ __forceinline__ void sgmv_lora_body(const half* __restrict__ x, const half* const* __restrict__ lora_a,
                                               const half* const* __restrict__ lora_b,
                                               const float* __restrict__ scaling, const int* __restrict__ seg_start,
                                               const int* __restrict__ adapter_of, half* __restrict__ y, int N,
                                               int K) {
  constexpr int RT = R / 16;
  __shared__ __align__(32) half x_tile[TOKENS_PER_BLOCK][X_PITCH];
  __shared__ __align__(32) float h_part[NUM_WARPS][TOKENS_PER_BLOCK][R];
  __shared__ __align__(32) half h[TOKENS_PER_BLOCK][R];
  __shared__ __align__(32) float y_tile[NUM_WARPS][16][16];

  const int segment = blockIdx.y;
  const int begin = seg_start[segment] + blockIdx.x * TOKENS_PER_BLOCK;
  const int end = seg_start[segment + 1];
  const int adapter = adapter_of[segment];
  if (adapter < 0 || begin >= end) return;  // the same for the whole block

  const half* a_mat = lora_a[adapter];
  const half* b_mat = lora_b[adapter];
  const float alpha = scaling[adapter];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;

  // Shrink: h = x A^T. Of every 64 values of k each warp takes 16.
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[RT];
#pragma unroll
  for (int i = 0; i < RT; ++i) wmma::fill_fragment(acc[i], 0.0f);

  for (int k0 = 0; k0 < K; k0 += 64) {
    {
      // 16 tokens x 8 chunks of 16 bytes: one chunk per thread
      const int r = threadIdx.x / 8, c = threadIdx.x % 8 * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (begin + r < end) v = *reinterpret_cast<const uint4*>(x + (size_t)(begin + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(&x_tile[r][c]) = v;
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> xf;
    wmma::load_matrix_sync(xf, &x_tile[0][warp * 16], X_PITCH);
#pragma unroll
    for (int i = 0; i < RT; ++i) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> af;
      wmma::load_matrix_sync(af, a_mat + (size_t)i * 16 * K + k0 + warp * 16, K);
      wmma::mma_sync(acc[i], xf, af, acc[i]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < RT; ++i) wmma::store_matrix_sync(&h_part[warp][0][i * 16], acc[i], R, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < TOKENS_PER_BLOCK * R; i += NUM_WARPS * 32) {
    const int r = i / R, c = i % R;
    float sum = 0.0f;
#pragma unroll
    for (int w = 0; w < NUM_WARPS; ++w) sum += h_part[w][r][c];
    h[r][c] = __float2half(sum * alpha);  // scaling goes in here, R values instead of N
  }
  __syncthreads();

  // Expand: y += h B^T. The warps take turns over the tiles of 16 outputs.
  for (int n0 = warp * 16; n0 < N; n0 += NUM_WARPS * 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> out;
    wmma::fill_fragment(out, 0.0f);
#pragma unroll
    for (int i = 0; i < RT; ++i) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> hf;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> bf;
      wmma::load_matrix_sync(hf, &h[0][i * 16], R);
      wmma::load_matrix_sync(bf, b_mat + (size_t)n0 * R + i * 16, R);
      wmma::mma_sync(out, hf, bf, out);
    }
    wmma::store_matrix_sync(&y_tile[warp][0][0], out, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = lane; i < 16 * 8; i += 32) {
      const int r = i / 8, c = i % 8 * 2;
      if (begin + r < end) {
        half2* dst = reinterpret_cast<half2*>(y + (size_t)(begin + r) * N + n0 + c);
        const float2 old = __half22float2(*dst);
        *dst = __floats2half2_rn(old.x + y_tile[warp][r][c], old.y + y_tile[warp][r][c + 1]);
      }
    }
    __syncwarp();  // the tile is overwritten in the next round
  }
}

#define SGMV_KERNEL(R)                                                                                              \
  extern "C" __global__ void __launch_bounds__(NUM_WARPS * 32)                                                      \
      sgmv_lora_r##R(const half* x, const half* const* lora_a, const half* const* lora_b, const float* scaling,     \
                     const int* seg_start, const int* adapter_of, half* y, int N, int K) {                          \
    sgmv_lora_body<R>(x, lora_a, lora_b, scaling, seg_start, adapter_of, y, N, K);                                  \
  }

SGMV_KERNEL(16)
SGMV_KERNEL(32)
SGMV_KERNEL(64)
