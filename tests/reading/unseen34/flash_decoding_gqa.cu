// Flash-Decoding (split-KV) for grouped-query attention, one new token per sequence.
//
//   q        [batch, num_kv_heads * GROUP, HEAD_DIM]               half
//   k_cache  [batch, max_len, num_kv_heads, HEAD_DIM]              half
//   v_cache  [batch, max_len, num_kv_heads, HEAD_DIM]              half
//   seq_lens [batch]   number of valid tokens, the new one included
//   part_o   [batch, num_q_heads, num_splits, HEAD_DIM]            float, not normalised
//   part_ml  [batch, num_q_heads, num_splits]                      (max in log2 units, sum)
//   out      [batch, num_q_heads, HEAD_DIM]                        half
//
// Phase 1: grid (num_splits, num_kv_heads, batch), 128 threads. The GROUP query heads that share
//          one KV head are processed together, K and V are read exactly once.
// Phase 2: grid (num_q_heads, batch), HEAD_DIM threads. Merges the splits.
//
// Splits past the end of a short sequence are legal, they contribute (-inf, 0).

#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace decode {

constexpr int kNumWarps = 4;
constexpr float kLog2e = 1.4426950408889634f;

// HEAD_DIM / 32 consecutive halfs per lane
template <int VEC>
__device__ __forceinline__ void load_vec(float (&dst)[VEC], const half* __restrict__ src) {
  static_assert(VEC % 2 == 0, "HEAD_DIM must be a multiple of 64");
#pragma unroll
  for (int i = 0; i < VEC / 2; ++i) {
    const float2 f = __half22float2(reinterpret_cast<const half2*>(src)[i]);
    dst[2 * i] = f.x;
    dst[2 * i + 1] = f.y;
  }
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
  return v;
}

template <int HEAD_DIM, int GROUP>
__global__ void __launch_bounds__(kNumWarps * 32)
split_kv_kernel(const half* __restrict__ q, const half* __restrict__ k_cache,
                const half* __restrict__ v_cache, const int* __restrict__ seq_lens,
                float* __restrict__ part_o, float2* __restrict__ part_ml, int max_len, float scale) {
  constexpr int VEC = HEAD_DIM / 32;

  __shared__ float s_o[kNumWarps][GROUP][HEAD_DIM];
  __shared__ float s_m[kNumWarps][GROUP];
  __shared__ float s_l[kNumWarps][GROUP];

  const int split = blockIdx.x, num_splits = gridDim.x;
  const int kv_head = blockIdx.y, num_kv_heads = gridDim.y;
  const int b = blockIdx.z;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int num_q_heads = num_kv_heads * GROUP;

  const int len = seq_lens[b];
  const int chunk = (len + num_splits - 1) / num_splits;
  const int begin = min(len, split * chunk);
  const int end = min(len, begin + chunk);

  float qr[GROUP][VEC], acc[GROUP][VEC], m[GROUP], l[GROUP];
#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
    const size_t head = (size_t)b * num_q_heads + kv_head * GROUP + g;
    load_vec<VEC>(qr[g], q + head * HEAD_DIM + lane * VEC);
#pragma unroll
    for (int i = 0; i < VEC; ++i) {
      qr[g][i] *= scale * kLog2e;
      acc[g][i] = 0.f;
    }
    m[g] = -INFINITY;
    l[g] = 0.f;
  }

  // one token per warp and iteration, so every branch below is warp-uniform
  for (int t = begin + warp; t < end; t += kNumWarps) {
    const size_t off = (((size_t)b * max_len + t) * num_kv_heads + kv_head) * HEAD_DIM + lane * VEC;
    float kr[VEC], vr[VEC];
    load_vec<VEC>(kr, k_cache + off);
    load_vec<VEC>(vr, v_cache + off);
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      float s = 0.f;
#pragma unroll
      for (int i = 0; i < VEC; ++i) s += qr[g][i] * kr[i];
      s = warp_sum(s);

      const float m_new = fmaxf(m[g], s);
      const float corr = exp2f(m[g] - m_new);
      const float p = exp2f(s - m_new);
      l[g] = l[g] * corr + p;
#pragma unroll
      for (int i = 0; i < VEC; ++i) acc[g][i] = acc[g][i] * corr + p * vr[i];
      m[g] = m_new;
    }
  }

#pragma unroll
  for (int g = 0; g < GROUP; ++g) {
#pragma unroll
    for (int i = 0; i < VEC; ++i) s_o[warp][g][lane * VEC + i] = acc[g][i];
    if (lane == 0) {
      s_m[warp][g] = m[g];
      s_l[warp][g] = l[g];
    }
  }
  __syncthreads();

  for (int idx = threadIdx.x; idx < GROUP * HEAD_DIM; idx += kNumWarps * 32) {
    const int g = idx / HEAD_DIM, d = idx % HEAD_DIM;
    float m_all = s_m[0][g];
#pragma unroll
    for (int w = 1; w < kNumWarps; ++w) m_all = fmaxf(m_all, s_m[w][g]);

    float o = 0.f, sum = 0.f;
    if (m_all != -INFINITY) {
#pragma unroll
      for (int w = 0; w < kNumWarps; ++w) {
        const float c = exp2f(s_m[w][g] - m_all);   // 0 for a warp that saw no token
        o += c * s_o[w][g][d];
        sum += c * s_l[w][g];
      }
    }
    const size_t part = ((size_t)b * num_q_heads + kv_head * GROUP + g) * num_splits + split;
    part_o[part * HEAD_DIM + d] = o;
    if (d == 0) part_ml[part] = make_float2(m_all, sum);
  }
}

template <int HEAD_DIM>
__global__ void __launch_bounds__(HEAD_DIM)
combine_kernel(const float* __restrict__ part_o, const float2* __restrict__ part_ml,
               half* __restrict__ out, int num_splits) {
  const size_t head = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  const int d = threadIdx.x;
  const float2* ml = part_ml + head * num_splits;
  const float* o = part_o + head * num_splits * HEAD_DIM;

  float m = -INFINITY;
  for (int s = 0; s < num_splits; ++s) m = fmaxf(m, ml[s].x);

  float acc = 0.f, sum = 0.f;
  if (m != -INFINITY) {   // an empty sequence gives zeros
    for (int s = 0; s < num_splits; ++s) {
      const float c = exp2f(ml[s].x - m);
      acc += c * o[(size_t)s * HEAD_DIM + d];
      sum += c * ml[s].y;
    }
  }
  out[head * HEAD_DIM + d] = __float2half(sum > 0.f ? acc / sum : 0.f);
}

#define INSTANTIATE_SPLIT(D, G)                                                                     \
  template __global__ void split_kv_kernel<D, G>(const half*, const half*, const half*, const int*, \
                                                 float*, float2*, int, float);
INSTANTIATE_SPLIT(64, 1)
INSTANTIATE_SPLIT(64, 4)
INSTANTIATE_SPLIT(128, 1)
INSTANTIATE_SPLIT(128, 4)
INSTANTIATE_SPLIT(128, 8)
template __global__ void combine_kernel<64>(const float*, const float2*, half*, int);
template __global__ void combine_kernel<128>(const float*, const float2*, half*, int);

}  // namespace decode
