// Variable length self attention on packed QKV, head size 64.
//
//   qkv        : [total_tokens, 3, num_heads, 64]   fp16
//   out        : [total_tokens, num_heads, 64]      fp16
//   cu_seqlens : [batch + 1]                        int32, prefix sums, cu_seqlens[0] = 0
//
// Every CTA handles 64 queries of one head of one sequence; scores and probabilities stay in registers.
#include "cuda_fp16.h"
#include "cuda_runtime.h"
#include <cmath>
#include <cstdint>

namespace fmha {

constexpr int kHeadSize = 64;
constexpr int kTileQ = 64;
constexpr int kTileKv = 64;
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kPitch = 72;

struct Params {
  const half* qkv;
  half* out;
  const int* cu_seqlens;
  int num_heads;
  int token_stride;  // elements between tokens of qkv: 3 * num_heads * 64
  float scale_log2e;
};

__device__ __forceinline__ uint32_t ld32(const half* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ __forceinline__ uint32_t to_half2(float a, float b) {
  half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<uint32_t*>(&h);
}

__device__ __forceinline__ void mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n"
      "    {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <bool kCausal>
__global__ void __launch_bounds__(kThreads) fmha_varlen_kernel(const Params p) {
  __shared__ __align__(16) half sk[kTileKv][kPitch];    // [key][d], also the staging place of Q
  __shared__ __align__(16) half svt[kHeadSize][kPitch]; // [d][key]

  const int head = blockIdx.y;
  const int seq_begin = p.cu_seqlens[blockIdx.z];
  const int seq_len = p.cu_seqlens[blockIdx.z + 1] - seq_begin;
  const int q0 = blockIdx.x * kTileQ;
  if (q0 >= seq_len) return;

  const half* q = p.qkv + (int64_t)seq_begin * p.token_stride + head * kHeadSize;
  const half* k = q + p.num_heads * kHeadSize;
  const half* v = k + p.num_heads * kHeadSize;

  const int tid = threadIdx.x;
  const int lane = tid % 32;
  const int g = lane / 4;
  const int t2 = lane % 4 * 2;
  const int wrow = tid / 32 * 16;

  // Q -> registers
  for (int i = tid; i < kTileQ * 8; i += kThreads) {
    const int r = i / 8, c = i % 8 * 8;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (q0 + r < seq_len) x = *reinterpret_cast<const uint4*>(q + (int64_t)(q0 + r) * p.token_stride + c);
    *reinterpret_cast<uint4*>(&sk[r][c]) = x;
  }
  __syncthreads();
  uint32_t qa[4][4];
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) {
    qa[kk][0] = ld32(&sk[wrow + g][kk * 16 + t2]);
    qa[kk][1] = ld32(&sk[wrow + g + 8][kk * 16 + t2]);
    qa[kk][2] = ld32(&sk[wrow + g][kk * 16 + t2 + 8]);
    qa[kk][3] = ld32(&sk[wrow + g + 8][kk * 16 + t2 + 8]);
  }

  float acc[8][4] = {};
  float m[2] = {-INFINITY, -INFINITY};
  float l[2] = {0.f, 0.f};

  const int kv_end = kCausal ? min(seq_len, q0 + kTileQ) : seq_len;
  for (int kv0 = 0; kv0 < kv_end; kv0 += kTileKv) {
    __syncthreads();
    for (int i = tid; i < kTileKv * 8; i += kThreads) {
      const int r = i / 8, c = i % 8 * 8;
      uint4 xk = make_uint4(0, 0, 0, 0), xv = make_uint4(0, 0, 0, 0);
      if (kv0 + r < seq_len) {
        xk = *reinterpret_cast<const uint4*>(k + (int64_t)(kv0 + r) * p.token_stride + c);
        xv = *reinterpret_cast<const uint4*>(v + (int64_t)(kv0 + r) * p.token_stride + c);
      }
      *reinterpret_cast<uint4*>(&sk[r][c]) = xk;
      const half* hv = reinterpret_cast<const half*>(&xv);
#pragma unroll
      for (int e = 0; e < 8; ++e) svt[c + e][r] = hv[e];
    }
    __syncthreads();

    // S = Q K^T
    float s[8][4];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      s[n][0] = s[n][1] = s[n][2] = s[n][3] = 0.f;
#pragma unroll
      for (int kk = 0; kk < 4; ++kk)
        mma(s[n], qa[kk][0], qa[kk][1], qa[kk][2], qa[kk][3], ld32(&sk[n * 8 + g][kk * 16 + t2]),
            ld32(&sk[n * 8 + g][kk * 16 + t2 + 8]));
    }

    // mask: end of the sequence, and the future
#pragma unroll
    for (int n = 0; n < 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int key = kv0 + n * 8 + t2 + (e & 1);
        const int query = q0 + wrow + g + (e / 2) * 8;
        const bool visible = key < seq_len && (!kCausal || key <= query);
        s[n][e] = visible ? s[n][e] * p.scale_log2e : -INFINITY;
      }

    // online softmax in base 2; key 0 is visible to every query, so the maximum is finite after the first tile
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float mx = m[h];
#pragma unroll
      for (int n = 0; n < 8; ++n) mx = fmaxf(mx, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 1));
      mx = fmaxf(mx, __shfl_xor_sync(0xffffffff, mx, 2));
      const float correction = exp2f(m[h] - mx);
      m[h] = mx;
      float sum = 0.f;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        s[n][2 * h] = exp2f(s[n][2 * h] - mx);
        s[n][2 * h + 1] = exp2f(s[n][2 * h + 1] - mx);
        sum += s[n][2 * h] + s[n][2 * h + 1];
        acc[n][2 * h] *= correction;
        acc[n][2 * h + 1] *= correction;
      }
      sum += __shfl_xor_sync(0xffffffff, sum, 1);
      sum += __shfl_xor_sync(0xffffffff, sum, 2);
      l[h] = l[h] * correction + sum;
    }

    // O += P V
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) {
      const uint32_t p0 = to_half2(s[2 * kk][0], s[2 * kk][1]);
      const uint32_t p1 = to_half2(s[2 * kk][2], s[2 * kk][3]);
      const uint32_t p2 = to_half2(s[2 * kk + 1][0], s[2 * kk + 1][1]);
      const uint32_t p3 = to_half2(s[2 * kk + 1][2], s[2 * kk + 1][3]);
#pragma unroll
      for (int n = 0; n < 8; ++n)
        mma(acc[n], p0, p1, p2, p3, ld32(&svt[n * 8 + g][kk * 16 + t2]), ld32(&svt[n * 8 + g][kk * 16 + t2 + 8]));
    }
  }

#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = q0 + wrow + g + h * 8;
    if (query >= seq_len) continue;
    const float inv = 1.f / l[h];
    half* o = p.out + ((int64_t)(seq_begin + query) * p.num_heads + head) * kHeadSize;
#pragma unroll
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<uint32_t*>(o + n * 8 + t2) = to_half2(acc[n][2 * h] * inv, acc[n][2 * h + 1] * inv);
  }
}

}  // namespace fmha

// softmax_scale <= 0 means 1 / sqrt(64)
void run_fmha_varlen_qkvpacked(void* out, const void* qkv, const int* cu_seqlens, int batch, int max_seqlen,
                               int num_heads, float softmax_scale, bool causal, cudaStream_t stream) {
  fmha::Params p;
  p.qkv = static_cast<const half*>(qkv);
  p.out = static_cast<half*>(out);
  p.cu_seqlens = cu_seqlens;
  p.num_heads = num_heads;
  p.token_stride = 3 * num_heads * fmha::kHeadSize;
  if (softmax_scale <= 0.f) softmax_scale = 1.f / std::sqrt((float)fmha::kHeadSize);
  p.scale_log2e = softmax_scale * 1.44269504f;

  dim3 grid((max_seqlen + fmha::kTileQ - 1) / fmha::kTileQ, num_heads, batch);
  if (causal)
    fmha::fmha_varlen_kernel<true><<<grid, fmha::kThreads, 0, stream>>>(p);
  else
    fmha::fmha_varlen_kernel<false><<<grid, fmha::kThreads, 0, stream>>>(p);
}
