// y = W * x, W is [N, K] row major half, x is [K] half, y is [N] float. One warp per output.
#include <cuda_fp16.h>

constexpr int kWarpsPerBlock = 4;

__global__ void gemv_f16_kernel(const half* __restrict__ W, const half* __restrict__ x, float* __restrict__ y, int N,
                                int K) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int n = blockIdx.x * kWarpsPerBlock + warp;
  if (n >= N) return;
  const half2* w2 = reinterpret_cast<const half2*>(W + static_cast<size_t>(n) * K);
  const half2* x2 = reinterpret_cast<const half2*>(x);
  float acc = 0.f;
#pragma unroll 4
  for (int i = lane; i < K / 2; i += 32) {
    float2 a = __half22float2(w2[i]);
    float2 b = __half22float2(x2[i]);
    acc = fmaf(a.x, b.x, acc);
    acc = fmaf(a.y, b.y, acc);
  }
  for (int off = 16; off; off >>= 1) acc += __shfl_down_sync(0xffffffff, acc, off);
  if (lane == 0) y[n] = acc;
}

extern "C" cudaError_t gemv_f16(const half* W, const half* x, float* y, int N, int K, cudaStream_t s) {
  if (K % 2) return cudaErrorInvalidValue;
  gemv_f16_kernel<<<(N + kWarpsPerBlock - 1) / kWarpsPerBlock, kWarpsPerBlock * 32, 0, s>>>(W, x, y, N, K);
  return cudaGetLastError();
}
