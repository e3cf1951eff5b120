#include "transformer_block_kernels.cuh"

// A warp for each row: out = (x - mean) * rstd * gamma + beta
__global__ void layernorm_rows(half* out, const half* x, const half* gamma, const half* beta, int rows, int channels) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const half* in = x + row * channels;
  float mean = 0.f, var = 0.f;
  for (int i = lane; i < channels; i += 32) mean += __half2float(in[i]);
  mean = warp_sum(mean) / channels;
  for (int i = lane; i < channels; i += 32) {
    const float d = __half2float(in[i]) - mean;
    var += d * d;
  }
  var = warp_sum(var) / channels;
  const float rstd = rsqrtf(var + 1e-5f);
  for (int i = lane; i < channels; i += 32)
    out[row * channels + i] =
        __float2half((__half2float(in[i]) - mean) * rstd * __half2float(gamma[i]) + __half2float(beta[i]));
}

// out[rows][out_features] = x[rows][in_features] * w[out_features][in_features]^T + bias; blocks of 32 x 32, 4 warps
__global__ void matmul_bias(half* out, const half* x, const half* w, const half* bias, int rows, int in_features,
                            int out_features) {
  using namespace nvcuda::wmma;
  __shared__ float tile[32][32];
  const int warp = threadIdx.x / 32;
  const int r = blockIdx.y * 32 + warp / 2 * 16, c = blockIdx.x * 32 + warp % 2 * 16;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.f);
  for (int k = 0; k < in_features; k += 16) {
    fragment<matrix_a, 16, 16, 16, half, row_major> fx;
    fragment<matrix_b, 16, 16, 16, half, col_major> fw;
    load_matrix_sync(fx, x + r * in_features + k, in_features);
    load_matrix_sync(fw, w + c * in_features + k, in_features);
    mma_sync(acc, fx, fw, acc);
  }
  store_matrix_sync(&tile[warp / 2 * 16][warp % 2 * 16], acc, 32, mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * 32; i += blockDim.x) {
    const int row = blockIdx.y * 32 + i / 32, col = blockIdx.x * 32 + i % 32;
    if (row < rows && col < out_features)
      out[row * out_features + col] = __float2half(tile[i / 32][i % 32] + __half2float(bias[col]));
  }
}

__global__ void gelu_inplace(half* x, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) {
    const float v = __half2float(x[i]);
    x[i] = __float2half(0.5f * v * (1.f + erff(v * 0.70710678f)));
  }
}

__global__ void residual_add(half* x, const half* y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) x[i] = __hadd(x[i], y[i]);
}
