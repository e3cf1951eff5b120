// Flash-Decoding (split-KV) für einen einzelnen Decode-Schritt mit GQA.
//
// q        [batch, num_heads, 128]                    half
// k_cache  [batch, max_seq, num_kv_heads, 128]        half
// v_cache  [batch, max_seq, num_kv_heads, 128]        half
// seq_lens [batch]                                    gültige Einträge im Cache, >= 1
// out      [batch, num_heads, 128]                    half
//
// Arbeitsspeicher: partial_o [batch, num_heads, num_splits, 128] float,
//                  partial_ml [batch, num_heads, num_splits] float2 (Maximum, Summe)
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

namespace {

constexpr int HEAD_SIZE = 128;
constexpr int WARPS = 4;
constexpr int VEC = HEAD_SIZE / 32;  // Werte pro Lane

__device__ __forceinline__ void load4(float (&dst)[VEC], const half* src) {
  const uint2 raw = *reinterpret_cast<const uint2*>(src);
  const float2 lo = __half22float2(*reinterpret_cast<const half2*>(&raw.x));
  const float2 hi = __half22float2(*reinterpret_cast<const half2*>(&raw.y));
  dst[0] = lo.x; dst[1] = lo.y; dst[2] = hi.x; dst[3] = hi.y;
}

}  // namespace

// grid (num_splits, num_heads, batch), block 128
__global__ void __launch_bounds__(WARPS * 32)
decode_split_kernel(const half* __restrict__ q, const half* __restrict__ k_cache, const half* __restrict__ v_cache,
                    const int* __restrict__ seq_lens, float* __restrict__ partial_o,
                    float2* __restrict__ partial_ml, int num_heads, int num_kv_heads, int max_seq, float sm_scale) {
  __shared__ float s_o[WARPS][HEAD_SIZE];
  __shared__ float s_m[WARPS], s_l[WARPS];

  const int split = blockIdx.x, num_splits = gridDim.x;
  const int head = blockIdx.y, b = blockIdx.z;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const int len = seq_lens[b];
  const int per_split = (len + num_splits - 1) / num_splits;
  const int begin = split * per_split;
  const int end = min(begin + per_split, len);

  float qv[VEC];
  load4(qv, q + ((size_t)b * num_heads + head) * HEAD_SIZE + lane * VEC);
#pragma unroll
  for (int i = 0; i < VEC; i++) qv[i] *= sm_scale;

  const size_t row_stride = (size_t)num_kv_heads * HEAD_SIZE;
  const size_t base = (size_t)b * max_seq * row_stride + (size_t)kv_head * HEAD_SIZE + lane * VEC;

  float m = -CUDART_INF_F, l = 0.f;
  float o[VEC] = {0.f, 0.f, 0.f, 0.f};
  for (int pos = begin + warp; pos < end; pos += WARPS) {
    float kv[VEC];
    load4(kv, k_cache + base + pos * row_stride);
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < VEC; i++) s += qv[i] * kv[i];
#pragma unroll
    for (int d = 16; d >= 1; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);

    const float m_new = fmaxf(m, s);
    const float alpha = __expf(m - m_new);
    const float p = __expf(s - m_new);
    load4(kv, v_cache + base + pos * row_stride);
#pragma unroll
    for (int i = 0; i < VEC; i++) o[i] = o[i] * alpha + p * kv[i];
    l = l * alpha + p;
    m = m_new;
  }

#pragma unroll
  for (int i = 0; i < VEC; i++) s_o[warp][lane * VEC + i] = o[i];
  if (lane == 0) {
    s_m[warp] = m;
    s_l[warp] = l;
  }
  __syncthreads();

  // die vier Warps zusammenführen, ein Thread pro Dimension
  float m_all = -CUDART_INF_F;
#pragma unroll
  for (int w = 0; w < WARPS; w++) m_all = fmaxf(m_all, s_m[w]);
  float acc = 0.f, l_all = 0.f;
#pragma unroll
  for (int w = 0; w < WARPS; w++) {
    const float f = s_l[w] > 0.f ? __expf(s_m[w] - m_all) : 0.f;  // leerer Warp: kein exp(-inf + inf)
    acc += f * s_o[w][threadIdx.x];
    l_all += f * s_l[w];
  }

  const size_t idx = ((size_t)b * num_heads + head) * num_splits + split;
  partial_o[idx * HEAD_SIZE + threadIdx.x] = acc;  // noch nicht durch l geteilt
  if (threadIdx.x == 0) partial_ml[idx] = make_float2(m_all, l_all);
}

// grid (num_heads, batch), block 128
__global__ void decode_combine_kernel(const float* __restrict__ partial_o, const float2* __restrict__ partial_ml,
                                      half* __restrict__ out, int num_splits) {
  const size_t bh = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
  const float2* ml = partial_ml + bh * num_splits;

  float m = -CUDART_INF_F;
  for (int s = 0; s < num_splits; s++) m = fmaxf(m, ml[s].x);

  float acc = 0.f, l = 0.f;
  for (int s = 0; s < num_splits; s++) {
    const float f = __expf(ml[s].x - m);  // leerer Split: exp(-inf) = 0
    acc += f * partial_o[(bh * num_splits + s) * HEAD_SIZE + threadIdx.x];
    l += f * ml[s].y;
  }
  out[bh * HEAD_SIZE + threadIdx.x] = __float2half(acc / l);
}

extern "C" size_t flash_decoding_workspace(int batch, int num_heads, int num_splits) {
  return (size_t)batch * num_heads * num_splits * (HEAD_SIZE * sizeof(float) + sizeof(float2));
}

extern "C" int flash_decoding_gqa(const void* q, const void* k_cache, const void* v_cache, const int* seq_lens,
                                  void* out, void* workspace, int batch, int num_heads, int num_kv_heads, int max_seq,
                                  int num_splits, float sm_scale, cudaStream_t stream) {
  if (num_heads % num_kv_heads != 0 || num_splits < 1) return (int)cudaErrorInvalidValue;
  float* partial_o = static_cast<float*>(workspace);
  float2* partial_ml = reinterpret_cast<float2*>(partial_o + (size_t)batch * num_heads * num_splits * HEAD_SIZE);

  decode_split_kernel<<<dim3(num_splits, num_heads, batch), WARPS * 32, 0, stream>>>(
      static_cast<const half*>(q), static_cast<const half*>(k_cache), static_cast<const half*>(v_cache), seq_lens,
      partial_o, partial_ml, num_heads, num_kv_heads, max_seq, sm_scale);
  decode_combine_kernel<<<dim3(num_heads, batch), HEAD_SIZE, 0, stream>>>(partial_o, partial_ml,
                                                                          static_cast<half*>(out), num_splits);
  return (int)cudaGetLastError();
}
