// Token plus position embedding. out[b,t,c] = wte[inp[b,t],c] + wpe[t,c]
#include <cuda_runtime.h>

__global__ void encoder_forward_kernel(float* out, const int* inp, const float* wte, const float* wpe, int B, int T,
                                       int C) {
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * 4;
  if (i >= B * T * C) return;
  int bt = i / C;
  int t = bt % T;
  int c = i % C;
  int ix = inp[bt];
  float4 a = *reinterpret_cast<const float4*>(wte + ix * C + c);
  float4 b = *reinterpret_cast<const float4*>(wpe + t * C + c);
  *reinterpret_cast<float4*>(out + i) = make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

void encoder_forward(float* out, const int* inp, const float* wte, const float* wpe, int B, int T, int C) {
  const int block_size = 256;
  const int N = B * T * C;
  encoder_forward_kernel<<<(N / 4 + block_size - 1) / block_size, block_size>>>(out, inp, wte, wpe, B, T, C);
}
