// out = gelu(x @ w + bias), tanh approximation, fused into the epilogue of a tensor core GEMM
#include <cuda_fp16.h>
#include <mma.h>

namespace fused {

static constexpr int BLOCK_M = 64;
static constexpr int BLOCK_N = 64;
static constexpr int BLOCK_K = 32;
static constexpr int NUM_WARPS = 4;

__device__ __forceinline__ float gelu_tanh(float v) {
  const float kSqrt2OverPi = 0.7978845608028654f;
  return 0.5f * v * (1.0f + tanhf(kSqrt2OverPi * (v + 0.044715f * v * v * v)));
}

__device__ __forceinline__ half load_or_zero(const half* p, int row, int col, int rows, int cols) {
  return row < rows && col < cols ? p[(size_t)row * cols + col] : __float2half(0.0f);
}

// 128 threads, grid (ceil(N / 64), ceil(M / 64)); any M, N and K
__global__ void __launch_bounds__(NUM_WARPS * 32)
    gemm_bias_gelu_kernel(const half* __restrict__ input, const half* __restrict__ weight,
                          const half* __restrict__ bias, half* __restrict__ output, int M, int N, int K) {
  using namespace nvcuda;
  __shared__ half tile_in[BLOCK_M][BLOCK_K + 8];
  __shared__ half tile_w[BLOCK_K][BLOCK_N + 8];
  __shared__ float tile_out[BLOCK_M][BLOCK_N + 4];

  const int row0 = blockIdx.y * BLOCK_M;
  const int col0 = blockIdx.x * BLOCK_N;
  const int warp_id = threadIdx.x / warpSize;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[BLOCK_N / 16];
#pragma unroll
  for (int n = 0; n < BLOCK_N / 16; ++n) {
    wmma::fill_fragment(acc[n], 0.0f);
  }

  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    for (int idx = threadIdx.x; idx < BLOCK_M * BLOCK_K; idx += blockDim.x) {
      tile_in[idx / BLOCK_K][idx % BLOCK_K] =
          load_or_zero(input, row0 + idx / BLOCK_K, k0 + idx % BLOCK_K, M, K);
    }
    for (int idx = threadIdx.x; idx < BLOCK_K * BLOCK_N; idx += blockDim.x) {
      tile_w[idx / BLOCK_N][idx % BLOCK_N] =
          load_or_zero(weight, k0 + idx / BLOCK_N, col0 + idx % BLOCK_N, K, N);
    }
    __syncthreads();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b_frag;
#pragma unroll
    for (int k = 0; k < BLOCK_K; k += 16) {
      wmma::load_matrix_sync(a_frag, &tile_in[warp_id * 16][k], BLOCK_K + 8);
#pragma unroll
      for (int n = 0; n < BLOCK_N / 16; ++n) {
        wmma::load_matrix_sync(b_frag, &tile_w[k][n * 16], BLOCK_N + 8);
        wmma::mma_sync(acc[n], a_frag, b_frag, acc[n]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int n = 0; n < BLOCK_N / 16; ++n) {
    wmma::store_matrix_sync(&tile_out[warp_id * 16][n * 16], acc[n], BLOCK_N + 4, wmma::mem_row_major);
  }
  __syncthreads();

  for (int idx = threadIdx.x; idx < BLOCK_M * BLOCK_N; idx += blockDim.x) {
    const int r = row0 + idx / BLOCK_N, c = col0 + idx % BLOCK_N;
    if (r < M && c < N) {
      const float v = tile_out[idx / BLOCK_N][idx % BLOCK_N] + __half2float(bias[c]);
      output[(size_t)r * N + c] = __float2half(gelu_tanh(v));
    }
  }
}

}  // namespace fused
