#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <stdexcept>
#include <string>

#include "epilogue_functors.cuh"

// out[m][n] = act(sum_k in[m][k] * weight[n][k] + bias[n]); weights as torch.nn.Linear keeps them
template <class Activation, int BLOCK_M, int BLOCK_N>
__global__ void fused_linear(const half* __restrict__ in, const half* __restrict__ weight,
                             const half* __restrict__ bias, half* __restrict__ out, int m, int n, int k,
                             Activation act) {
  using namespace nvcuda::wmma;
  constexpr int kWarpsN = BLOCK_N / 32;
  extern __shared__ float stage[];  // BLOCK_M x BLOCK_N

  const int warp = threadIdx.x / 32;
  const int warp_m = warp / kWarpsN * 32, warp_n = warp % kWarpsN * 32;
  const int tile_m = blockIdx.x * BLOCK_M, tile_n = blockIdx.y * BLOCK_N;

  fragment<accumulator, 16, 16, 16, float> sums[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) fill_fragment(sums[i / 2][i % 2], 0.f);

  for (int kk = 0; kk < k; kk += 16) {
    fragment<matrix_a, 16, 16, 16, half, row_major> x[2];
    fragment<matrix_b, 16, 16, 16, half, col_major> w[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      load_matrix_sync(x[i], in + size_t(tile_m + warp_m + 16 * i) * k + kk, k);
      load_matrix_sync(w[i], weight + size_t(tile_n + warp_n + 16 * i) * k + kk, k);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) mma_sync(sums[i / 2][i % 2], x[i / 2], w[i % 2], sums[i / 2][i % 2]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store_matrix_sync(stage + (warp_m + 16 * (i / 2)) * BLOCK_N + warp_n + 16 * (i % 2), sums[i / 2][i % 2], BLOCK_N,
                      mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N / 2; i += blockDim.x) {
    const int r = 2 * i / BLOCK_N, c = 2 * i % BLOCK_N;
    const float2 b = __half22float2(*reinterpret_cast<const half2*>(bias + tile_n + c));
    const float lo = act(stage[2 * i] + b.x), hi = act(stage[2 * i + 1] + b.y);
    *reinterpret_cast<half2*>(out + size_t(tile_m + r) * n + tile_n + c) = __floats2half2_rn(lo, hi);
  }
}

template <class Activation>
static void run_linear(const half* in, const half* weight, const half* bias, half* out, int m, int n, int k,
                       cudaStream_t s) {
  constexpr int BM = 64, BN = 64;
  if (m % BM || n % BN || k % 16) throw std::invalid_argument("m and n must be multiples of 64, k of 16");
  fused_linear<Activation, BM, BN>
      <<<dim3(m / BM, n / BN), 32 * (BM / 32) * (BN / 32), BM * BN * sizeof(float), s>>>(in, weight, bias, out, m, n,
                                                                                       k, Activation{});
}

void linear(const std::string& activation, const half* in, const half* weight, const half* bias, half* out, int m,
            int n, int k, cudaStream_t s) {
  if (activation == "gelu")
    run_linear<GELU>(in, weight, bias, out, m, n, k, s);
  else if (activation == "relu")
    run_linear<ReLU>(in, weight, bias, out, m, n, k, s);
  else
    run_linear<Identity>(in, weight, bias, out, m, n, k, s);
}
