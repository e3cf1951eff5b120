// Rotary embedding of q and k in place, then k and v are written to the paged cache: one block per token.
//   query  [tokens, heads, head_size]      key, value  [tokens, kv_heads, head_size]
//   cos_sin_cache  [max_position, rot_dim]: cosines, then sines
//   k_cache, v_cache  [blocks, block_size, kv_heads, head_size];  slot_mapping < 0: padding, nothing is cached
#include <cuda_fp16.h>
#include <cstdint>

#define LDG(p) __ldg(p)

namespace serving {

template <typename scalar_t> __device__ __forceinline__ float to_f32(scalar_t x);
template <> __device__ __forceinline__ float to_f32<half>(half x) { return __half2float(x); }

template <typename scalar_t, bool IS_NEOX>
__device__ __forceinline__ void rotate_pair(scalar_t* __restrict__ arr, const float* __restrict__ cos_ptr,
                                            const float* __restrict__ sin_ptr, int rot_offset, int embed_dim) {
  int x_index, y_index;
  float cos, sin;
  if (IS_NEOX) {
    // halves: x_i goes with x_{i + d/2}
    x_index = rot_offset;
    y_index = embed_dim + rot_offset;
    cos = LDG(cos_ptr + x_index);
    sin = LDG(sin_ptr + x_index);
  } else {
    // GPT-J: neighbours
    x_index = 2 * rot_offset;
    y_index = 2 * rot_offset + 1;
    cos = LDG(cos_ptr + x_index / 2);
    sin = LDG(sin_ptr + x_index / 2);
  }
  const float x = to_f32(arr[x_index]);
  const float y = to_f32(arr[y_index]);
  arr[x_index] = __float2half(x * cos - y * sin);
  arr[y_index] = __float2half(y * cos + x * sin);
}

template <typename scalar_t, bool IS_NEOX>
__global__ void rope_and_cache_kernel(const int64_t* __restrict__ positions, scalar_t* __restrict__ query,
                                      scalar_t* key, const scalar_t* __restrict__ value,
                                      const float* __restrict__ cos_sin_cache, scalar_t* __restrict__ k_cache,
                                      scalar_t* __restrict__ v_cache, const int64_t* __restrict__ slot_mapping,
                                      const int rot_dim, const int num_heads, const int num_kv_heads,
                                      const int head_size, const int block_size) {
  const int64_t token_idx = blockIdx.x;
  const int64_t pos = positions[token_idx];
  const int embed_dim = rot_dim / 2;
  const float* cos_ptr = cos_sin_cache + pos * rot_dim;
  const float* sin_ptr = cos_ptr + embed_dim;

  const int64_t query_stride = (int64_t)num_heads * head_size;
  const int64_t kv_stride = (int64_t)num_kv_heads * head_size;

  const int nq = num_heads * embed_dim;
  for (int i = threadIdx.x; i < nq; i += blockDim.x) {
    const int head_idx = i / embed_dim;
    const int rot_offset = i % embed_dim;
    rotate_pair<scalar_t, IS_NEOX>(query + token_idx * query_stride + head_idx * head_size, cos_ptr, sin_ptr,
                                   rot_offset, embed_dim);
  }

  const int nk = num_kv_heads * embed_dim;
  for (int i = threadIdx.x; i < nk; i += blockDim.x) {
    const int head_idx = i / embed_dim;
    const int rot_offset = i % embed_dim;
    rotate_pair<scalar_t, IS_NEOX>(key + token_idx * kv_stride + head_idx * head_size, cos_ptr, sin_ptr, rot_offset,
                                   embed_dim);
  }
  __syncthreads();

  const int64_t slot_idx = slot_mapping[token_idx];
  if (slot_idx < 0) {
    return;
  }
  const int64_t block_idx = slot_idx / block_size;
  const int64_t block_offset = slot_idx % block_size;
  const int n = num_kv_heads * head_size;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int64_t src = token_idx * kv_stride + i;
    const int64_t dst = (block_idx * block_size + block_offset) * kv_stride + i;
    k_cache[dst] = key[src];
    v_cache[dst] = value[src];
  }
}

}  // namespace serving

template __global__ void serving::rope_and_cache_kernel<half, true>(const int64_t*, half*, half*, const half*,
                                                                    const float*, half*, half*, const int64_t*,
                                                                    const int, const int, const int, const int,
                                                                    const int);
