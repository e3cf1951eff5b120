#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

// One W8A8 projection of a quantised Llama: RMSNorm writes int8 rows and a scale per token, the GEMM runs on
// m16n8k32 and multiplies with the scale of the token and of the output channel.

__device__ inline float warp_sum(float v) { for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o); return v; }
__device__ inline float warp_max(float v) { for (int o = 16; o; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o)); return v; }

__global__ void rmsnorm_dyn_quant(const half* __restrict__ hidden_states, const half* __restrict__ gamma, int8_t* __restrict__ q_out,
                                  float* __restrict__ token_scale, int hidden, float eps) {
  extern __shared__ float row[];
  __shared__ float partial[8];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const half* in = hidden_states + (size_t)blockIdx.x * hidden;
  float ss = 0.f;
  for (int i = threadIdx.x; i < hidden; i += 256) { row[i] = __half2float(in[i]); ss += row[i] * row[i]; }
  ss = warp_sum(ss);
  if (lane == 0) partial[warp] = ss;
  __syncthreads();
  ss = warp_sum(lane < 8 ? partial[lane] : 0.f);
  __syncthreads();
  const float inv = rsqrtf(ss / hidden + eps);
  float top = 0.f;
  for (int i = threadIdx.x; i < hidden; i += 256) { row[i] = row[i] * inv * __half2float(gamma[i]); top = fmaxf(top, fabsf(row[i])); }
  top = warp_max(top);
  if (lane == 0) partial[warp] = top;
  __syncthreads();
  top = warp_max(lane < 8 ? partial[lane] : 0.f);
  const float s = top / 127.f;
  if (threadIdx.x == 0) token_scale[blockIdx.x] = s;
  const float r = top > 0.f ? 127.f / top : 0.f;
  for (int i = threadIdx.x; i < hidden; i += 256) q_out[(size_t)blockIdx.x * hidden + i] = (int8_t)__float2int_rn(row[i] * r);
}

__device__ inline void mma_s8(int (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void w8a8_linear(const int8_t* __restrict__ x, const float* __restrict__ token_scale, const int8_t* __restrict__ w,
                            const float* __restrict__ channel_scale, half* __restrict__ y, int tokens, int out_features, int in_features) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
  const int m0 = blockIdx.y * 16, n0 = (blockIdx.x * 4 + warp) * 8;
  if (n0 >= out_features) return;
  int acc[4] = {0, 0, 0, 0};
  for (int k = 0; k < in_features; k += 32) {
    uint32_t a[4], b[2];
    for (int i = 0; i < 4; i++) {
      const int r = m0 + g + (i & 1) * 8;
      a[i] = r < tokens ? *reinterpret_cast<const uint32_t*>(x + (size_t)r * in_features + k + t * 4 + (i / 2) * 16) : 0u;
    }
    for (int i = 0; i < 2; i++) b[i] = *reinterpret_cast<const uint32_t*>(w + (size_t)(n0 + g) * in_features + k + t * 4 + i * 16);
    mma_s8(acc, a, b);
  }
  for (int i = 0; i < 4; i++) {
    const int r = m0 + g + (i / 2) * 8, c = n0 + t * 2 + i % 2;
    if (r < tokens) y[(size_t)r * out_features + c] = __float2half(acc[i] * token_scale[r] * channel_scale[c]);
  }
}

struct Workspace { int8_t* q; float* scale; };

cudaError_t norm_linear_w8a8(const half* hidden_states, const half* gamma, const int8_t* w, const float* channel_scale, half* y,
                             Workspace ws, int tokens, int in_features, int out_features, float eps, cudaStream_t stream) {
  rmsnorm_dyn_quant<<<tokens, 256, in_features * sizeof(float), stream>>>(hidden_states, gamma, ws.q, ws.scale, in_features, eps);
  w8a8_linear<<<dim3((out_features + 31) / 32, (tokens + 15) / 16), 128, 0, stream>>>(ws.q, ws.scale, w, channel_scale, y, tokens,
                                                                                      out_features, in_features);
  return cudaGetLastError();
}
