#pragma once
// Feed forward block of a transformer layer with fused epilogues.
//
//   linear_epilogue<EPI>:  Y = epi( X * W^T + b )
//     X [M, K] half row major, W [N, K] half row major (the nn.Linear layout), b [N] half
//     EPI_BIAS           y = acc + b
//     EPI_BIAS_GELU      y = gelu_tanh(acc + b)
//     EPI_BIAS_RESIDUAL  y = acc + b + residual[m][n]
//
//   M, N arbitrary (N even), K % 16 == 0.
//
//   layernorm_half: one warp per row.

#include <cuda_fp16.h>
#include <mma.h>

namespace ffn {

enum Epilogue { EPI_BIAS = 0, EPI_BIAS_GELU = 1, EPI_BIAS_RESIDUAL = 2 };

__device__ __forceinline__ float gelu_tanh(float x) {
  const float kAlpha = 0.7978845608028654f;  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(kAlpha * (x + 0.044715f * x * x * x)));
}

// WMMA shape m32n8k16 : a warp computes 32 x 32 as 1 x 4 fragments
constexpr int FRAG_M = 32;
constexpr int FRAG_N = 8;
constexpr int FRAG_K = 16;
constexpr int BLOCK_M = 64;
constexpr int BLOCK_N = 64;
constexpr int BLOCK_K = 32;
constexpr int SKEW = 8;
constexpr int BLOCK_THREADS = 128;

template <int EPI>
__global__ void linear_epilogue(const half *__restrict__ X, const half *__restrict__ W,
                                const half *__restrict__ bias, const half *__restrict__ residual,
                                half *__restrict__ Y, int M, int N, int K) {
  using namespace nvcuda;
  __shared__ __align__(32) half Xs[BLOCK_M * (BLOCK_K + SKEW)];
  __shared__ __align__(32) half Ws[BLOCK_N * (BLOCK_K + SKEW)];
  __shared__ __align__(32) float Ys[BLOCK_M * (BLOCK_N + 4)];

  const int ld_k = BLOCK_K + SKEW;
  const int ld_y = BLOCK_N + 4;
  const int row0 = blockIdx.x * BLOCK_M;
  const int col0 = blockIdx.y * BLOCK_N;
  const int warp_id = threadIdx.x >> 5;
  const int wrow = (warp_id & 1) * 32;
  const int wcol = (warp_id >> 1) * 32;

  wmma::fragment<wmma::accumulator, FRAG_M, FRAG_N, FRAG_K, float> acc[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) wmma::fill_fragment(acc[j], 0.f);

  for (int kt = 0; kt < K; kt += BLOCK_K) {
    // 64 rows of 4 vectors (8 halves) for X and for W
    for (int v = threadIdx.x; v < BLOCK_M * BLOCK_K / 8; v += BLOCK_THREADS) {
      const int r = v / (BLOCK_K / 8);
      const int c = (v % (BLOCK_K / 8)) * 8;
      float4 x4 = make_float4(0.f, 0.f, 0.f, 0.f);
      float4 w4 = make_float4(0.f, 0.f, 0.f, 0.f);
      if (kt + c < K) {
        if (row0 + r < M) x4 = *reinterpret_cast<const float4 *>(&X[(size_t)(row0 + r) * K + kt + c]);
        if (col0 + r < N) w4 = *reinterpret_cast<const float4 *>(&W[(size_t)(col0 + r) * K + kt + c]);
      }
      *reinterpret_cast<float4 *>(&Xs[r * ld_k + c]) = x4;
      *reinterpret_cast<float4 *>(&Ws[r * ld_k + c]) = w4;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += FRAG_K) {
      wmma::fragment<wmma::matrix_a, FRAG_M, FRAG_N, FRAG_K, half, wmma::row_major> a;
      wmma::load_matrix_sync(a, &Xs[wrow * ld_k + kk], ld_k);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        // W is [N, K], i.e. column major as a K x N matrix
        wmma::fragment<wmma::matrix_b, FRAG_M, FRAG_N, FRAG_K, half, wmma::col_major> b;
        wmma::load_matrix_sync(b, &Ws[(wcol + j * FRAG_N) * ld_k + kk], ld_k);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 4; ++j)
    wmma::store_matrix_sync(&Ys[wrow * ld_y + wcol + j * FRAG_N], acc[j], ld_y, wmma::mem_row_major);
  __syncthreads();

  // epilogue, two columns per thread
  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N / 2; i += BLOCK_THREADS) {
    const int r = i / (BLOCK_N / 2);
    const int c = (i % (BLOCK_N / 2)) * 2;
    const int m = row0 + r;
    const int n = col0 + c;
    if (m >= M || n >= N) continue;
    const float2 b2 = __half22float2(*reinterpret_cast<const half2 *>(&bias[n]));
    float y0 = Ys[r * ld_y + c] + b2.x;
    float y1 = Ys[r * ld_y + c + 1] + b2.y;
    if (EPI == EPI_BIAS_GELU) {
      y0 = gelu_tanh(y0);
      y1 = gelu_tanh(y1);
    }
    if (EPI == EPI_BIAS_RESIDUAL) {
      const float2 r2 = __half22float2(*reinterpret_cast<const half2 *>(&residual[(size_t)m * N + n]));
      y0 += r2.x;
      y1 += r2.y;
    }
    *reinterpret_cast<half2 *>(&Y[(size_t)m * N + n]) = __floats2half2_rn(y0, y1);
  }
}

// y = (x - mean) / sqrt(var + eps) * gamma + beta, blockDim = (32, rows per block)
__global__ void layernorm_half(const half *__restrict__ x, const half *__restrict__ gamma,
                               const half *__restrict__ beta, half *__restrict__ y, int rows, int cols, float eps) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const half *xr = x + (size_t)row * cols;
  half *yr = y + (size_t)row * cols;

  float sum = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) sum += __half2float(xr[c]);
  for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
  const float mean = sum / cols;

  float sq = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) {
    const float d = __half2float(xr[c]) - mean;
    sq += d * d;
  }
  for (int o = 16; o > 0; o >>= 1) sq += __shfl_xor_sync(0xffffffff, sq, o);
  const float rstd = rsqrtf(sq / cols + eps);

  for (int c = threadIdx.x; c < cols; c += 32) {
    const float v = (__half2float(xr[c]) - mean) * rstd;
    yr[c] = __float2half(v * __half2float(gamma[c]) + __half2float(beta[c]));
  }
}

}  // namespace ffn
