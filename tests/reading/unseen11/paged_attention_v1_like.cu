// Decode attention over a paged KV cache; one block per (head, sequence). Cache layout: [num_blocks, num_kv_heads, block_size, head_size]
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>
#include <cfloat>

#define DIVIDE_ROUND_UP(a, b) (((a) + (b)-1) / (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

namespace vllm_like {

template <int NUM_WARPS>
__device__ float block_all_reduce(float v, bool is_max, float* red) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 16; m >= 1; m /= 2) {
    const float o = __shfl_xor_sync(0xffffffff, v, m);
    v = is_max ? fmaxf(v, o) : v + o;
  }
  __syncthreads();
  if (lane == 0) red[warp] = v;
  __syncthreads();
  v = red[0];
#pragma unroll
  for (int i = 1; i < NUM_WARPS; ++i) v = is_max ? fmaxf(v, red[i]) : v + red[i];
  return v;
}

template <typename scalar_t, int HEAD_SIZE, int BLOCK_SIZE, int NUM_THREADS>
__global__ void paged_attention_v1_kernel(
    scalar_t* __restrict__ out,            // [num_seqs, num_heads, head_size]
    const scalar_t* __restrict__ q,        // [num_seqs, num_heads, head_size]
    const scalar_t* __restrict__ k_cache,  // [num_blocks, num_kv_heads, block_size, head_size]
    const scalar_t* __restrict__ v_cache,  // [num_blocks, num_kv_heads, block_size, head_size]
    const int num_kv_heads, const float scale,
    const int* __restrict__ block_tables,  // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ seq_lens,      // [num_seqs]
    const int max_num_blocks_per_seq) {
  extern __shared__ float logits[];
  __shared__ float red[NUM_THREADS / 32];
  __shared__ float q_vec[HEAD_SIZE];
  const int seq_idx = blockIdx.y, head_idx = blockIdx.x, num_heads = gridDim.x;
  const int kv_head_idx = head_idx / (num_heads / num_kv_heads);
  const int seq_len = seq_lens[seq_idx];
  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;

  const scalar_t* q_ptr = q + ((int64_t)seq_idx * num_heads + head_idx) * HEAD_SIZE;
  for (int i = threadIdx.x; i < HEAD_SIZE; i += NUM_THREADS) q_vec[i] = static_cast<float>(q_ptr[i]) * scale;
  __syncthreads();

  float qk_max = -FLT_MAX;
  for (int t = threadIdx.x; t < seq_len; t += NUM_THREADS) {
    const int64_t physical = block_table[t / BLOCK_SIZE];
    const scalar_t* k_ptr = k_cache + ((physical * num_kv_heads + kv_head_idx) * BLOCK_SIZE + t % BLOCK_SIZE) * HEAD_SIZE;
    float dot = 0.f;
    for (int d = 0; d < HEAD_SIZE; ++d) dot += q_vec[d] * static_cast<float>(k_ptr[d]);
    logits[t] = dot;
    qk_max = fmaxf(qk_max, dot);
  }
  qk_max = block_all_reduce<NUM_THREADS / 32>(qk_max, true, red);
  float sum = 0.f;
  for (int t = threadIdx.x; t < seq_len; t += NUM_THREADS) {
    const float e = __expf(logits[t] - qk_max);
    logits[t] = e;
    sum += e;
  }
  sum = block_all_reduce<NUM_THREADS / 32>(sum, false, red);
  const float inv_sum = __fdividef(1.f, sum + 1e-6f);
  __syncthreads();

  for (int d = threadIdx.x; d < HEAD_SIZE; d += NUM_THREADS) {
    float acc = 0.f;
    for (int t = 0; t < seq_len; ++t) {
      const int64_t physical = block_table[t / BLOCK_SIZE];
      acc += logits[t] * static_cast<float>(v_cache[((physical * num_kv_heads + kv_head_idx) * BLOCK_SIZE + t % BLOCK_SIZE) * HEAD_SIZE + d]);
    }
    out[((int64_t)seq_idx * num_heads + head_idx) * HEAD_SIZE + d] = static_cast<scalar_t>(acc * inv_sum);
  }
}

}  // namespace vllm_like

#define LAUNCH_PAGED_ATTENTION_V1(HEAD_SIZE)                                                                        \
  vllm_like::paged_attention_v1_kernel<half, HEAD_SIZE, 16, 128><<<grid, block, shared_mem_size, stream>>>(         \
      reinterpret_cast<half*>(out.data_ptr()), reinterpret_cast<const half*>(query.data_ptr()),                     \
      reinterpret_cast<const half*>(key_cache.data_ptr()), reinterpret_cast<const half*>(value_cache.data_ptr()),   \
      num_kv_heads, scale, block_tables.data_ptr<int>(), seq_lens.data_ptr<int>(), max_num_blocks_per_seq)

void paged_attention_v1(torch::Tensor& out, torch::Tensor& query, torch::Tensor& key_cache, torch::Tensor& value_cache,
                        int64_t num_kv_heads, double scale, torch::Tensor& block_tables, torch::Tensor& seq_lens,
                        int64_t block_size, int64_t max_seq_len) {
  TORCH_CHECK(block_size == 16, "unsupported block size ", block_size);
  int num_seqs = query.size(0);
  int num_heads = query.size(1);
  int head_size = query.size(2);
  int max_num_blocks_per_seq = block_tables.size(1);
  int padded_max_seq_len = DIVIDE_ROUND_UP(max_seq_len, block_size) * block_size;
  int shared_mem_size = padded_max_seq_len * sizeof(float);
  dim3 grid(num_heads, num_seqs, 1);
  dim3 block(128);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  switch (head_size) {
    case 64:
      LAUNCH_PAGED_ATTENTION_V1(64);
      break;
    case 128:
      LAUNCH_PAGED_ATTENTION_V1(128);
      break;
    default:
      TORCH_CHECK(false, "Unsupported head size: ", head_size);
  }
}
