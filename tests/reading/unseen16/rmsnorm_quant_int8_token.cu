#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

// RMSNorm followed by dynamic per-token int8 quantisation, one block per token, as serving engines fuse them.
template <int kThreads>
__global__ void rms_norm_dynamic_per_token_quant_kernel(int8_t* __restrict__ out, float* __restrict__ scales,
                                                        const __nv_bfloat16* __restrict__ input,
                                                        const __nv_bfloat16* __restrict__ weight, float epsilon,
                                                        int hidden_size) {
  __shared__ float red[kThreads / 32];
  const __nv_bfloat16* x = input + (int64_t)blockIdx.x * hidden_size;
  int8_t* y = out + (int64_t)blockIdx.x * hidden_size;
  float ss = 0.f;
  for (int i = threadIdx.x; i < hidden_size; i += kThreads) { float v = __bfloat162float(x[i]); ss += v * v; }
  for (int o = 16; o > 0; o >>= 1) ss += __shfl_xor_sync(0xffffffff, ss, o);
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = ss;
  __syncthreads();
  ss = 0.f;
  for (int w = 0; w < kThreads / 32; w++) ss += red[w];
  __syncthreads();
  const float rstd = rsqrtf(ss / hidden_size + epsilon);
  float amax = 0.f;
  for (int i = threadIdx.x; i < hidden_size; i += kThreads)
    amax = fmaxf(amax, fabsf(__bfloat162float(x[i]) * rstd * __bfloat162float(weight[i])));
  for (int o = 16; o > 0; o >>= 1) amax = fmaxf(amax, __shfl_xor_sync(0xffffffff, amax, o));
  if (threadIdx.x % 32 == 0) red[threadIdx.x / 32] = amax;
  __syncthreads();
  amax = 0.f;
  for (int w = 0; w < kThreads / 32; w++) amax = fmaxf(amax, red[w]);
  const float scale = fmaxf(amax / 127.f, 1e-10f);
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  for (int i = threadIdx.x; i < hidden_size; i += kThreads) {
    float v = __bfloat162float(x[i]) * rstd * __bfloat162float(weight[i]) / scale;
    y[i] = (int8_t)fminf(fmaxf(rintf(v), -128.f), 127.f);
  }
}

void rms_norm_dynamic_per_token_quant(int8_t* out, float* scales, const __nv_bfloat16* input, const __nv_bfloat16* weight,
                                      float epsilon, int num_tokens, int hidden_size, cudaStream_t stream) {
  rms_norm_dynamic_per_token_quant_kernel<256><<<num_tokens, 256, 0, stream>>>(out, scales, input, weight, epsilon, hidden_size);
}
