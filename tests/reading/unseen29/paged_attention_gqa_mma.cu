/*
 * Adapted from the paged attention kernels; decode step for grouped query attention.
 *
 * One thread block handles all query heads of one KV head of one sequence, so that the
 * KV cache is read only once per group. The (up to 16) query heads are the M dimension of
 * the mma instructions.
 */
#include <cuda_fp16.h>
#include <float.h>
#include <stdint.h>

#define WARP_SIZE 32
#define DIVIDE_ROUND_UP(a, b) (((a) + (b)-1) / (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

namespace vllm {

constexpr int MAX_GROUP = 16;   // rows of the mma tile
constexpr int BLOCK_SIZE = 16;  // tokens per KV cache block
constexpr int X = 8;            // 16 bytes / sizeof(half)
constexpr float LOG2E = 1.4426950408889634f;

inline __device__ void mma_16816(float c[4], const uint32_t a[4], const uint32_t b0, const uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

inline __device__ uint32_t float2_to_half2(float lo, float hi) {
  __half2 h = __floats2half2_rn(lo, hi);
  return *reinterpret_cast<uint32_t*>(&h);
}

// The last block of a sequence may contain garbage (even NaN) behind the context, and 0 * NaN = NaN
inline __device__ uint32_t mask_pair(uint32_t v, int token, int context_len) {
  if (token >= context_len) return 0u;
  if (token + 1 >= context_len) return v & 0x0000ffffu;
  return v;
}

// Grid: (num_kv_heads, num_seqs). Block: NUM_THREADS.
template <int HEAD_SIZE, int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS) paged_attention_gqa_kernel(
    half* __restrict__ out,                // [num_seqs, num_heads, head_size]
    const half* __restrict__ q,            // [num_seqs, num_heads, head_size]
    const half* __restrict__ k_cache,      // [num_blocks, num_kv_heads, head_size/x, block_size, x]
    const half* __restrict__ v_cache,      // [num_blocks, num_kv_heads, head_size, block_size]
    const int group_size,                  // num_heads / num_kv_heads, <= 16
    const float scale,
    const int* __restrict__ block_tables,  // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens,  // [num_seqs]
    const int max_num_blocks_per_seq,
    const int q_stride, const int kv_block_stride, const int kv_head_stride) {
  constexpr int NUM_WARPS = NUM_THREADS / WARP_SIZE;
  constexpr int K_STEPS = HEAD_SIZE / 16;
  constexpr int D_TILES = HEAD_SIZE / 8;

  __shared__ float out_smem[NUM_WARPS][MAX_GROUP][HEAD_SIZE];
  __shared__ float max_smem[NUM_WARPS][MAX_GROUP];
  __shared__ float sum_smem[NUM_WARPS][MAX_GROUP];

  const int kv_head_idx = blockIdx.x;
  const int num_kv_heads = gridDim.x;
  const int seq_idx = blockIdx.y;
  const int context_len = context_lens[seq_idx];
  if (context_len <= 0) return;
  const int num_blocks = DIVIDE_ROUND_UP(context_len, BLOCK_SIZE);
  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;

  const int warp_idx = threadIdx.x / WARP_SIZE;
  const int lane = threadIdx.x % WARP_SIZE;
  const int row = lane / 4;  // and row + 8
  const int pair = lane % 4 * 2;

  // Query heads of the group, rows behind the group are zero.
  const half* q_ptr = q + (int64_t)seq_idx * q_stride + (int64_t)kv_head_idx * group_size * HEAD_SIZE;
  uint32_t q_frag[K_STEPS][4];
#pragma unroll
  for (int i = 0; i < K_STEPS; i++) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int r = row + (j & 1) * 8;
      const int d = i * 16 + pair + (j >> 1) * 8;
      q_frag[i][j] = r < group_size ? *reinterpret_cast<const uint32_t*>(q_ptr + r * HEAD_SIZE + d) : 0u;
    }
  }

  float o[D_TILES][4];
#pragma unroll
  for (int i = 0; i < D_TILES; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.f;
  float qk_max[2] = {-FLT_MAX, -FLT_MAX};
  float exp_sum[2] = {0.f, 0.f};
  const float scale_log2 = scale * LOG2E;

  for (int block_idx = warp_idx; block_idx < num_blocks; block_idx += NUM_WARPS) {
    const int64_t physical_block = block_table[block_idx];
    const half* k_ptr = k_cache + physical_block * kv_block_stride + kv_head_idx * kv_head_stride;
    const half* v_ptr = v_cache + physical_block * kv_block_stride + kv_head_idx * kv_head_stride;

    // S = Q K^T, 16 heads x 16 tokens
    float qk[2][4] = {{0.f, 0.f, 0.f, 0.f}, {0.f, 0.f, 0.f, 0.f}};
#pragma unroll
    for (int i = 0; i < K_STEPS; i++) {
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const int token = n * 8 + row;
        const uint32_t b0 = *reinterpret_cast<const uint32_t*>(k_ptr + ((2 * i) * BLOCK_SIZE + token) * X + pair);
        const uint32_t b1 = *reinterpret_cast<const uint32_t*>(k_ptr + ((2 * i + 1) * BLOCK_SIZE + token) * X + pair);
        mma_16816(qk[n], q_frag[i], b0, b1);
      }
    }

    const int first_token = block_idx * BLOCK_SIZE;
    float correction[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      float m = qk_max[h];
#pragma unroll
      for (int n = 0; n < 2; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          const bool valid = first_token + n * 8 + pair + e < context_len;
          qk[n][h * 2 + e] = valid ? qk[n][h * 2 + e] * scale_log2 : -FLT_MAX;
          m = fmaxf(m, qk[n][h * 2 + e]);
        }
      }
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 1));
      m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, 2));
      correction[h] = exp2f(qk_max[h] - m);
      qk_max[h] = m;
      exp_sum[h] *= correction[h];
#pragma unroll
      for (int n = 0; n < 2; n++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
          qk[n][h * 2 + e] = exp2f(qk[n][h * 2 + e] - m);
          exp_sum[h] += qk[n][h * 2 + e];
        }
      }
    }

    // O = O * correction + P V
    const uint32_t p[4] = {float2_to_half2(qk[0][0], qk[0][1]), float2_to_half2(qk[0][2], qk[0][3]),
                           float2_to_half2(qk[1][0], qk[1][1]), float2_to_half2(qk[1][2], qk[1][3])};
#pragma unroll
    for (int i = 0; i < D_TILES; i++) {
      const half* v_row = v_ptr + (i * 8 + row) * BLOCK_SIZE;
      uint32_t b0 = *reinterpret_cast<const uint32_t*>(v_row + pair);
      uint32_t b1 = *reinterpret_cast<const uint32_t*>(v_row + pair + 8);
      if (block_idx == num_blocks - 1) {
        b0 = mask_pair(b0, first_token + pair, context_len);
        b1 = mask_pair(b1, first_token + pair + 8, context_len);
      }
      o[i][0] *= correction[0];
      o[i][1] *= correction[0];
      o[i][2] *= correction[1];
      o[i][3] *= correction[1];
      mma_16816(o[i], p, b0, b1);
    }
  }

  // Merge the warps.
#pragma unroll
  for (int h = 0; h < 2; h++) {
    exp_sum[h] += __shfl_xor_sync(0xffffffff, exp_sum[h], 1);
    exp_sum[h] += __shfl_xor_sync(0xffffffff, exp_sum[h], 2);
    if (pair == 0) {
      max_smem[warp_idx][row + h * 8] = qk_max[h];
      sum_smem[warp_idx][row + h * 8] = exp_sum[h];
    }
#pragma unroll
    for (int i = 0; i < D_TILES; i++) {
      out_smem[warp_idx][row + h * 8][i * 8 + pair] = o[i][2 * h];
      out_smem[warp_idx][row + h * 8][i * 8 + pair + 1] = o[i][2 * h + 1];
    }
  }
  __syncthreads();

  half* out_ptr = out + ((int64_t)seq_idx * num_kv_heads + kv_head_idx) * group_size * HEAD_SIZE;
  const int used_warps = MIN(NUM_WARPS, num_blocks);
  for (int i = threadIdx.x; i < group_size * HEAD_SIZE; i += NUM_THREADS) {
    const int r = i / HEAD_SIZE;
    const int d = i % HEAD_SIZE;
    float m = -FLT_MAX;
    for (int w = 0; w < used_warps; w++) m = fmaxf(m, max_smem[w][r]);
    float acc = 0.f, sum = 0.f;
    for (int w = 0; w < used_warps; w++) {
      const float f = exp2f(max_smem[w][r] - m);
      acc += f * out_smem[w][r][d];
      sum += f * sum_smem[w][r];
    }
    out_ptr[i] = __float2half(acc / sum);
  }
}

template __global__ void paged_attention_gqa_kernel<64, 128>(half*, const half*, const half*, const half*, const int,
                                                             const float, const int*, const int*, const int, const int,
                                                             const int, const int);
template __global__ void paged_attention_gqa_kernel<128, 64>(half*, const half*, const half*, const half*, const int,
                                                             const float, const int*, const int*, const int, const int,
                                                             const int, const int);

}  // namespace vllm
