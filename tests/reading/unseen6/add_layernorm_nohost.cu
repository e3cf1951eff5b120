// residual = x + residual; out = LayerNorm(residual) * gamma + beta
// One block per token. blockDim.x must be a power of two, hidden any number.
#include <cuda_fp16.h>

#define WARP_SIZE 32
#define THREADS 256

__device__ float2 block_reduce_sum2(float2 v) {
  __shared__ float2 buf[THREADS / WARP_SIZE];
  for (int o = WARP_SIZE / 2; o; o /= 2) {
    v.x += __shfl_down_sync(~0u, v.x, o);
    v.y += __shfl_down_sync(~0u, v.y, o);
  }
  if (threadIdx.x % WARP_SIZE == 0) buf[threadIdx.x / WARP_SIZE] = v;
  __syncthreads();
  float2 t = make_float2(0.f, 0.f);
  for (int i = 0; i < THREADS / WARP_SIZE; i++) {
    t.x += buf[i].x;
    t.y += buf[i].y;
  }
  __syncthreads();
  return t;
}

extern "C" __global__ void __launch_bounds__(THREADS)
add_layernorm_f16(const __half* __restrict__ x, __half* __restrict__ residual, const __half* __restrict__ gamma,
                  const __half* __restrict__ beta, __half* __restrict__ out, int hidden, float eps) {
  const long base = (long)blockIdx.x * hidden;
  float sum = 0.f;
  for (int i = threadIdx.x; i < hidden; i += THREADS) {
    __half h = __float2half(__half2float(x[base + i]) + __half2float(residual[base + i]));
    residual[base + i] = h;
    sum += __half2float(h);
  }
  float mean = block_reduce_sum2(make_float2(sum, 0.f)).x / hidden;
  float sq = 0.f;
  for (int i = threadIdx.x; i < hidden; i += THREADS) {
    float d = __half2float(residual[base + i]) - mean;
    sq += d * d;
  }
  float rstd = rsqrtf(block_reduce_sum2(make_float2(sq, 0.f)).x / hidden + eps);
  for (int i = threadIdx.x; i < hidden; i += THREADS) {
    float v = (__half2float(residual[base + i]) - mean) * rstd;
    out[base + i] = __float2half(v * __half2float(gamma[i]) + __half2float(beta[i]));
  }
}
