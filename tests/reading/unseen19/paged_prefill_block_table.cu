// Prefill over a paged KV cache (new tokens are already in the cache).
// Registered with TORCH_LIBRARY, see csrc/ops.h for the schema.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/all.h>
#include <torch/library.h>

namespace serving {

using namespace nvcuda::wmma;

constexpr int BLOCK_M = 32;
constexpr int BLOCK_N = 32;
constexpr int NUM_THREADS = 128;

template <int HEAD_SIZE>
__global__ __launch_bounds__(NUM_THREADS) void paged_prefill_kernel(
    half* __restrict__ out,                 // [num_tokens, num_heads, head_size]
    const half* __restrict__ query,         // [num_tokens, num_heads, head_size]
    const half* __restrict__ k_cache,       // [num_blocks, block_size, num_kv_heads, head_size]
    const half* __restrict__ v_cache,       // [num_blocks, block_size, num_kv_heads, head_size]
    const int* __restrict__ block_tables,   // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ seq_lens,       // [num_seqs], context and new tokens together
    const int* __restrict__ query_start,    // [num_seqs + 1]
    const float* __restrict__ alibi_slopes, // [num_heads] or nullptr
    const float scale, const int num_heads, const int num_kv_heads, const int block_size,
    const int max_num_blocks_per_seq, const int64_t q_stride, const int window) {
  constexpr int LD = HEAD_SIZE + 8;
  __shared__ __align__(32) half q_s[BLOCK_M * LD];
  __shared__ __align__(32) half kv_s[BLOCK_N * LD];
  __shared__ __align__(32) float s_s[BLOCK_M][BLOCK_N + 8];
  __shared__ __align__(32) half p_s[BLOCK_M][BLOCK_N + 8];
  __shared__ __align__(32) float o_s[BLOCK_M * LD];

  const int seq = blockIdx.z, head = blockIdx.y;
  const int start = query_start[seq], q_len = query_start[seq + 1] - start;
  const int first = blockIdx.x * BLOCK_M;
  if (first >= q_len) return;
  const int seq_len = seq_lens[seq];
  const int ctx_len = seq_len - q_len;
  const int kv_head = head * num_kv_heads / num_heads;
  const float slope = alibi_slopes ? alibi_slopes[head] : 0.f;
  const int* table = block_tables + seq * max_num_blocks_per_seq;

  const int tid = threadIdx.x, warp = tid / 32;
  const int row = tid / 4, sub = tid % 4;  // 4 threads for each query
  const int pos = ctx_len + first + row;   // of the query in its sequence

  for (int i = tid; i < BLOCK_M * HEAD_SIZE / 8; i += NUM_THREADS) {
    const int r = i / (HEAD_SIZE / 8), c = i % (HEAD_SIZE / 8) * 8;
    uint4 x = make_uint4(0, 0, 0, 0);
    if (first + r < q_len)
      x = *reinterpret_cast<const uint4*>(query + (start + first + r) * q_stride + head * HEAD_SIZE + c);
    *reinterpret_cast<uint4*>(q_s + r * LD + c) = x;
  }
  for (int i = tid; i < BLOCK_M * LD; i += NUM_THREADS) o_s[i] = 0.f;

  auto load_kv = [&](const half* __restrict__ cache, int n0) {
    for (int i = tid; i < BLOCK_N * HEAD_SIZE / 8; i += NUM_THREADS) {
      const int r = i / (HEAD_SIZE / 8), c = i % (HEAD_SIZE / 8) * 8;
      const int token = n0 + r;
      uint4 x = make_uint4(0, 0, 0, 0);
      if (token < seq_len) {
        const int64_t slot = (int64_t)table[token / block_size] * block_size + token % block_size;
        x = *reinterpret_cast<const uint4*>(cache + (slot * num_kv_heads + kv_head) * HEAD_SIZE + c);
      }
      *reinterpret_cast<uint4*>(kv_s + r * LD + c) = x;
    }
  };

  float m = -1e30f, l = 0.f;
  const int kv_end = min(seq_len, ctx_len + first + BLOCK_M);
  int kv_begin = 0;
  if (window > 0) kv_begin = max(0, ctx_len + first - window + 1) / BLOCK_N * BLOCK_N;

  for (int n0 = kv_begin; n0 < kv_end; n0 += BLOCK_N) {
    __syncthreads();
    load_kv(k_cache, n0);
    __syncthreads();
    {
      const int mi = warp / 2 * 16, ni = warp % 2 * 16;
      fragment<accumulator, 16, 16, 16, float> acc;
      fill_fragment(acc, 0.f);
#pragma unroll
      for (int k = 0; k < HEAD_SIZE; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, col_major> b;
        load_matrix_sync(a, q_s + mi * LD + k, LD);
        load_matrix_sync(b, kv_s + ni * LD + k, LD);
        mma_sync(acc, a, b, acc);
      }
      store_matrix_sync(&s_s[mi][ni], acc, BLOCK_N + 8, mem_row_major);
    }
    __syncthreads();
    load_kv(v_cache, n0);  // overwrites the keys, which are no longer needed

    float x[BLOCK_N / 4];
    float m_new = m;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i) {
      const int key = n0 + sub + 4 * i;
      const bool visible = key <= pos && key < seq_len && (window <= 0 || pos - key < window);
      x[i] = visible ? s_s[row][sub + 4 * i] * scale + slope * (key - pos) : -1e30f;
      m_new = fmaxf(m_new, x[i]);
    }
    m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 1));
    m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 2));
    const float alpha = __expf(m - m_new);
    float sum = 0.f;
#pragma unroll
    for (int i = 0; i < BLOCK_N / 4; ++i) {
      const float e = x[i] > -1e29f ? __expf(x[i] - m_new) : 0.f;
      p_s[row][sub + 4 * i] = __float2half(e);
      sum += e;
    }
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    l = l * alpha + sum;
    m = m_new;
    for (int c = sub; c < HEAD_SIZE; c += 4) o_s[row * LD + c] *= alpha;
    __syncthreads();

    for (int tile = warp; tile < 2 * HEAD_SIZE / 16; tile += 4) {
      const int mi = tile % 2 * 16, di = tile / 2 * 16;
      fragment<accumulator, 16, 16, 16, float> acc;
      load_matrix_sync(acc, o_s + mi * LD + di, LD, mem_row_major);
#pragma unroll
      for (int k = 0; k < BLOCK_N; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        fragment<matrix_b, 16, 16, 16, half, row_major> b;
        load_matrix_sync(a, &p_s[mi][k], BLOCK_N + 8);
        load_matrix_sync(b, kv_s + k * LD + di, LD);
        mma_sync(acc, a, b, acc);
      }
      store_matrix_sync(o_s + mi * LD + di, acc, LD, mem_row_major);
    }
  }
  __syncthreads();
  if (first + row < q_len) {
    const float inv = 1.f / l;
    half* dst = out + ((int64_t)(start + first + row) * num_heads + head) * HEAD_SIZE;
    for (int c = sub; c < HEAD_SIZE; c += 4) dst[c] = __float2half(o_s[row * LD + c] * inv);
  }
}

void paged_prefill(at::Tensor& out, const at::Tensor& query, const at::Tensor& k_cache, const at::Tensor& v_cache,
                   const at::Tensor& block_tables, const at::Tensor& seq_lens, const at::Tensor& query_start_loc,
                   int64_t max_query_len, double scale, const std::optional<at::Tensor>& alibi_slopes,
                   int64_t sliding_window) {
  TORCH_CHECK(query.scalar_type() == at::kHalf && k_cache.scalar_type() == at::kHalf);
  TORCH_CHECK(query.stride(-1) == 1 && query.stride(1) == query.size(2) && query.stride(0) % 8 == 0);
  TORCH_CHECK(k_cache.is_contiguous() && v_cache.is_contiguous() && out.is_contiguous());
  const int num_heads = query.size(1), head_size = query.size(2);
  const int block_size = k_cache.size(1), num_kv_heads = k_cache.size(2);
  const int num_seqs = seq_lens.size(0);
  const float* slopes = alibi_slopes ? alibi_slopes->data_ptr<float>() : nullptr;

  const at::cuda::OptionalCUDAGuard device_guard(device_of(query));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  const dim3 grid((max_query_len + BLOCK_M - 1) / BLOCK_M, num_heads, num_seqs);

#define LAUNCH(HS)                                                                                             \
  paged_prefill_kernel<HS><<<grid, NUM_THREADS, 0, stream>>>(                                                  \
      reinterpret_cast<half*>(out.data_ptr()), reinterpret_cast<const half*>(query.data_ptr()),                \
      reinterpret_cast<const half*>(k_cache.data_ptr()), reinterpret_cast<const half*>(v_cache.data_ptr()),    \
      block_tables.data_ptr<int>(), seq_lens.data_ptr<int>(), query_start_loc.data_ptr<int>(), slopes,         \
      static_cast<float>(scale), num_heads, num_kv_heads, block_size, static_cast<int>(block_tables.size(1)),  \
      query.stride(0), static_cast<int>(sliding_window))
  switch (head_size) {
    case 64: LAUNCH(64); break;
    case 96: LAUNCH(96); break;
    case 128: LAUNCH(128); break;
    default: TORCH_CHECK(false, "Unsupported head size: ", head_size);
  }
#undef LAUNCH
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace serving

TORCH_LIBRARY_FRAGMENT(serving, m) {
  m.def(
      "paged_prefill(Tensor! out, Tensor query, Tensor k_cache, Tensor v_cache, Tensor block_tables, "
      "Tensor seq_lens, Tensor query_start_loc, int max_query_len, float scale, Tensor? alibi_slopes, "
      "int sliding_window) -> ()");
}
TORCH_LIBRARY_IMPL(serving, CUDA, m) { m.impl("paged_prefill", &serving::paged_prefill); }
