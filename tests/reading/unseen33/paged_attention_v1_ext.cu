/*
 * Single-query paged attention (decode step), one thread block per (head, sequence).
 *
 *   out         [num_seqs, num_heads, head_size]
 *   q           [num_seqs, num_heads, head_size]
 *   k_cache     [num_blocks, num_kv_heads, head_size / x, block_size, x]   x = 16 / sizeof(scalar_t)
 *   v_cache     [num_blocks, num_kv_heads, head_size, block_size]
 *   block_tables[num_seqs, max_num_blocks_per_seq]
 *   context_lens[num_seqs]                                   every context_len >= 1
 *
 * head_size 64 / 80 / 96 / 128, block_size 16 or 32. The logits of a whole sequence
 * live in shared memory. ALiBi is optional.
 */
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <float.h>
#include <algorithm>

#define WARP_SIZE 32
#define DIVIDE_ROUND_UP(a, b) (((a) + (b)-1) / (b))

namespace paged {

template <int NUM_WARPS>
__device__ float block_sum(float* red_smem, float sum) {
  const int warp = threadIdx.x / WARP_SIZE;
  const int lane = threadIdx.x % WARP_SIZE;
#pragma unroll
  for (int mask = WARP_SIZE / 2; mask >= 1; mask /= 2) {
    sum += __shfl_xor_sync(uint32_t(-1), sum, mask);
  }
  if (lane == 0) red_smem[warp] = sum;
  __syncthreads();
  sum = lane < NUM_WARPS ? red_smem[lane] : 0.f;
#pragma unroll
  for (int mask = NUM_WARPS / 2; mask >= 1; mask /= 2) {
    sum += __shfl_xor_sync(uint32_t(-1), sum, mask);
  }
  return __shfl_sync(uint32_t(-1), sum, 0);
}

template <typename scalar_t, int HEAD_SIZE, int BLOCK_SIZE, int NUM_THREADS>
__global__ void single_query_cached_kv_attention_kernel(
    scalar_t* __restrict__ out,              // [num_seqs, num_heads, head_size]
    const scalar_t* __restrict__ q,          // [num_seqs, num_heads, head_size]
    const scalar_t* __restrict__ k_cache,    // [num_blocks, num_kv_heads, head_size/x, block_size, x]
    const scalar_t* __restrict__ v_cache,    // [num_blocks, num_kv_heads, head_size, block_size]
    const float scale,
    const int* __restrict__ block_tables,    // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens,    // [num_seqs]
    const int max_num_blocks_per_seq,
    const float* __restrict__ alibi_slopes,  // [num_heads] or nullptr
    const int num_kv_heads) {
  constexpr int NUM_WARPS = NUM_THREADS / WARP_SIZE;
  constexpr int X = 16 / sizeof(scalar_t);
  static_assert(HEAD_SIZE % X == 0, "");

  const int thread_idx = threadIdx.x;
  const int warp_idx = thread_idx / WARP_SIZE;
  const int lane = thread_idx % WARP_SIZE;

  const int head_idx = blockIdx.x;
  const int num_heads = gridDim.x;
  const int seq_idx = blockIdx.y;
  const int kv_head_idx = head_idx / (num_heads / num_kv_heads);

  const int context_len = context_lens[seq_idx];
  const int num_blocks = DIVIDE_ROUND_UP(context_len, BLOCK_SIZE);
  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;
  const float alibi_slope = alibi_slopes == nullptr ? 0.f : alibi_slopes[head_idx];

  extern __shared__ char shared_mem[];
  float* logits = reinterpret_cast<float*>(shared_mem);  // [num_blocks * BLOCK_SIZE]
  __shared__ float q_smem[HEAD_SIZE];
  __shared__ float red_smem[NUM_WARPS];

  const scalar_t* q_ptr = q + ((int64_t)seq_idx * num_heads + head_idx) * HEAD_SIZE;
  for (int i = thread_idx; i < HEAD_SIZE; i += NUM_THREADS) {
    q_smem[i] = static_cast<float>(q_ptr[i]);
  }
  __syncthreads();

  // ---- q . k: one token per thread; the token of a block is the fastest index but x,
  // so neighbouring threads read neighbouring 16 byte pieces.
  float qk_max = -FLT_MAX;
  for (int token_idx = thread_idx; token_idx < num_blocks * BLOCK_SIZE; token_idx += NUM_THREADS) {
    const bool masked = token_idx >= context_len;
    float qk = 0.f;
    if (!masked) {
      const int64_t physical_block = block_table[token_idx / BLOCK_SIZE];
      const int block_offset = token_idx % BLOCK_SIZE;
      const scalar_t* k_ptr =
          k_cache + (physical_block * num_kv_heads + kv_head_idx) * HEAD_SIZE * BLOCK_SIZE + block_offset * X;
#pragma unroll
      for (int j = 0; j < HEAD_SIZE / X; j++) {
        const uint4 raw = *reinterpret_cast<const uint4*>(k_ptr + j * BLOCK_SIZE * X);
        const scalar_t* kv = reinterpret_cast<const scalar_t*>(&raw);
#pragma unroll
        for (int i = 0; i < X; i++) {
          qk += q_smem[j * X + i] * static_cast<float>(kv[i]);
        }
      }
      qk *= scale;
      qk += alibi_slope * (token_idx - context_len + 1);
      qk_max = fmaxf(qk_max, qk);
    }
    logits[token_idx] = masked ? 0.f : qk;
  }

  // ---- softmax over the context
#pragma unroll
  for (int mask = WARP_SIZE / 2; mask >= 1; mask /= 2) {
    qk_max = fmaxf(qk_max, __shfl_xor_sync(uint32_t(-1), qk_max, mask));
  }
  if (lane == 0) red_smem[warp_idx] = qk_max;
  __syncthreads();
  qk_max = lane < NUM_WARPS ? red_smem[lane] : -FLT_MAX;
#pragma unroll
  for (int mask = NUM_WARPS / 2; mask >= 1; mask /= 2) {
    qk_max = fmaxf(qk_max, __shfl_xor_sync(uint32_t(-1), qk_max, mask));
  }
  qk_max = __shfl_sync(uint32_t(-1), qk_max, 0);
  __syncthreads();  // red_smem is used again

  float exp_sum = 0.f;
  for (int i = thread_idx; i < context_len; i += NUM_THREADS) {
    const float val = __expf(logits[i] - qk_max);
    logits[i] = val;
    exp_sum += val;
  }
  exp_sum = block_sum<NUM_WARPS>(red_smem, exp_sum);
  const float inv_sum = __fdividef(1.f, exp_sum + 1e-6f);
  for (int i = thread_idx; i < context_len; i += NUM_THREADS) {
    logits[i] *= inv_sum;
  }
  __syncthreads();

  // ---- logits . v: a warp takes a row (one element of the head), its lanes the tokens
  scalar_t* out_ptr = out + ((int64_t)seq_idx * num_heads + head_idx) * HEAD_SIZE;
  for (int row = warp_idx; row < HEAD_SIZE; row += NUM_WARPS) {
    float acc = 0.f;
    for (int token_idx = lane; token_idx < context_len; token_idx += WARP_SIZE) {
      const int64_t physical_block = block_table[token_idx / BLOCK_SIZE];
      const int block_offset = token_idx % BLOCK_SIZE;
      const scalar_t* v_ptr =
          v_cache + ((physical_block * num_kv_heads + kv_head_idx) * HEAD_SIZE + row) * BLOCK_SIZE;
      acc += logits[token_idx] * static_cast<float>(v_ptr[block_offset]);
    }
#pragma unroll
    for (int mask = WARP_SIZE / 2; mask >= 1; mask /= 2) {
      acc += __shfl_xor_sync(uint32_t(-1), acc, mask);
    }
    if (lane == 0) out_ptr[row] = static_cast<scalar_t>(acc);
  }
}

// appends the new key and value of each token: slot = block * block_size + offset, < 0: skip
template <typename scalar_t>
__global__ void reshape_and_cache_kernel(const scalar_t* __restrict__ key,    // [num_tokens, num_kv_heads, head_size]
                                         const scalar_t* __restrict__ value,  // [num_tokens, num_kv_heads, head_size]
                                         scalar_t* __restrict__ k_cache, scalar_t* __restrict__ v_cache,
                                         const int64_t* __restrict__ slot_mapping, const int num_kv_heads,
                                         const int head_size, const int block_size, const int x) {
  const int64_t token_idx = blockIdx.x;
  const int64_t slot = slot_mapping[token_idx];
  if (slot < 0) return;
  const int64_t block_idx = slot / block_size;
  const int64_t block_offset = slot % block_size;
  const int n = num_kv_heads * head_size;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int head = i / head_size;
    const int off = i % head_size;
    const int64_t k_idx =
        ((block_idx * num_kv_heads + head) * (head_size / x) + off / x) * block_size * x + block_offset * x + off % x;
    const int64_t v_idx = ((block_idx * num_kv_heads + head) * head_size + off) * block_size + block_offset;
    k_cache[k_idx] = key[token_idx * n + i];
    v_cache[v_idx] = value[token_idx * n + i];
  }
}

}  // namespace paged

#define LAUNCH_ATTENTION(HEAD_SIZE, BLOCK_SIZE)                                                             \
  paged::single_query_cached_kv_attention_kernel<scalar_t, HEAD_SIZE, BLOCK_SIZE, 128>                      \
      <<<grid, 128, smem, stream>>>(out.data_ptr<scalar_t>(), query.data_ptr<scalar_t>(),                   \
                                    k_cache.data_ptr<scalar_t>(), v_cache.data_ptr<scalar_t>(), (float)scale, \
                                    block_tables.data_ptr<int>(), context_lens.data_ptr<int>(),             \
                                    block_tables.size(1), alibi_ptr, num_kv_heads)

#define DISPATCH_HEAD(BLOCK_SIZE)                                                \
  switch (head_size) {                                                           \
    case 64: LAUNCH_ATTENTION(64, BLOCK_SIZE); break;                            \
    case 80: LAUNCH_ATTENTION(80, BLOCK_SIZE); break;                            \
    case 96: LAUNCH_ATTENTION(96, BLOCK_SIZE); break;                            \
    case 128: LAUNCH_ATTENTION(128, BLOCK_SIZE); break;                          \
    default: TORCH_CHECK(false, "Unsupported head size: ", head_size);           \
  }

void single_query_cached_kv_attention(torch::Tensor& out, torch::Tensor& query, torch::Tensor& k_cache,
                                      torch::Tensor& v_cache, double scale, torch::Tensor& block_tables,
                                      torch::Tensor& context_lens, int64_t block_size, int64_t max_context_len,
                                      const c10::optional<torch::Tensor>& alibi_slopes) {
  const int num_seqs = query.size(0);
  const int num_heads = query.size(1);
  const int head_size = query.size(2);
  const int num_kv_heads = k_cache.size(1);
  TORCH_CHECK(num_heads % num_kv_heads == 0);
  const c10::cuda::CUDAGuard guard(query.device());
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const float* alibi_ptr = alibi_slopes ? alibi_slopes.value().data_ptr<float>() : nullptr;

  const int padded = DIVIDE_ROUND_UP(max_context_len, block_size) * block_size;
  const int smem = padded * sizeof(float);
  TORCH_CHECK(smem <= 40 * 1024, "context too long for the single pass kernel");
  dim3 grid(num_heads, num_seqs);

  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, query.scalar_type(), "paged_attention_v1", [&] {
    if (block_size == 16) {
      DISPATCH_HEAD(16);
    } else if (block_size == 32) {
      DISPATCH_HEAD(32);
    } else {
      TORCH_CHECK(false, "Unsupported block size: ", block_size);
    }
  });
}

void reshape_and_cache(torch::Tensor& key, torch::Tensor& value, torch::Tensor& k_cache, torch::Tensor& v_cache,
                       torch::Tensor& slot_mapping) {
  const int num_tokens = key.size(0);
  const int num_kv_heads = key.size(1);
  const int head_size = key.size(2);
  const int block_size = k_cache.size(3);
  const int x = k_cache.size(4);
  const c10::cuda::CUDAGuard guard(key.device());
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, key.scalar_type(), "reshape_and_cache", [&] {
    paged::reshape_and_cache_kernel<scalar_t>
        <<<num_tokens, std::min(num_kv_heads * head_size, 512), 0, at::cuda::getCurrentCUDAStream()>>>(
            key.data_ptr<scalar_t>(), value.data_ptr<scalar_t>(), k_cache.data_ptr<scalar_t>(),
            v_cache.data_ptr<scalar_t>(), slot_mapping.data_ptr<int64_t>(), num_kv_heads, head_size, block_size, x);
  });
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("single_query_cached_kv_attention", &single_query_cached_kv_attention);
  m.def("reshape_and_cache", &reshape_and_cache);
}
