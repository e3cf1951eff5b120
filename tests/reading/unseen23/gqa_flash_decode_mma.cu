// SPDX-License-Identifier: Apache-2.0
//
// csrc/attention/gqa_flash_decode_mma.cu
//
// One new token per sequence, grouped query heads, contiguous KV cache. The context is cut into `num_splits` pieces;
// a second kernel merges them. All query heads of a group share the MMA: they are its 16 rows (padded with zeros).

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <stdexcept>

namespace engine {

enum class DType { kFloat16, kBFloat16 };

struct DecodeParams {
  const void* q;             // [batch, num_heads, head_dim]
  const void* k_cache;       // [batch, num_kv_heads, max_context, head_dim]
  const void* v_cache;       // same
  const int* context_lens;   // [batch], the new token included
  void* out;                 // [batch, num_heads, head_dim]
  float* partial_out;        // [num_splits, batch, num_heads, head_dim], unused when num_splits == 1
  float2* partial_ml;        // [num_splits, batch, num_heads] (maximum, sum)
  int batch, num_heads, num_kv_heads, head_dim, max_context, num_splits;
  float scale;
};

namespace detail {

constexpr int kTileKeys = 64;
constexpr int kWarps = 4;
constexpr int kRows = 16;

template <typename T>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
template <>
__device__ __forceinline__ void mma<__half>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void mma<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t pack2(float x, float y, __half) {
  __half2 h = __floats2half2_rn(x, y);
  return *reinterpret_cast<uint32_t*>(&h);
}
__device__ __forceinline__ uint32_t pack2(float x, float y, __nv_bfloat16) {
  __nv_bfloat162 h = __floats2bfloat162_rn(x, y);
  return *reinterpret_cast<uint32_t*>(&h);
}
__device__ __forceinline__ void store(__half* p, float x) { *p = __float2half_rn(x); }
__device__ __forceinline__ void store(__nv_bfloat16* p, float x) { *p = __float2bfloat16_rn(x); }

template <bool kTrans>
__device__ __forceinline__ void ldsm4(uint32_t (&r)[4], const void* p) {
  const uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(p));
  if constexpr (kTrans)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}

// 16 bytes, or zeros when !valid
__device__ __forceinline__ void cp_async16(void* dst, const void* src, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(dst))),
               "l"(src), "r"(valid ? 16 : 0));
}

template <typename T, int kDim>
__global__ void __launch_bounds__(kWarps * 32) decode_split_kernel(const DecodeParams p) {
  constexpr int kLd = kDim + 8;
  __shared__ __align__(16) T s_q[kRows * kLd];
  __shared__ __align__(16) T s_k[kTileKeys * kLd];
  __shared__ __align__(16) T s_v[kTileKeys * kLd];
  __shared__ float s_m[kWarps][kRows], s_l[kWarps][kRows];

  const int split = blockIdx.x, kv_head = blockIdx.y, b = blockIdx.z;
  const int group = p.num_heads / p.num_kv_heads;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int context = p.context_lens[b];
  const int tiles = (context + kTileKeys - 1) / kTileKeys;
  const int tiles_per_split = (tiles + p.num_splits - 1) / p.num_splits;
  const int begin = split * tiles_per_split * kTileKeys;
  const int end = min(context, begin + tiles_per_split * kTileKeys);

  const T* q = static_cast<const T*>(p.q) + (static_cast<int64_t>(b) * p.num_heads + kv_head * group) * kDim;
  const int64_t cache = (static_cast<int64_t>(b) * p.num_kv_heads + kv_head) * p.max_context * kDim;
  const T* k = static_cast<const T*>(p.k_cache) + cache;
  const T* v = static_cast<const T*>(p.v_cache) + cache;

  for (int i = threadIdx.x; i < kRows * kDim / 8; i += kWarps * 32) {
    const int r = i / (kDim / 8), c = i % (kDim / 8) * 8;
    cp_async16(&s_q[r * kLd + c], q + (r < group ? r * kDim + c : 0), r < group);
  }

  float o[kDim / 8][4] = {};
  float m[2] = {-INFINITY, -INFINITY}, l[2] = {0.f, 0.f};

  for (int key0 = begin; key0 < end; key0 += kTileKeys) {
    for (int i = threadIdx.x; i < kTileKeys * kDim / 8; i += kWarps * 32) {
      const int r = i / (kDim / 8), c = i % (kDim / 8) * 8;
      const bool ok = key0 + r < end;
      const int64_t src = ok ? static_cast<int64_t>(key0 + r) * kDim + c : 0;
      cp_async16(&s_k[r * kLd + c], k + src, ok);
      cp_async16(&s_v[r * kLd + c], v + src, ok);
    }
    asm volatile("cp.async.wait_all;" ::);
    __syncthreads();

    // scores: this warp has 16 of the 64 keys
    float s[2][4] = {};
#pragma unroll
    for (int d = 0; d < kDim; d += 16) {
      uint32_t fq[4], fk[4];
      ldsm4<false>(fq, &s_q[(lane % 16) * kLd + d + lane / 16 * 8]);
      ldsm4<false>(fk, &s_k[(warp * 16 + lane / 16 * 8 + lane % 8) * kLd + d + lane / 8 % 2 * 8]);
      mma<T>(s[0], fq, fk[0], fk[1]);
      mma<T>(s[1], fq, fk[2], fk[3]);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {  // row lane / 4, then row lane / 4 + 8
      float mx = m[h];
      for (int j = 0; j < 2; ++j)
        for (int e = 0; e < 2; ++e) {
          const int key = key0 + warp * 16 + j * 8 + lane % 4 * 2 + e;
          float& x = s[j][h * 2 + e];
          x = key < end ? x * p.scale : -INFINITY;
          mx = fmaxf(mx, x);
        }
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffffu, mx, 2));
      const float ref = mx == -INFINITY ? 0.f : mx;  // no key of this warp is valid yet
      const float alpha = __expf(m[h] - ref);
      float sum = 0.f;
      for (int j = 0; j < 2; ++j)
        for (int e = 0; e < 2; ++e) sum += s[j][h * 2 + e] = __expf(s[j][h * 2 + e] - ref);
      sum += __shfl_xor_sync(0xffffffffu, sum, 1);
      sum += __shfl_xor_sync(0xffffffffu, sum, 2);
      l[h] = l[h] * alpha + sum;
      m[h] = mx;
      for (int j = 0; j < kDim / 8; ++j) {
        o[j][h * 2] *= alpha;
        o[j][h * 2 + 1] *= alpha;
      }
    }

    const uint32_t fp[4] = {pack2(s[0][0], s[0][1], T()), pack2(s[0][2], s[0][3], T()), pack2(s[1][0], s[1][1], T()),
                            pack2(s[1][2], s[1][3], T())};
#pragma unroll
    for (int j = 0; j < kDim / 8; j += 2) {
      uint32_t fv[4];
      ldsm4<true>(fv, &s_v[(warp * 16 + lane % 16) * kLd + j * 8 + lane / 16 * 8]);
      mma<T>(o[j], fp, fv[0], fv[1]);
      mma<T>(o[j + 1], fp, fv[2], fv[3]);
    }
    __syncthreads();
  }

  // merge the four warps, in the memory of K
  asm volatile("cp.async.wait_all;" ::);
  if (lane % 4 == 0)
    for (int h = 0; h < 2; ++h) {
      s_m[warp][lane / 4 + h * 8] = m[h];
      s_l[warp][lane / 4 + h * 8] = l[h];
    }
  float* acc = reinterpret_cast<float*>(s_k);  // [kRows][kDim]
  for (int i = threadIdx.x; i < kRows * kDim; i += kWarps * 32) acc[i] = 0.f;
  __syncthreads();
  for (int w = 0; w < kWarps; ++w) {
    if (w == warp)
      for (int h = 0; h < 2; ++h) {
        const int r = lane / 4 + h * 8;
        const float top = fmaxf(fmaxf(s_m[0][r], s_m[1][r]), fmaxf(s_m[2][r], s_m[3][r]));
        const float f = m[h] == -INFINITY ? 0.f : __expf(m[h] - top);
        for (int j = 0; j < kDim / 8; ++j)
          for (int e = 0; e < 2; ++e) acc[r * kDim + j * 8 + lane % 4 * 2 + e] += f * o[j][h * 2 + e];
      }
    __syncthreads();
  }

  for (int i = threadIdx.x; i < group * kDim; i += kWarps * 32) {
    const int r = i / kDim, d = i % kDim, head = kv_head * group + r;
    const float top = fmaxf(fmaxf(s_m[0][r], s_m[1][r]), fmaxf(s_m[2][r], s_m[3][r]));
    float sum = 0.f;
    for (int w = 0; w < kWarps; ++w) sum += s_m[w][r] == -INFINITY ? 0.f : s_l[w][r] * __expf(s_m[w][r] - top);
    if (p.num_splits == 1) {
      store(static_cast<T*>(p.out) + (static_cast<int64_t>(b) * p.num_heads + head) * kDim + d, acc[i] / sum);
    } else {
      const int64_t row = (static_cast<int64_t>(split) * p.batch + b) * p.num_heads + head;
      p.partial_out[row * kDim + d] = acc[i];
      if (d == 0) p.partial_ml[row] = make_float2(top, sum);
    }
  }
}

template <typename T, int kDim>
__global__ void decode_combine_kernel(const DecodeParams p) {
  const int row = blockIdx.x;  // b * num_heads + head
  const int rows = p.batch * p.num_heads;
  float top = -INFINITY;
  for (int s = 0; s < p.num_splits; ++s) top = fmaxf(top, p.partial_ml[s * rows + row].x);
  float num = 0.f, den = 0.f;
  for (int s = 0; s < p.num_splits; ++s) {
    const float2 ml = p.partial_ml[s * rows + row];
    const float f = __expf(ml.x - top);
    den += f * ml.y;
    num += f * p.partial_out[(static_cast<int64_t>(s) * rows + row) * kDim + threadIdx.x];
  }
  store(static_cast<T*>(p.out) + static_cast<int64_t>(row) * kDim + threadIdx.x, num / den);
}

template <typename T, int kDim>
void launch(const DecodeParams& p, cudaStream_t stream) {
  decode_split_kernel<T, kDim><<<dim3(p.num_splits, p.num_kv_heads, p.batch), kWarps * 32, 0, stream>>>(p);
  if (p.num_splits > 1) decode_combine_kernel<T, kDim><<<p.batch * p.num_heads, kDim, 0, stream>>>(p);
}

}  // namespace detail

void decode_attention(const DecodeParams& p, DType dtype, cudaStream_t stream) {
  if (p.num_heads % p.num_kv_heads || p.num_heads / p.num_kv_heads > detail::kRows)
    throw std::invalid_argument("decode_attention: at most 16 query heads per kv head");
  const bool half = dtype == DType::kFloat16;
  switch (p.head_dim) {
    case 64: half ? detail::launch<__half, 64>(p, stream) : detail::launch<__nv_bfloat16, 64>(p, stream); break;
    case 128: half ? detail::launch<__half, 128>(p, stream) : detail::launch<__nv_bfloat16, 128>(p, stream); break;
    default: throw std::invalid_argument("decode_attention: head_dim must be 64 or 128");
  }
}

}  // namespace engine
