// Fused residual add + RMSNorm + QKV projection (Llama style).
//   hidden   = input + residual           (written back to residual)
//   normed   = hidden * rsqrt(mean(hidden^2) + eps) * gamma
//   qkv      = normed @ w_qkv             (w_qkv is [hidden_dim, qkv_dim])
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

namespace {

template <typename T>
struct ToFloat;
template <>
struct ToFloat<half> {
  static __device__ float of(half x) { return __half2float(x); }
};

template <int kThreads>
__device__ float block_sum(float v) {
  __shared__ float partial[kThreads / 32];
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
  if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = v;
  __syncthreads();
  float total = 0.f;
#pragma unroll
  for (int i = 0; i < kThreads / 32; ++i) total += partial[i];
  __syncthreads();
  return total;
}

// a block makes 16 rows; the normed rows stay in shared memory for all columns
template <int kHidden, int kThreads>
__global__ void add_rmsnorm_qkv_kernel(half* __restrict__ qkv, half* __restrict__ residual, const half* __restrict__ input,
                                       const half* __restrict__ gamma, const half* __restrict__ w_qkv, int num_tokens,
                                       int qkv_dim, float eps) {
  extern __shared__ __align__(32) half rows[];  // 16 x (kHidden + 8)
  constexpr int kLd = kHidden + 8;
  const int token0 = blockIdx.x * 16;

  for (int r = 0; r < 16; ++r) {
    const int token = token0 + r;
    if (token >= num_tokens) {
      for (int c = threadIdx.x; c < kHidden; c += kThreads) rows[r * kLd + c] = __float2half(0.f);
      continue;
    }
    float square = 0.f;
    for (int c = threadIdx.x; c < kHidden; c += kThreads) {
      const size_t i = (size_t)token * kHidden + c;
      const half h = __float2half(ToFloat<half>::of(input[i]) + ToFloat<half>::of(residual[i]));
      residual[i] = h;
      rows[r * kLd + c] = h;
      square += __half2float(h) * __half2float(h);
    }
    const float inv = rsqrtf(block_sum<kThreads>(square) / kHidden + eps);
    for (int c = threadIdx.x; c < kHidden; c += kThreads)
      rows[r * kLd + c] = __float2half(__half2float(rows[r * kLd + c]) * inv * __half2float(gamma[c]));
  }
  __syncthreads();

  using namespace nvcuda;
  const int warp = threadIdx.x / 32;
  __shared__ __align__(32) float stage[kThreads / 32][16][20];
  for (int n = warp * 16; n < qkv_dim; n += kThreads / 32 * 16) {
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.f);
    for (int k = 0; k < kHidden; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, rows + k, kLd);
      wmma::load_matrix_sync(b, w_qkv + (size_t)k * qkv_dim + n, qkv_dim);
      wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(&stage[warp][0][0], acc, 20, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < 256; i += 32) {
      if (token0 + i / 16 < num_tokens)
        qkv[(size_t)(token0 + i / 16) * qkv_dim + n + i % 16] = __float2half(stage[warp][i / 16][i % 16]);
    }
    __syncwarp();
  }
}

}  // namespace

template <int kHidden>
static void launch(half* qkv, half* residual, const half* input, const half* gamma, const half* w_qkv, int num_tokens,
                   int qkv_dim, float eps, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const size_t smem = 16 * (kHidden + 8) * sizeof(half);
  add_rmsnorm_qkv_kernel<kHidden, kThreads><<<(num_tokens + 15) / 16, kThreads, smem, stream>>>(
      qkv, residual, input, gamma, w_qkv, num_tokens, qkv_dim, eps);
}

bool add_rmsnorm_qkv(half* qkv, half* residual, const half* input, const half* gamma, const half* w_qkv, int num_tokens,
                     int hidden_dim, int qkv_dim, float eps, cudaStream_t stream) {
  if (qkv_dim % 16 != 0) return false;
  switch (hidden_dim) {
    case 128: launch<128>(qkv, residual, input, gamma, w_qkv, num_tokens, qkv_dim, eps, stream); return true;
    case 256: launch<256>(qkv, residual, input, gamma, w_qkv, num_tokens, qkv_dim, eps, stream); return true;
    case 512: launch<512>(qkv, residual, input, gamma, w_qkv, num_tokens, qkv_dim, eps, stream); return true;
    default: return false;
  }
}
