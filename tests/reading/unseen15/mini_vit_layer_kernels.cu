#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include "mma.h"
// Kernels of a small vision transformer: RMSNorm, linear with bias and residual, row softmax. A launcher each.

namespace {

__device__ __forceinline__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}
__device__ __forceinline__ float warp_max(float v) {
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
  return v;
}

// one warp per row
__global__ void rmsnorm_kernel(half* y, const half* x, const half* w, int rows, int dim, float eps) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const half2* xr = reinterpret_cast<const half2*>(x + (size_t)row * dim);
  const half2* wr = reinterpret_cast<const half2*>(w);
  half2* yr = reinterpret_cast<half2*>(y + (size_t)row * dim);
  float ss = 0.f;
  for (int i = lane; i < dim / 2; i += 32) {
    float2 v = __half22float2(xr[i]);
    ss += v.x * v.x + v.y * v.y;
  }
  float inv = rsqrtf(warp_sum(ss) / dim + eps);
  for (int i = lane; i < dim / 2; i += 32) {
    float2 v = __half22float2(xr[i]), g = __half22float2(wr[i]);
    yr[i] = __floats2half2_rn(v.x * inv * g.x, v.y * inv * g.y);
  }
}

// y = x W^T + b + residual, one warp per 16x16 tile
__global__ void linear_bias_residual_kernel(half* y, const half* x, const half* w, const half* bias,
                                            const half* residual, int m, int n, int k) {
  using namespace nvcuda;
  __shared__ float stage[4][256];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row = blockIdx.y * 16, col = (blockIdx.x * 4 + warp) * 16;
  if (col >= n) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int i = 0; i < k; i += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
    wmma::load_matrix_sync(a, x + (size_t)row * k + i, k);
    wmma::load_matrix_sync(b, w + (size_t)col * k + i, k);
    wmma::mma_sync(acc, a, b, acc);
  }
  wmma::store_matrix_sync(stage[warp], acc, 16, wmma::mem_row_major);
  __syncwarp();
  for (int e = lane; e < 256; e += 32) {
    size_t at = (size_t)(row + e / 16) * n + col + e % 16;
    y[at] = __float2half(stage[warp][e] + __half2float(bias[col + e % 16]) + __half2float(residual[at]));
  }
}

__global__ void scaled_softmax_kernel(half* probs, const float* scores, int rows, int cols, float scale) {
  int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  int lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* s = scores + (size_t)row * cols;
  float m = -1e30f;
  for (int i = lane; i < cols; i += 32) m = fmaxf(m, s[i] * scale);
  m = warp_max(m);
  float sum = 0.f;
  for (int i = lane; i < cols; i += 32) sum += expf(s[i] * scale - m);
  sum = warp_sum(sum);
  for (int i = lane; i < cols; i += 32) probs[(size_t)row * cols + i] = __float2half(expf(s[i] * scale - m) / sum);
}

}  // namespace

void rmsnorm(half* y, const half* x, const half* w, int rows, int dim, cudaStream_t st) {
  rmsnorm_kernel<<<(rows + 3) / 4, 128, 0, st>>>(y, x, w, rows, dim, 1e-6f);
}

void linear_residual(half* y, const half* x, const half* w, const half* bias, const half* residual, int m, int n, int k,
                     cudaStream_t st) {
  linear_bias_residual_kernel<<<dim3((n + 63) / 64, m / 16), 128, 0, st>>>(y, x, w, bias, residual, m, n, k);
}

void softmax(half* probs, const float* scores, int rows, int cols, float scale, cudaStream_t st) {
  scaled_softmax_kernel<<<(rows + 3) / 4, 128, 0, st>>>(probs, scores, rows, cols, scale);
}
