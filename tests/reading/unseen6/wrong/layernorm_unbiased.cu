// LayerNorm forward, one warp per row.
#include <cuda_runtime.h>

__global__ void layernorm_forward_kernel(float* __restrict__ out, const float* __restrict__ inp,
                                         const float* __restrict__ weight, const float* __restrict__ bias, int N, int C) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  int lane = threadIdx.x % 32;
  if (row >= N) return;
  const float* x = inp + row * C;
  float s = 0.f, s2 = 0.f;
  for (int i = lane; i < C; i += 32) s += x[i];
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
  float mean = s / C;
  for (int i = lane; i < C; i += 32) s2 += (x[i] - mean) * (x[i] - mean);
  for (int o = 16; o; o >>= 1) s2 += __shfl_xor_sync(~0u, s2, o);
  float rstd = rsqrtf(s2 / (C - 1) + 1e-5f);
  for (int i = lane; i < C; i += 32) out[row * C + i] = (x[i] - mean) * rstd * weight[i] + bias[i];
}

void layernorm_forward(float* out, const float* inp, const float* weight, const float* bias, int N, int C) {
  layernorm_forward_kernel<<<(N * 32 + 255) / 256, 256>>>(out, inp, weight, bias, N, C);
}
