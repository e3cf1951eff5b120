/*
 * Decoding attention over a paged KV cache for grouped queries.
 *
 * All query heads of one KV head are the rows of one 16-row tile, so that tensor cores have something to do even
 * though every sequence has a single query. One thread block per (KV head, sequence), one warp per 16 tokens of a
 * page's tokens; every page has BLOCK_SIZE tokens.
 *
 *   out          [num_seqs, num_heads, HEAD_SIZE]
 *   query        [num_seqs, num_heads, HEAD_SIZE]
 *   k_cache      [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
 *   v_cache      [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
 *   block_tables [num_seqs, max_num_blocks_per_seq]
 *   context_lens [num_seqs]
 */
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cfloat>
#include <cuda_fp16.h>
#include <mma.h>

#define WARP_SIZE 32
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define DIVIDE_ROUND_UP(a, b) (((a) + (b) - 1) / (b))

namespace vllm {

constexpr int TILE = 16;

template <int HEAD_SIZE, int BLOCK_SIZE>
__global__ void paged_attention_gqa_kernel(
    half* __restrict__ out,               // [num_seqs, num_heads, head_size]
    const half* __restrict__ q,           // [num_seqs, num_heads, head_size]
    const half* __restrict__ k_cache,     // [num_blocks, block_size, num_kv_heads, head_size]
    const half* __restrict__ v_cache,     // [num_blocks, block_size, num_kv_heads, head_size]
    const int num_kv_heads,
    const int queries_per_kv,             // at most 16
    const float scale,
    const int* __restrict__ block_tables,  // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens,  // [num_seqs]
    const int max_num_blocks_per_seq) {
  using namespace nvcuda;
  constexpr int NUM_WARPS = BLOCK_SIZE / TILE;
  constexpr int NUM_THREADS = NUM_WARPS * WARP_SIZE;
  constexpr int LD = HEAD_SIZE + 8;
  constexpr int LD_S = BLOCK_SIZE + 8;

  __shared__ __align__(32) half q_s[TILE * LD];
  __shared__ __align__(32) half kv_s[BLOCK_SIZE * LD];
  __shared__ __align__(32) float logits[TILE * LD_S];
  __shared__ __align__(32) half probs[TILE * LD_S];
  __shared__ __align__(32) float o_s[TILE * LD];
  __shared__ float row_max[TILE], row_sum[TILE], row_scale[TILE];

  const int kv_head = blockIdx.x;
  const int seq = blockIdx.y;
  const int num_heads = num_kv_heads * queries_per_kv;
  const int context_len = context_lens[seq];
  const int num_context_blocks = DIVIDE_ROUND_UP(context_len, BLOCK_SIZE);
  const int warp = threadIdx.x / WARP_SIZE;

  for (int i = threadIdx.x; i < TILE * HEAD_SIZE; i += NUM_THREADS) {
    const int r = i / HEAD_SIZE, c = i % HEAD_SIZE;
    const int head = kv_head * queries_per_kv + r;
    q_s[r * LD + c] = r < queries_per_kv ? q[(seq * num_heads + head) * HEAD_SIZE + c] : __float2half(0.f);
    o_s[r * LD + c] = 0.f;
  }
  if (threadIdx.x < TILE) {
    row_max[threadIdx.x] = -FLT_MAX;
    row_sum[threadIdx.x] = 0.f;
  }

  const int* block_table = block_tables + seq * max_num_blocks_per_seq;
  for (int block_idx = 0; block_idx < num_context_blocks; ++block_idx) {
    const int physical_block = block_table[block_idx];
    const int kv_stride = num_kv_heads * HEAD_SIZE;
    const int kv_offset = physical_block * BLOCK_SIZE * kv_stride + kv_head * HEAD_SIZE;
    const int tokens = MIN(BLOCK_SIZE, context_len - block_idx * BLOCK_SIZE);

    // keys of this page; nothing is read behind the last token
    __syncthreads();
    for (int i = threadIdx.x; i < BLOCK_SIZE * HEAD_SIZE; i += NUM_THREADS) {
      const int t = i / HEAD_SIZE, c = i % HEAD_SIZE;
      kv_s[t * LD + c] = t < tokens ? k_cache[kv_offset + t * kv_stride + c] : __float2half(0.f);
    }
    __syncthreads();

    // logits: each warp 16 tokens
    {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
      for (int c = 0; c < HEAD_SIZE; c += TILE) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kf;
        wmma::load_matrix_sync(qf, q_s + c, LD);
        wmma::load_matrix_sync(kf, kv_s + warp * TILE * LD + c, LD);
        wmma::mma_sync(s, qf, kf, s);
      }
      wmma::store_matrix_sync(logits + warp * TILE, s, LD_S, wmma::mem_row_major);
    }
    __syncthreads();

    // online softmax, one thread per query head; meanwhile the others begin to fetch the values
    if (threadIdx.x < TILE) {
      float* row = logits + threadIdx.x * LD_S;
      float m = row_max[threadIdx.x];
      for (int t = 0; t < tokens; ++t) m = MAX(m, row[t] * scale);
      float sum = 0.f;
      for (int t = 0; t < BLOCK_SIZE; ++t) {
        const float p = t < tokens ? __expf(row[t] * scale - m) : 0.f;
        probs[threadIdx.x * LD_S + t] = __float2half(p);
        sum += p;
      }
      const float correction = __expf(row_max[threadIdx.x] - m);
      row_sum[threadIdx.x] = row_sum[threadIdx.x] * correction + sum;
      row_scale[threadIdx.x] = correction;
      row_max[threadIdx.x] = m;
    }
    for (int i = threadIdx.x; i < BLOCK_SIZE * HEAD_SIZE; i += NUM_THREADS) {
      const int t = i / HEAD_SIZE, c = i % HEAD_SIZE;
      kv_s[t * LD + c] = t < tokens ? v_cache[kv_offset + t * kv_stride + c] : __float2half(0.f);
    }
    __syncthreads();

    for (int i = threadIdx.x; i < TILE * HEAD_SIZE; i += NUM_THREADS) {
      o_s[i / HEAD_SIZE * LD + i % HEAD_SIZE] *= row_scale[i / HEAD_SIZE];
    }
    __syncthreads();

    for (int c = warp * TILE; c < HEAD_SIZE; c += NUM_WARPS * TILE) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(o, o_s + c, LD, wmma::mem_row_major);
      for (int t = 0; t < BLOCK_SIZE; t += TILE) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vf;
        wmma::load_matrix_sync(pf, probs + t, LD_S);
        wmma::load_matrix_sync(vf, kv_s + t * LD + c, LD);
        wmma::mma_sync(o, pf, vf, o);
      }
      wmma::store_matrix_sync(o_s + c, o, LD, wmma::mem_row_major);
    }
  }
  __syncthreads();

  for (int i = threadIdx.x; i < queries_per_kv * HEAD_SIZE; i += NUM_THREADS) {
    const int r = i / HEAD_SIZE, c = i % HEAD_SIZE;
    const int head = kv_head * queries_per_kv + r;
    out[(seq * num_heads + head) * HEAD_SIZE + c] = __float2half(o_s[r * LD + c] / row_sum[r]);
  }
}

}  // namespace vllm

#define LAUNCH_PAGED_ATTENTION(HEAD_SIZE)                                                           \
  vllm::paged_attention_gqa_kernel<HEAD_SIZE, 32><<<grid, block, 0, stream>>>(                      \
      out_ptr, query_ptr, k_ptr, v_ptr, num_kv_heads, num_heads / num_kv_heads, scale, tables_ptr,  \
      lens_ptr, max_num_blocks_per_seq);

void paged_attention_gqa(torch::Tensor& out, torch::Tensor& query, torch::Tensor& k_cache, torch::Tensor& v_cache,
                         double scale_, torch::Tensor& block_tables, torch::Tensor& context_lens) {
  const int num_seqs = query.size(0);
  const int num_heads = query.size(1);
  const int head_size = query.size(2);
  const int num_kv_heads = k_cache.size(2);
  const int max_num_blocks_per_seq = block_tables.size(1);
  const float scale = static_cast<float>(scale_);
  TORCH_CHECK(num_heads % num_kv_heads == 0 && num_heads / num_kv_heads <= 16);

  half* out_ptr = reinterpret_cast<half*>(out.data_ptr());
  half* query_ptr = reinterpret_cast<half*>(query.data_ptr());
  half* k_ptr = reinterpret_cast<half*>(k_cache.data_ptr());
  half* v_ptr = reinterpret_cast<half*>(v_cache.data_ptr());
  int* tables_ptr = block_tables.data_ptr<int>();
  int* lens_ptr = context_lens.data_ptr<int>();

  dim3 grid(num_kv_heads, num_seqs);
  dim3 block(32 / 16 * WARP_SIZE);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(query));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  switch (head_size) {
    case 32: LAUNCH_PAGED_ATTENTION(32); break;
    case 64: LAUNCH_PAGED_ATTENTION(64); break;
    case 128: LAUNCH_PAGED_ATTENTION(128); break;
    default: TORCH_CHECK(false, "Unsupported head size: ", head_size);
  }
}
