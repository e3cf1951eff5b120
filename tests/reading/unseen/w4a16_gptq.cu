#include <torch/all.h>
#include <c10/cuda/CUDAGuard.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <mma.h>

// 4-bit GPTQ matmul: y[M, N] = x[M, K] @ W[K, N] where
//   W[k, n] = scales[k / group, n] * (q[k, n] - (z[k / group, n] + 1))
//
//   qweight : int32 [K / 8, N]          eight consecutive k in one word, low nibble first
//   qzeros  : int32 [K / group, N / 8]  eight consecutive n in one word
//   scales  : half  [K / group, N]
//
// The "+ 1" on the zero point is how the AutoGPTQ v1 checkpoints are stored.

#define BLOCK_M 32
#define BLOCK_N 64
#define BLOCK_K 64
#define THREADS 128

using namespace nvcuda;

__device__ __forceinline__ void dequant8(uint32_t word, int zero, half scale, half out[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int q = (word >> (4 * i)) & 0xF;
    out[i] = __hmul(scale, __int2half_rn(q - zero));
  }
}

template <int GROUP>
__global__ void gptq_matmul_kernel(const half* __restrict__ x, const uint32_t* __restrict__ qweight,
                                   const half* __restrict__ scales, const uint32_t* __restrict__ qzeros,
                                   half* __restrict__ y, const int size_m, const int size_n, const int size_k) {
  static_assert(GROUP % 8 == 0, "a packed word must not straddle two groups");
  __shared__ __align__(128) half xs[BLOCK_M][BLOCK_K + 8];
  __shared__ __align__(128) half wt[BLOCK_N][BLOCK_K + 8];  // transposed: n major, the nibbles unpack along k
  __shared__ __align__(128) float ys[BLOCK_M][BLOCK_N + 4];

  const int m0 = blockIdx.y * BLOCK_M;
  const int n0 = blockIdx.x * BLOCK_N;
  const int warp_m = (threadIdx.x / 32) % 2;
  const int warp_n = (threadIdx.x / 32) / 2;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  for (int i = 0; i < 2; ++i) wmma::fill_fragment(acc[i], 0.0f);

  for (int k0 = 0; k0 < size_k; k0 += BLOCK_K) {
    for (int i = threadIdx.x; i < BLOCK_M * BLOCK_K / 2; i += THREADS) {
      const int r = i / (BLOCK_K / 2), c = (i % (BLOCK_K / 2)) * 2;
      half2 v = __half2half2(__int2half_rn(0));
      if (m0 + r < size_m && k0 + c < size_k) v = *(const half2*)&x[(m0 + r) * size_k + k0 + c];
      *(half2*)&xs[r][c] = v;
    }
    // one packed word = 8 k for one n; threads run along n, loads coalesce
    for (int i = threadIdx.x; i < BLOCK_N * BLOCK_K / 8; i += THREADS) {
      const int n = i % BLOCK_N, kw = i / BLOCK_N;
      const int gn = n0 + n, gk = k0 + kw * 8;
      half tmp[8];
      if (gk < size_k) {
        const int g = gk / GROUP;
        const int zero = ((qzeros[g * (size_n / 8) + gn / 8] >> (4 * (gn % 8))) & 0xF) + 1;
        dequant8(qweight[(gk / 8) * size_n + gn], zero, scales[g * size_n + gn], tmp);
      } else {
        for (int t = 0; t < 8; ++t) tmp[t] = __int2half_rn(0);
      }
      for (int t = 0; t < 8; ++t) wt[n][kw * 8 + t] = tmp[t];
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &xs[warp_m * 16][kk], BLOCK_K + 8);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
        wmma::load_matrix_sync(b, &wt[warp_n * 32 + j * 16][kk], BLOCK_K + 8);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(&ys[warp_m * 16][warp_n * 32 + j * 16], acc[j], BLOCK_N + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += THREADS) {
    const int r = i / BLOCK_N, c = i % BLOCK_N;
    if (m0 + r < size_m) y[(m0 + r) * size_n + n0 + c] = __float2half(ys[r][c]);
  }
}

torch::Tensor gptq_gemm(torch::Tensor x, torch::Tensor qweight, torch::Tensor scales, torch::Tensor qzeros,
                        int64_t group_size) {
  const at::cuda::OptionalCUDAGuard device_guard(device_of(x));
  const int size_m = x.size(0);
  const int size_k = x.size(1);
  const int size_n = qweight.size(1);
  TORCH_CHECK(qweight.size(0) * 8 == size_k, "qweight has the wrong number of rows");
  TORCH_CHECK(size_n % BLOCK_N == 0, "N must be a multiple of ", BLOCK_N);
  TORCH_CHECK(size_k % group_size == 0);

  torch::Tensor y = torch::empty({size_m, size_n}, x.options());
  const dim3 blocks(size_n / BLOCK_N, (size_m + BLOCK_M - 1) / BLOCK_M);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();

#define CALL_GPTQ(G)                                                                                     \
  gptq_matmul_kernel<G><<<blocks, THREADS, 0, stream>>>(                                                 \
      (const half*)x.data_ptr<at::Half>(), (const uint32_t*)qweight.data_ptr<int>(),                     \
      (const half*)scales.data_ptr<at::Half>(), (const uint32_t*)qzeros.data_ptr<int>(),                 \
      (half*)y.data_ptr<at::Half>(), size_m, size_n, size_k)

  if (group_size == 32) {
    CALL_GPTQ(32);
  } else if (group_size == 64) {
    CALL_GPTQ(64);
  } else if (group_size == 128) {
    CALL_GPTQ(128);
  } else {
    TORCH_CHECK(false, "unsupported group size ", group_size);
  }
#undef CALL_GPTQ
  return y;
}
