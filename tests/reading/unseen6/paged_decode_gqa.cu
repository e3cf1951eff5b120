// Single-query attention over a paged KV cache, grouped query heads.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <float.h>

namespace paged {

template <int HEAD_DIM, int BLOCK_SIZE, int NUM_THREADS>
__global__ void decode_kernel(half* __restrict__ out,             // [num_seqs, num_heads, HEAD_DIM]
                              const half* __restrict__ q,         // [num_seqs, num_heads, HEAD_DIM]
                              const half* __restrict__ k_cache,   // [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM]
                              const half* __restrict__ v_cache,   // [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM]
                              const int* __restrict__ block_tables,  // [num_seqs, max_blocks_per_seq]
                              const int* __restrict__ context_lens,  // [num_seqs]
                              int num_kv_heads, int max_blocks_per_seq, float scale) {
  constexpr int NUM_WARPS = NUM_THREADS / 32;
  extern __shared__ float logits[];
  __shared__ float red[NUM_WARPS];
  const int head = blockIdx.x, num_heads = gridDim.x, seq = blockIdx.y;
  const int kv_head = head / (num_heads / num_kv_heads);
  const int ctx = context_lens[seq];
  const int* table = block_tables + seq * max_blocks_per_seq;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const half* qp = q + (seq * num_heads + head) * HEAD_DIM;

  float local_max = -FLT_MAX;
  for (int t = warp; t < ctx; t += NUM_WARPS) {
    const int phys = table[t / BLOCK_SIZE];
    const half* kp = k_cache + ((phys * BLOCK_SIZE + t % BLOCK_SIZE) * num_kv_heads + kv_head) * HEAD_DIM;
    float dot = 0.f;
    for (int d = lane; d < HEAD_DIM; d += 32) dot += __half2float(qp[d]) * __half2float(kp[d]);
    for (int o = 16; o; o >>= 1) dot += __shfl_xor_sync(0xffffffff, dot, o);
    dot *= scale;
    if (lane == 0) logits[t] = dot;
    local_max = fmaxf(local_max, dot);
  }
  if (lane == 0) red[warp] = local_max;
  __syncthreads();
  float m = red[0];
  for (int w = 1; w < NUM_WARPS; ++w) m = fmaxf(m, red[w]);
  __syncthreads();
  float sum = 0.f;
  for (int t = threadIdx.x; t < ctx; t += NUM_THREADS) {
    float e = __expf(logits[t] - m);
    logits[t] = e;
    sum += e;
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(0xffffffff, sum, o);
  if (lane == 0) red[warp] = sum;
  __syncthreads();
  float total = 0.f;
  for (int w = 0; w < NUM_WARPS; ++w) total += red[w];
  const float inv = 1.f / (total + 1e-6f);
  for (int d = threadIdx.x; d < HEAD_DIM; d += NUM_THREADS) {
    float acc = 0.f;
    for (int t = 0; t < ctx; ++t) {
      const int phys = table[t / BLOCK_SIZE];
      acc += logits[t] *
             __half2float(v_cache[((phys * BLOCK_SIZE + t % BLOCK_SIZE) * num_kv_heads + kv_head) * HEAD_DIM + d]);
    }
    out[(seq * num_heads + head) * HEAD_DIM + d] = __float2half(acc * inv);
  }
}

}  // namespace paged

void paged_attention_decode(half* out, const half* q, const half* k_cache, const half* v_cache, const int* block_tables,
                            const int* context_lens, int num_seqs, int num_heads, int num_kv_heads, int head_dim,
                            int max_blocks_per_seq, int max_context_len, float scale, cudaStream_t stream) {
  dim3 grid(num_heads, num_seqs);
  size_t smem = max_context_len * sizeof(float);
  switch (head_dim) {
    case 64:
      paged::decode_kernel<64, 16, 128><<<grid, 128, smem, stream>>>(out, q, k_cache, v_cache, block_tables, context_lens,
                                                                     num_kv_heads, max_blocks_per_seq, scale);
      break;
    case 128:
      paged::decode_kernel<128, 16, 128><<<grid, 128, smem, stream>>>(out, q, k_cache, v_cache, block_tables, context_lens,
                                                                      num_kv_heads, max_blocks_per_seq, scale);
      break;
  }
}
