// Causal attention with grouped heads, one block per query. q,o [B,H,S,D], k,v [B,Hk,S,D]
#include <cuda_fp16.h>
#include <cuda_runtime.h>

template <int D>
__global__ void gqa_attention_kernel(const half* q, const half* k, const half* v, half* o, int H, int Hk, int S,
                                     float scale) {
  extern __shared__ float p[];
  const int i = blockIdx.x, h = blockIdx.y, b = blockIdx.z, t = threadIdx.x;
  const int hk = h % Hk;
  const half* qi = q + ((size_t)(b * H + h) * S + i) * D;
  const half* kb = k + (size_t)(b * Hk + hk) * S * D;
  const half* vb = v + (size_t)(b * Hk + hk) * S * D;
  for (int j = t; j <= i; j += blockDim.x) {
    float s = 0.f;
    for (int d = 0; d < D; d++) s += __half2float(qi[d]) * __half2float(kb[j * D + d]);
    p[j] = s * scale;
  }
  __syncthreads();
  float m = -1e30f, l = 0.f;
  for (int j = 0; j <= i; j++) m = fmaxf(m, p[j]);
  for (int j = 0; j <= i; j++) l += __expf(p[j] - m);
  for (int d = t; d < D; d += blockDim.x) {
    float acc = 0.f;
    for (int j = 0; j <= i; j++) acc += __expf(p[j] - m) * __half2float(vb[j * D + d]);
    o[((size_t)(b * H + h) * S + i) * D + d] = __float2half(acc / l);
  }
}

void gqa_attention(const half* q, const half* k, const half* v, half* o, int B, int H, int Hk, int S, float scale,
                   cudaStream_t stream) {
  gqa_attention_kernel<64><<<dim3(S, H, B), 64, S * sizeof(float), stream>>>(q, k, v, o, H, Hk, S, scale);
}
