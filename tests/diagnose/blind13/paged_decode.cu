// Decode step of paged attention with grouped query heads.
// grid: (num_kv_heads, num_seqs). The query heads that share a KV head are the rows of the MMA tile (at most 16);
// the warps take turns at the blocks of the cache and are merged at the end.
#include <cuda_fp16.h>
#include <mma.h>
#include <cfloat>
#include <cstdint>

namespace vllm_like {

using namespace nvcuda;

constexpr int NUM_WARPS = 4;
constexpr int NUM_THREADS = NUM_WARPS * 32;

template <int HEAD_SIZE, int BLOCK_SIZE>
__global__ void paged_attention_decode_kernel(
    half* __restrict__ out,                // [num_seqs, num_heads, head_size]
    const half* __restrict__ q,            // [num_seqs, num_heads, head_size]
    const half* __restrict__ k_cache,      // [num_blocks, num_kv_heads, block_size, head_size]
    const half* __restrict__ v_cache,      // [num_blocks, num_kv_heads, block_size, head_size]
    const int num_heads, const int num_kv_heads, const float scale,
    const int* __restrict__ block_tables,  // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens,  // [num_seqs]
    const int max_num_blocks_per_seq) {
  static_assert(BLOCK_SIZE == 16, "one tile per block");
  const int seq_idx = blockIdx.y;
  const int kv_head_idx = blockIdx.x;
  const int warp_idx = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int group_size = num_heads / num_kv_heads;
  const int context_len = context_lens[seq_idx];
  const int num_context_blocks = (context_len + BLOCK_SIZE - 1) / BLOCK_SIZE;
  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;

  __shared__ __align__(32) half q_smem[16 * HEAD_SIZE];
  __shared__ __align__(32) float logits[NUM_WARPS][16 * 16];
  __shared__ __align__(32) half probs[NUM_WARPS][16 * 16];
  __shared__ __align__(32) float acc[NUM_WARPS][16 * HEAD_SIZE];
  __shared__ float max_smem[NUM_WARPS][16], sum_smem[NUM_WARPS][16];

  const half* q_ptr = q + (seq_idx * num_heads + kv_head_idx * group_size) * HEAD_SIZE;
  for (int i = threadIdx.x; i < 16 * HEAD_SIZE; i += NUM_THREADS) {
    q_smem[i] = i / HEAD_SIZE < group_size ? q_ptr[i] : __float2half(0.f);
  }
  for (int i = lane; i < 16 * HEAD_SIZE; i += 32) acc[warp_idx][i] = 0.f;
  __syncthreads();

  // two lanes per row
  const int row = lane / 2, first = lane % 2 * 8;
  float qk_max = -FLT_MAX, exp_sum = 0.f;

  for (int block_idx = warp_idx; block_idx < num_context_blocks; block_idx += NUM_WARPS) {
    const int64_t physical_block = block_table[block_idx];
    const int64_t offset = (physical_block * num_kv_heads + kv_head_idx) * BLOCK_SIZE * HEAD_SIZE;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
    wmma::fill_fragment(s, 0.f);
#pragma unroll
    for (int d = 0; d < HEAD_SIZE; d += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_frag;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_frag;
      wmma::load_matrix_sync(q_frag, q_smem + d, HEAD_SIZE);
      wmma::load_matrix_sync(k_frag, k_cache + offset + d, HEAD_SIZE);
      wmma::mma_sync(s, q_frag, k_frag, s);
    }
    wmma::store_matrix_sync(logits[warp_idx], s, 16, wmma::mem_row_major);
    __syncwarp();

    float qk[8];
    float block_max = -FLT_MAX;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int token_idx = block_idx * BLOCK_SIZE + first + i;
      qk[i] = token_idx < context_len ? scale * logits[warp_idx][row * 16 + first + i] : -FLT_MAX;
      block_max = fmaxf(block_max, qk[i]);
    }
    block_max = fmaxf(block_max, __shfl_xor_sync(0xffffffffu, block_max, 1));
    const float new_max = fmaxf(qk_max, block_max);
    const float rescale = __expf(qk_max - new_max);
    float block_sum = 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float p = __expf(qk[i] - new_max);
      probs[warp_idx][row * 16 + first + i] = __float2half(p);
      block_sum += p;
    }
    block_sum += __shfl_xor_sync(0xffffffffu, block_sum, 1);
    exp_sum = exp_sum * rescale + block_sum;
    qk_max = new_max;
    for (int d = lane % 2; d < HEAD_SIZE; d += 2) acc[warp_idx][row * HEAD_SIZE + d] *= rescale;
    __syncwarp();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_frag;
    wmma::load_matrix_sync(p_frag, probs[warp_idx], 16);
#pragma unroll
    for (int d = 0; d < HEAD_SIZE; d += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_frag;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(v_frag, v_cache + offset + d, HEAD_SIZE);
      wmma::load_matrix_sync(o, acc[warp_idx] + d, HEAD_SIZE, wmma::mem_row_major);
      wmma::mma_sync(o, p_frag, v_frag, o);
      wmma::store_matrix_sync(acc[warp_idx] + d, o, HEAD_SIZE, wmma::mem_row_major);
    }
    __syncwarp();
  }

  if (lane % 2 == 0) {
    max_smem[warp_idx][row] = qk_max;
    sum_smem[warp_idx][row] = exp_sum;
  }
  __syncthreads();

  // merge what the warps have found
  half* out_ptr = out + (seq_idx * num_heads + kv_head_idx * group_size) * HEAD_SIZE;
  for (int i = threadIdx.x; i < group_size * HEAD_SIZE; i += NUM_THREADS) {
    const int h = i / HEAD_SIZE;
    float m = max_smem[0][h];
    for (int w = 1; w < NUM_WARPS; ++w) m = fmaxf(m, max_smem[w][h]);
    float numerator = 0.f, denominator = 0.f;
    for (int w = 0; w < NUM_WARPS; ++w) {
      const float weight = __expf(max_smem[w][h] - m);
      numerator += weight * acc[w][i];
      denominator += weight * sum_smem[w][h];
    }
    out_ptr[i] = __float2half(__fdividef(numerator, denominator));
  }
}

template __global__ void paged_attention_decode_kernel<64, 16>(half*, const half*, const half*, const half*, int, int,
                                                               float, const int*, const int*, int);

}  // namespace vllm_like
