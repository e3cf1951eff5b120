// Single-token decoding over a paged KV cache, grouped queries, ALiBi.
// One thread block per (kv head, sequence); its warps take the sequence's cache blocks in turn and are merged at the end.
//   k_cache [num_blocks, num_kv_heads, HEAD_SIZE / x, BLOCK_SIZE, x]      x = 8 halves = 16 bytes
//   v_cache [num_blocks, num_kv_heads, HEAD_SIZE, BLOCK_SIZE]
// The query heads of the group are the (up to 16) rows of an m16n8k16 product.
#include <cuda_fp16.h>
#include <float.h>
#include <stdint.h>

namespace vllm_like {

constexpr int X = 16 / sizeof(half);

inline __device__ uint32_t half2_bits(float a, float b) {
  half2 h = __floats2half2_rn(a, b);
  return *reinterpret_cast<uint32_t*>(&h);
}

inline __device__ uint32_t ld32(const half* ptr) { return *reinterpret_cast<const uint32_t*>(ptr); }

inline __device__ void mma_m16n8k16(float* d, const uint32_t* a, const uint32_t b0, const uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// over the four lanes that share a row
inline __device__ float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
inline __device__ float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

template <int HEAD_SIZE, int BLOCK_SIZE, int NUM_WARPS>
__global__ void paged_attention_gqa_kernel(
    half* __restrict__ out,             // [num_seqs, num_heads, head_size]
    const half* __restrict__ q,         // [num_seqs, num_heads, head_size], rows of q_stride
    const half* __restrict__ k_cache,
    const half* __restrict__ v_cache,
    const int num_kv_heads,
    const float scale,
    const int* __restrict__ block_tables,   // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens,   // [num_seqs]
    const int max_num_blocks_per_seq,
    const float* __restrict__ alibi_slopes,
    const int q_stride,
    const int num_heads) {
  static_assert(BLOCK_SIZE == 16, "a cache block is one step of the second product");
  __shared__ float shared_m[NUM_WARPS][16];
  __shared__ float shared_l[NUM_WARPS][16];
  __shared__ float shared_acc[NUM_WARPS][16][HEAD_SIZE + 2];

  const int kv_head_idx = blockIdx.x;
  const int seq_idx = blockIdx.y;
  const int warp_idx = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int group_id = lane / 4;
  const int in_group = lane % 4;

  const int context_len = context_lens[seq_idx];
  const int num_context_blocks = (context_len + BLOCK_SIZE - 1) / BLOCK_SIZE;
  const int queries_per_kv = num_heads / num_kv_heads;
  const int first_head = kv_head_idx * queries_per_kv;

  // queries: rows group_id and group_id + 8
  uint32_t q_frag[HEAD_SIZE / 16][4];
  const half* q_ptr = q + (int64_t)seq_idx * q_stride + first_head * HEAD_SIZE;
#pragma unroll
  for (int i = 0; i < HEAD_SIZE / 16; i++) {
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int row = group_id + (r % 2) * 8;
      const int col = i * 16 + in_group * 2 + (r / 2) * 8;
      q_frag[i][r] = row < queries_per_kv ? ld32(q_ptr + row * HEAD_SIZE + col) : 0u;
    }
  }
  float slope[2];
  for (int r = 0; r < 2; r++) {
    const int row = group_id + r * 8;
    slope[r] = row < queries_per_kv ? alibi_slopes[first_head + row] : 0.f;
  }

  float row_m[2] = {-FLT_MAX, -FLT_MAX};
  float row_l[2] = {0.f, 0.f};
  float acc[HEAD_SIZE / 8][4] = {};

  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;
  for (int block_idx = warp_idx; block_idx < num_context_blocks; block_idx += NUM_WARPS) {
    const int64_t physical_block = block_table[block_idx];
    const int64_t cache_offset = (physical_block * num_kv_heads + kv_head_idx) * HEAD_SIZE * BLOCK_SIZE;
    const half* k_ptr = k_cache + cache_offset;
    const half* v_ptr = v_cache + cache_offset;

    float qk[2][4] = {};
#pragma unroll
    for (int i = 0; i < HEAD_SIZE / 16; i++) {
#pragma unroll
      for (int tile = 0; tile < 2; tile++) {
        const int token = tile * 8 + group_id;
        const half* at = k_ptr + (i * 2) * BLOCK_SIZE * X + token * X + in_group * 2;
        mma_m16n8k16(qk[tile], q_frag[i], ld32(at), ld32(at + BLOCK_SIZE * X));
      }
    }

#pragma unroll
    for (int r = 0; r < 2; r++) {
      float block_max = -FLT_MAX;
      for (int e = 0; e < 4; e++) {
        const int token_idx = block_idx * BLOCK_SIZE + (e / 2) * 8 + in_group * 2 + e % 2;
        float& s = qk[e / 2][r * 2 + e % 2];
        s = s * scale + slope[r] * (token_idx - context_len + 1);
        s = token_idx < context_len ? s : -FLT_MAX;
        block_max = fmaxf(block_max, s);
      }
      const float new_m = fmaxf(row_m[r], quad_max(block_max));
      const float rescale = __expf(row_m[r] - new_m);
      float block_sum = 0.f;
      for (int e = 0; e < 4; e++) {
        float& s = qk[e / 2][r * 2 + e % 2];
        s = __expf(s - new_m);
        block_sum += s;
      }
      row_l[r] = row_l[r] * rescale + quad_sum(block_sum);
      row_m[r] = new_m;
      for (int i = 0; i < HEAD_SIZE / 8; i++) {
        acc[i][r * 2] *= rescale;
        acc[i][r * 2 + 1] *= rescale;
      }
    }

    uint32_t p_frag[4];
    p_frag[0] = half2_bits(qk[0][0], qk[0][1]);
    p_frag[1] = half2_bits(qk[0][2], qk[0][3]);
    p_frag[2] = half2_bits(qk[1][0], qk[1][1]);
    p_frag[3] = half2_bits(qk[1][2], qk[1][3]);
#pragma unroll
    for (int i = 0; i < HEAD_SIZE / 8; i++) {
      const half* at = v_ptr + (i * 8 + group_id) * BLOCK_SIZE + in_group * 2;
      mma_m16n8k16(acc[i], p_frag, ld32(at), ld32(at + 8));
    }
  }

  // merge the warps
  for (int r = 0; r < 2; r++) {
    const int row = group_id + r * 8;
    if (in_group == 0) {
      shared_m[warp_idx][row] = row_m[r];
      shared_l[warp_idx][row] = row_l[r];
    }
    for (int i = 0; i < HEAD_SIZE / 8; i++) {
      shared_acc[warp_idx][row][i * 8 + in_group * 2] = acc[i][r * 2];
      shared_acc[warp_idx][row][i * 8 + in_group * 2 + 1] = acc[i][r * 2 + 1];
    }
  }
  __syncthreads();

  half* out_ptr = out + ((int64_t)seq_idx * num_heads + first_head) * HEAD_SIZE;
  for (int i = threadIdx.x; i < queries_per_kv * HEAD_SIZE; i += NUM_WARPS * 32) {
    const int row = i / HEAD_SIZE;
    const int col = i % HEAD_SIZE;
    float m = -FLT_MAX;
    for (int w = 0; w < NUM_WARPS; w++) m = fmaxf(m, shared_m[w][row]);
    float numerator = 0.f, denominator = 0.f;
    for (int w = 0; w < NUM_WARPS; w++) {
      const float f = __expf(shared_m[w][row] - m);
      numerator += f * shared_acc[w][row][col];
      denominator += f * shared_l[w][row];
    }
    out_ptr[i] = __float2half(numerator / denominator);
  }
}

template __global__ void paged_attention_gqa_kernel<64, 16, 4>(half*, const half*, const half*, const half*, int, float,
                                                               const int*, const int*, int, const float*, int, int);

}  // namespace vllm_like
