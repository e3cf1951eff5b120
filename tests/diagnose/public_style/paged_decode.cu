// Decode attention over a paged KV cache with grouped heads: the query heads of a group are the rows of a fragment.
#include <cuda_fp16.h>
#include <mma.h>
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define DIVIDE_ROUND_UP(a, b) (((a) + (b)-1) / (b))

namespace kern {

template <typename T> __device__ __forceinline__ T warp_max(T v) {
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, mask));
  return v;
}
template <typename T> __device__ __forceinline__ T warp_sum(T v) {
#pragma unroll
  for (int mask = 16; mask >= 1; mask /= 2) v += __shfl_xor_sync(0xffffffff, v, mask);
  return v;
}

// Grid: (num_kv_heads, num_seqs). NUM_WARPS warps; each takes every NUM_WARPS-th page.
template <int HEAD_SIZE, int BLOCK_SIZE, int NUM_WARPS>
__global__ void paged_attention_kernel(
    half* __restrict__ out,               // [num_seqs, num_heads, head_size]
    const half* __restrict__ q,           // [num_seqs, num_heads, head_size]
    const half* __restrict__ k_cache,     // [num_blocks, num_kv_heads, block_size, head_size]
    const half* __restrict__ v_cache,     // [num_blocks, num_kv_heads, block_size, head_size]
    const int* __restrict__ block_tables, // [num_seqs, max_num_blocks_per_seq]
    const int* __restrict__ context_lens, // [num_seqs]
    const int num_heads, const int num_kv_heads, const int max_num_blocks_per_seq, const float scale) {
  using namespace nvcuda;
  static_assert(BLOCK_SIZE == 16, "a page is a fragment");
  constexpr int QP = HEAD_SIZE + 8;
  constexpr int OP = HEAD_SIZE + 4;
  __shared__ __align__(32) half q_s[16 * QP];
  __shared__ __align__(32) float s_s[NUM_WARPS][16 * 16];
  __shared__ __align__(32) half p_s[NUM_WARPS][16 * 16];
  extern __shared__ __align__(32) float o_s[];   // [NUM_WARPS][16][OP]
  __shared__ float m_s[NUM_WARPS][16], l_s[NUM_WARPS][16];

  const int kv_head = blockIdx.x, seq = blockIdx.y;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = num_heads / num_kv_heads;
  const int context_len = context_lens[seq];
  const int pages = DIVIDE_ROUND_UP(context_len, BLOCK_SIZE);
  const int* table = block_tables + seq * max_num_blocks_per_seq;

  for (int i = threadIdx.x; i < 16 * HEAD_SIZE; i += blockDim.x) {
    const int r = i / HEAD_SIZE, d = i % HEAD_SIZE;
    q_s[r * QP + d] = r < group ? q[(seq * num_heads + kv_head * group + r) * HEAD_SIZE + d] : __float2half(0.f);
  }
  float* o_w = o_s + warp * 16 * OP;
  for (int i = lane; i < 16 * OP; i += 32) o_w[i] = 0.f;
  if (lane < 16) {
    m_s[warp][lane] = -FLT_MAX;
    l_s[warp][lane] = 0.f;
  }
  __syncthreads();

  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> q_f[HEAD_SIZE / 16];
#pragma unroll
  for (int d = 0; d < HEAD_SIZE / 16; ++d) wmma::load_matrix_sync(q_f[d], q_s + d * 16, QP);

  for (int page = warp; page < pages; page += NUM_WARPS) {
    const int64_t physical = table[page];
    const half* k_p = k_cache + (physical * num_kv_heads + kv_head) * BLOCK_SIZE * HEAD_SIZE;
    const half* v_p = v_cache + (physical * num_kv_heads + kv_head) * BLOCK_SIZE * HEAD_SIZE;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> s_f;
    wmma::fill_fragment(s_f, 0.f);
#pragma unroll
    for (int d = 0; d < HEAD_SIZE / 16; ++d) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> k_f;
      wmma::load_matrix_sync(k_f, k_p + d * 16, HEAD_SIZE);
      wmma::mma_sync(s_f, q_f[d], k_f, s_f);
    }
    wmma::store_matrix_sync(s_s[warp], s_f, 16, wmma::mem_row_major);
    __syncwarp();

    // lane r owns row r; the upper half of the warp has nothing to do
    if (lane < 16) {
      const int r = lane;
      float m = m_s[warp][r];
      const float m_old = m;
      const int valid = min(BLOCK_SIZE, context_len - page * BLOCK_SIZE);
      for (int j = 0; j < valid; ++j) m = fmaxf(m, s_s[warp][r * 16 + j] * scale);
      const float f = __expf(m_old - m);
      float l = l_s[warp][r] * f;
      for (int j = 0; j < BLOCK_SIZE; ++j) {
        const float p = j < valid ? __expf(s_s[warp][r * 16 + j] * scale - m) : 0.f;
        l += p;
        p_s[warp][r * 16 + j] = __float2half(p);
      }
      for (int d = 0; d < HEAD_SIZE; ++d) o_w[r * OP + d] *= f;
      m_s[warp][r] = m;
      l_s[warp][r] = l;
    }
    __syncwarp();

    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> p_f;
    wmma::load_matrix_sync(p_f, p_s[warp], 16);
#pragma unroll
    for (int d = 0; d < HEAD_SIZE; d += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> v_f;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o_f;
      wmma::load_matrix_sync(v_f, v_p + d, HEAD_SIZE);
      wmma::load_matrix_sync(o_f, o_w + d, OP, wmma::mem_row_major);
      wmma::mma_sync(o_f, p_f, v_f, o_f);
      wmma::store_matrix_sync(o_w + d, o_f, OP, wmma::mem_row_major);
    }
    __syncwarp();
  }
  __syncthreads();

  // merge the warps
  for (int i = threadIdx.x; i < group * HEAD_SIZE; i += blockDim.x) {
    const int r = i / HEAD_SIZE, d = i % HEAD_SIZE;
    float m = -FLT_MAX;
    for (int w = 0; w < NUM_WARPS; ++w) m = fmaxf(m, m_s[w][r]);
    float num = 0.f, den = 0.f;
    for (int w = 0; w < NUM_WARPS; ++w) {
      const float f = __expf(m_s[w][r] - m);
      num += f * o_s[(w * 16 + r) * OP + d];
      den += f * l_s[w][r];
    }
    out[(seq * num_heads + kv_head * group + r) * HEAD_SIZE + d] = __float2half(num / (den + 1e-6f));
  }
}

}  // namespace kern

#define LAUNCH_PAGED_ATTENTION(HEAD_SIZE)                                                                    \
  kern::paged_attention_kernel<HEAD_SIZE, 16, 4><<<grid, block, shared_mem_size, stream>>>(                  \
      out_ptr, q_ptr, k_ptr, v_ptr, block_tables.data_ptr<int>(), context_lens.data_ptr<int>(), num_heads, \
      num_kv_heads, max_num_blocks_per_seq, scale);

void paged_attention(torch::Tensor& out, torch::Tensor& query, torch::Tensor& key_cache, torch::Tensor& value_cache,
                     double scale, torch::Tensor& block_tables, torch::Tensor& context_lens) {
  const int num_seqs = query.size(0);
  const int num_heads = query.size(1);
  const int head_size = query.size(2);
  const int num_kv_heads = key_cache.size(1);
  const int max_num_blocks_per_seq = block_tables.size(1);
  TORCH_CHECK(num_heads / num_kv_heads <= 16, "at most 16 heads in a group");
  half* out_ptr = reinterpret_cast<half*>(out.data_ptr());
  half* q_ptr = reinterpret_cast<half*>(query.data_ptr());
  half* k_ptr = reinterpret_cast<half*>(key_cache.data_ptr());
  half* v_ptr = reinterpret_cast<half*>(value_cache.data_ptr());
  dim3 grid(num_kv_heads, num_seqs);
  dim3 block(128);
  const int shared_mem_size = 4 * 16 * (head_size + 4) * sizeof(float);
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  switch (head_size) {
    case 64: LAUNCH_PAGED_ATTENTION(64); break;
    case 128: LAUNCH_PAGED_ATTENTION(128); break;
    default: TORCH_CHECK(false, "Unsupported head size: ", head_size); break;
  }
}

#undef MAX
#undef DIVIDE_ROUND_UP

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("paged_attention", &paged_attention); }
