// Decode attention with grouped queries over a paged KV cache.
//
//   grid  (num_kv_heads, num_seqs)
//   block 128
//
// All query heads of a KV head are the rows of one m16n8k16 tile, so that keys and values are read once per group.
// Each warp walks over pages of its own; their partial results are combined at the end.
//   q, out    [num_seqs, num_heads, head_dim]
//   k/v cache [num_pages, page_size, num_kv_heads, head_dim]
#include <cuda_fp16.h>

namespace engine {

constexpr int kPageSize = 16;
constexpr int kNumWarps = 4;
constexpr int kNumThreads = kNumWarps * 32;
constexpr int kMaxGroup = 16;
constexpr float kLog2e = 1.4426950408889634f;
#define NEG_INF (-__int_as_float(0x7f800000))

__device__ __forceinline__ unsigned smem_u32(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_16_zfill(void* dst, const void* src, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_u32(dst)), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

__device__ __forceinline__ void cp_async_wait_all() { asm volatile("cp.async.wait_group 0;\n" ::: "memory"); }

__device__ __forceinline__ void ldsm_x4(unsigned (&r)[4], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void ldsm_x4_t(unsigned (&r)[4], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem_u32(p)) : "memory");
}

__device__ __forceinline__ void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned pack_half2(float lo, float hi) {
  const __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<const unsigned*>(&h);
}

template <int HEAD_DIM>
__global__ void __launch_bounds__(kNumThreads)
paged_gqa_decode_kernel(half* __restrict__ out, const half* __restrict__ q,
                        const half* __restrict__ k_cache, const half* __restrict__ v_cache,
                        const int* __restrict__ page_table, const int* __restrict__ context_lens,
                        const int num_heads, const int num_kv_heads,
                        const int max_pages_per_seq, const float scale) {
  constexpr int kPitch = HEAD_DIM + 8;
  constexpr int kVecs = HEAD_DIM / 8;
  __shared__ __align__(16) half s_q[kMaxGroup * kPitch];
  __shared__ __align__(16) half s_v[kNumWarps][kPageSize * kPitch];
  __shared__ float s_max[kNumWarps][kMaxGroup];
  __shared__ float s_sum[kNumWarps][kMaxGroup];
  __shared__ float s_out[kNumWarps][kMaxGroup][HEAD_DIM];

  const int kv_head = blockIdx.x;
  const int seq = blockIdx.y;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int quad_row = lane / 4;
  const int quad_col = lane % 4;
  const int group = num_heads / num_kv_heads;
  const int context_len = context_lens[seq];
  const int num_pages = (context_len + kPageSize - 1) / kPageSize;
  const int* pages = page_table + seq * max_pages_per_seq;
  const int token_stride = num_kv_heads * HEAD_DIM;
  const float scale_log2 = scale * kLog2e;
  const size_t first_head = static_cast<size_t>(seq) * num_heads + kv_head * group;

  for (int i = threadIdx.x; i < kMaxGroup * kVecs; i += kNumThreads) {
    const int row = i / kVecs;
    const int col = i % kVecs * 8;
    uint4 val = make_uint4(0, 0, 0, 0);
    if (row < group) val = *reinterpret_cast<const uint4*>(q + (first_head + row) * HEAD_DIM + col);
    *reinterpret_cast<uint4*>(&s_q[row * kPitch + col]) = val;
  }
  __syncthreads();

  unsigned q_frag[HEAD_DIM / 16][4];
#pragma unroll
  for (int kd = 0; kd < HEAD_DIM / 16; ++kd)
    ldsm_x4(q_frag[kd], &s_q[(lane % 16) * kPitch + kd * 16 + lane / 16 * 8]);

  float acc[HEAD_DIM / 8][4] = {};
  float row_max[2] = {NEG_INF, NEG_INF};
  float row_sum[2] = {0.f, 0.f};
  half* v_tile = s_v[warp];

  for (int page = warp; page < num_pages; page += kNumWarps) {
    const size_t page_base = (static_cast<size_t>(pages[page]) * kPageSize * num_kv_heads + kv_head) * HEAD_DIM;
    for (int i = lane; i < kPageSize * kVecs; i += 32) {
      const int row = i / kVecs;
      const int col = i % kVecs * 8;
      cp_async_16_zfill(&v_tile[row * kPitch + col], v_cache + page_base + row * token_stride + col,
                        page * kPageSize + row < context_len);
    }
    cp_async_commit();

    // S = Q K^T, a pair of a key's elements is one register
    float s[2][4] = {};
#pragma unroll
    for (int nt = 0; nt < 2; ++nt) {
      const half* key = k_cache + page_base + (nt * 8 + quad_row) * token_stride + quad_col * 2;
#pragma unroll
      for (int kd = 0; kd < HEAD_DIM / 16; ++kd) {
        const unsigned b0 = *reinterpret_cast<const unsigned*>(key + kd * 16);
        const unsigned b1 = *reinterpret_cast<const unsigned*>(key + kd * 16 + 8);
        mma_f16(s[nt], q_frag[kd], b0, b1);
      }
    }

#pragma unroll
    for (int nt = 0; nt < 2; ++nt)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = page * kPageSize + nt * 8 + quad_col * 2 + (i & 1);
        s[nt][i] = token >= context_len ? NEG_INF : s[nt][i] * scale_log2;
      }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float tile_max = fmaxf(fmaxf(s[0][2 * r], s[0][2 * r + 1]), fmaxf(s[1][2 * r], s[1][2 * r + 1]));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1));
      tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 2));
      const float new_max = fmaxf(row_max[r], tile_max);
      const float correction = exp2f(row_max[r] - new_max);
      row_max[r] = new_max;
      row_sum[r] *= correction;
#pragma unroll
      for (int dn = 0; dn < HEAD_DIM / 8; ++dn) {
        acc[dn][2 * r] *= correction;
        acc[dn][2 * r + 1] *= correction;
      }
#pragma unroll
      for (int nt = 0; nt < 2; ++nt) {
        s[nt][2 * r] = exp2f(s[nt][2 * r] - new_max);
        s[nt][2 * r + 1] = exp2f(s[nt][2 * r + 1] - new_max);
        row_sum[r] += s[nt][2 * r] + s[nt][2 * r + 1];
      }
    }

    unsigned p_frag[4];
    p_frag[0] = pack_half2(s[0][0], s[0][1]);
    p_frag[1] = pack_half2(s[0][2], s[0][3]);
    p_frag[2] = pack_half2(s[1][0], s[1][1]);
    p_frag[3] = pack_half2(s[1][2], s[1][3]);

    cp_async_wait_all();
    __syncwarp();
#pragma unroll
    for (int dn = 0; dn < HEAD_DIM / 16; ++dn) {
      unsigned v_frag[4];
      ldsm_x4_t(v_frag, &v_tile[(lane & 15) * kPitch + dn * 16 + (lane >> 4) * 8]);
      mma_f16(acc[2 * dn], p_frag, v_frag[0], v_frag[1]);
      mma_f16(acc[2 * dn + 1], p_frag, v_frag[2], v_frag[3]);
    }
    __syncwarp();  // the next page overwrites the values
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 1);
    row_sum[r] += __shfl_xor_sync(0xffffffffu, row_sum[r], 2);
    const int row = quad_row + r * 8;
    if (quad_col == 0) {
      s_max[warp][row] = row_max[r];
      s_sum[warp][row] = row_sum[r];
    }
#pragma unroll
    for (int dn = 0; dn < HEAD_DIM / 8; ++dn) {
      s_out[warp][row][dn * 8 + quad_col * 2] = acc[dn][2 * r];
      s_out[warp][row][dn * 8 + quad_col * 2 + 1] = acc[dn][2 * r + 1];
    }
  }
  __syncthreads();

  // warps without a page have -inf as their maximum and weigh nothing
  for (int i = threadIdx.x; i < group * HEAD_DIM; i += kNumThreads) {
    const int row = i / HEAD_DIM;
    const int col = i % HEAD_DIM;
    float all_max = s_max[0][row];
    for (int w = 1; w < kNumWarps; ++w) all_max = fmaxf(all_max, s_max[w][row]);
    float num = 0.f, den = 0.f;
    for (int w = 0; w < kNumWarps; ++w) {
      const float weight = exp2f(s_max[w][row] - all_max);
      num += weight * s_out[w][row][col];
      den += weight * s_sum[w][row];
    }
    out[(first_head + row) * HEAD_DIM + col] = __float2half(num / den);
  }
}

}  // namespace engine
