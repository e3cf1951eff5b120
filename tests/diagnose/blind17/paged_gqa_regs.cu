// Decode step over a paged KV cache, grouped query attention. One block per (sequence, kv head): the query heads of
// a group are the 16 rows of an mma (the last ones are padding); warps take turns at the pages and merge at the end.
#include <cuda_fp16.h>
#include <stdint.h>

namespace serve {
namespace detail {

__device__ __forceinline__ void mma16816(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t as_u32(__half2 x) { return *reinterpret_cast<uint32_t*>(&x); }
__device__ __forceinline__ uint32_t pack2(float lo, float hi) { return as_u32(__floats2half2_rn(lo, hi)); }
__device__ __forceinline__ uint32_t ld2(const __half* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace detail

template <int kHeadDim, int kPageSize, int kWarps>
__global__ void paged_gqa_decode(__half* __restrict__ out,            // [num_seqs, num_heads, head_dim]
                                 const __half* __restrict__ query,    // [num_seqs, num_heads, head_dim]
                                 const __half* __restrict__ k_pool,   // [num_pages, page_size, num_kv_heads, head_dim]
                                 const __half* __restrict__ v_pool,
                                 const int* __restrict__ page_table,  // [num_seqs, max_pages]
                                 const int* __restrict__ seq_lens,    // [num_seqs]
                                 int num_heads, int num_kv_heads, int max_pages, float sm_scale) {
  using namespace detail;
  static_assert(kPageSize == 16, "a page is the depth of one mma");
  constexpr int kSteps = kHeadDim / 16, kTiles = kHeadDim / 8;

  __shared__ float s_max[kWarps][16];
  __shared__ float s_sum[kWarps][16];
  __shared__ float s_out[kWarps][16][kHeadDim + 4];

  const int seq = blockIdx.y, kv_head = blockIdx.x;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, grp = lane / 4, tig = lane % 4;
  const int group_size = num_heads / num_kv_heads;
  const int head0 = kv_head * group_size;
  const int seq_len = seq_lens[seq];
  const int num_pages = (seq_len + kPageSize - 1) / kPageSize;
  const int row_stride = num_kv_heads * kHeadDim;
  const float scale_log2 = sm_scale * 1.44269504f;

  // queries: rows grp and grp + 8
  uint32_t qf[kSteps][4];
  const __half* q = query + (static_cast<int64_t>(seq) * num_heads + head0) * kHeadDim;
#pragma unroll
  for (int ks = 0; ks < kSteps; ++ks) {
    const __half* lo = q + grp * kHeadDim + ks * 16 + tig * 2;
    const __half* hi = lo + 8 * kHeadDim;
    qf[ks][0] = grp < group_size ? ld2(lo) : 0u;
    qf[ks][1] = grp + 8 < group_size ? ld2(hi) : 0u;
    qf[ks][2] = grp < group_size ? ld2(lo + 8) : 0u;
    qf[ks][3] = grp + 8 < group_size ? ld2(hi + 8) : 0u;
  }

  float acc[kTiles][4] = {};
  float row_max[2] = {-INFINITY, -INFINITY};
  float row_sum[2] = {0.f, 0.f};

  for (int page = warp; page < num_pages; page += kWarps) {
    const int64_t physical = page_table[seq * max_pages + page];
    const __half* k = k_pool + (physical * kPageSize * num_kv_heads + kv_head) * kHeadDim;
    const __half* v = v_pool + (physical * kPageSize * num_kv_heads + kv_head) * kHeadDim;

    float s[2][4] = {};
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
      for (int ks = 0; ks < kSteps; ++ks) {
        const __half* row = k + (n * 8 + grp) * row_stride + ks * 16 + tig * 2;
        mma16816(s[n], qf[ks], ld2(row), ld2(row + 8));
      }
    }

    float p[2][4];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float m = row_max[r];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = page * kPageSize + n * 8 + tig * 2 + e;
          if (key >= seq_len) s[n][r * 2 + e] = -INFINITY;
          m = fmaxf(m, s[n][r * 2 + e]);
        }
      }
      m = quad_max(m);
      const float alpha = exp2f((row_max[r] - m) * scale_log2);
      row_max[r] = m;
      float sum = 0.f;
#pragma unroll
      for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          p[n][r * 2 + e] = exp2f((s[n][r * 2 + e] - m) * scale_log2);
          sum += p[n][r * 2 + e];
        }
      }
      row_sum[r] = row_sum[r] * alpha + quad_sum(sum);
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        acc[n][r * 2] *= alpha;
        acc[n][r * 2 + 1] *= alpha;
      }
    }

    const uint32_t pf[4] = {pack2(p[0][0], p[0][1]), pack2(p[0][2], p[0][3]), pack2(p[1][0], p[1][1]),
                            pack2(p[1][2], p[1][3])};
    const int left = seq_len - page * kPageSize;
    const auto value = [&](int key, int d) { return key < left ? v[key * row_stride + d] : __half(__float2half(0.f)); };
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int d = n * 8 + grp;
      const uint32_t b0 = as_u32(__halves2half2(value(tig * 2, d), value(tig * 2 + 1, d)));
      const uint32_t b1 = as_u32(__halves2half2(value(tig * 2 + 8, d), value(tig * 2 + 9, d)));
      mma16816(acc[n], pf, b0, b1);
    }
  }

  // every warp leaves what it has; one that had no page leaves -inf, 0 and zeros
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = grp + r * 8;
    if (tig == 0) {
      s_max[warp][row] = row_max[r];
      s_sum[warp][row] = row_sum[r];
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      s_out[warp][row][n * 8 + tig * 2] = acc[n][r * 2];
      s_out[warp][row][n * 8 + tig * 2 + 1] = acc[n][r * 2 + 1];
    }
  }
  __syncthreads();

  for (int i = threadIdx.x; i < group_size * kHeadDim; i += kWarps * 32) {
    const int row = i / kHeadDim, d = i % kHeadDim;
    float m = s_max[0][row];
#pragma unroll
    for (int w = 1; w < kWarps; ++w) m = fmaxf(m, s_max[w][row]);
    float total = 0.f, sum = 0.f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float weight = exp2f((s_max[w][row] - m) * scale_log2);
      total += weight * s_out[w][row][d];
      sum += weight * s_sum[w][row];
    }
    out[(static_cast<int64_t>(seq) * num_heads + head0 + row) * kHeadDim + d] = __float2half(total / sum);
  }
}

template __global__ void paged_gqa_decode<64, 16, 2>(__half*, const __half*, const __half*, const __half*, const int*,
                                                     const int*, int, int, int, float);

}  // namespace serve
