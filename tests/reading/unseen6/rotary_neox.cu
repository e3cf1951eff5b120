// Rotary position embedding, GPT-NeoX style (halves), in place on query and key.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

template <typename T>
inline __device__ void rotate_pair(T* head, const float* cos_row, const float* sin_row, int i, int half_dim) {
  float x = static_cast<float>(head[i]);
  float y = static_cast<float>(head[i + half_dim]);
  float c = cos_row[i];
  float s = sin_row[i];
  head[i] = static_cast<T>(x * c - y * s);
  head[i + half_dim] = static_cast<T>(y * c + x * s);
}

template <typename T>
__global__ void rope_neox_kernel(T* __restrict__ q,                      // [tokens, num_heads, head_dim]
                                 T* __restrict__ k,                      // [tokens, num_kv_heads, head_dim]
                                 const int64_t* __restrict__ positions,  // [tokens]
                                 const float* __restrict__ cos_cache,    // [max_position, head_dim / 2]
                                 const float* __restrict__ sin_cache,    // [max_position, head_dim / 2]
                                 int num_heads, int num_kv_heads, int head_dim) {
  const int token = blockIdx.x;
  const int half_dim = head_dim / 2;
  const int64_t pos = positions[token];
  const float* c = cos_cache + pos * half_dim;
  const float* s = sin_cache + pos * half_dim;
  for (int i = threadIdx.x; i < num_heads * half_dim; i += blockDim.x) {
    int h = i / half_dim;
    rotate_pair(q + ((int64_t)token * num_heads + h) * head_dim, c, s, i % half_dim, half_dim);
  }
  for (int i = threadIdx.x; i < num_kv_heads * half_dim; i += blockDim.x) {
    int h = i / half_dim;
    rotate_pair(k + ((int64_t)token * num_kv_heads + h) * head_dim, c, s, i % half_dim, half_dim);
  }
}

void launch_rope_neox(__nv_bfloat16* q, __nv_bfloat16* k, const int64_t* positions, const float* cos_cache,
                      const float* sin_cache, int num_tokens, int num_heads, int num_kv_heads, int head_dim,
                      cudaStream_t stream) {
  int threads = num_heads * head_dim / 2;
  if (threads > 512) threads = 512;
  rope_neox_kernel<__nv_bfloat16><<<num_tokens, threads, 0, stream>>>(q, k, positions, cos_cache, sin_cache, num_heads,
                                                                       num_kv_heads, head_dim);
}
