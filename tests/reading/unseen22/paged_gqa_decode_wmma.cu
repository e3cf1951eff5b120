// Decode attention over a paged KV cache, query heads of a group share the tensor core tile.
//
//   out       [num_seqs, num_heads, HEAD_SIZE]
//   q         [num_seqs, num_heads, HEAD_SIZE]
//   k_cache   [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
//   v_cache   [num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_SIZE]
//   block_tables [num_seqs, max_blocks_per_seq]
//   seq_lens  [num_seqs]
#include <torch/all.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <float.h>

#define WARP_SIZE 32
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define DIVIDE_ROUND_UP(a, b) (((a) + (b)-1) / (b))

namespace vllm_tc {

using namespace nvcuda;

constexpr int QUERY_ROWS = 16;  // group size is padded to this

template <int HEAD_SIZE, int BLOCK_SIZE, int NUM_WARPS>
__global__ void paged_gqa_decode_kernel(
    half* __restrict__ out, const half* __restrict__ q, const half* __restrict__ k_cache,
    const half* __restrict__ v_cache, const int num_kv_heads, const float scale,
    const int* __restrict__ block_tables, const int* __restrict__ seq_lens, const int max_num_blocks_per_seq,
    const int group_size) {
  const int seq_idx = blockIdx.y;
  const int kv_head_idx = blockIdx.x;
  const int num_heads = num_kv_heads * group_size;
  const int seq_len = seq_lens[seq_idx];
  const int* block_table = block_tables + seq_idx * max_num_blocks_per_seq;
  const int warp_idx = threadIdx.x / WARP_SIZE;
  const int lane = threadIdx.x % WARP_SIZE;
  const int num_threads = NUM_WARPS * WARP_SIZE;
  const int kv_row_stride = num_kv_heads * HEAD_SIZE;

  __shared__ __align__(32) half q_smem[QUERY_ROWS][HEAD_SIZE + 8];
  __shared__ __align__(32) float s_smem[QUERY_ROWS][BLOCK_SIZE + 4];
  __shared__ __align__(32) half p_smem[QUERY_ROWS][BLOCK_SIZE + 8];
  __shared__ __align__(32) float o_smem[QUERY_ROWS][HEAD_SIZE + 4];
  __shared__ float row_max[QUERY_ROWS], row_sum[QUERY_ROWS], row_alpha[QUERY_ROWS];

  const half* q_ptr = q + ((int64_t)seq_idx * num_heads + kv_head_idx * group_size) * HEAD_SIZE;
  for (int i = threadIdx.x; i < QUERY_ROWS * HEAD_SIZE; i += num_threads) {
    const int r = i / HEAD_SIZE, c = i % HEAD_SIZE;
    q_smem[r][c] = r < group_size ? q_ptr[r * HEAD_SIZE + c] : __float2half(0.f);
    o_smem[r][c] = 0.f;
  }
  if (threadIdx.x < QUERY_ROWS) {
    row_max[threadIdx.x] = -FLT_MAX;
    row_sum[threadIdx.x] = 0.f;
  }
  __syncthreads();

  const int num_blocks = DIVIDE_ROUND_UP(seq_len, BLOCK_SIZE);
  for (int b = 0; b < num_blocks; ++b) {
    const int64_t physical = block_table[b];
    const half* k_ptr = k_cache + physical * BLOCK_SIZE * kv_row_stride + kv_head_idx * HEAD_SIZE;
    const half* v_ptr = v_cache + physical * BLOCK_SIZE * kv_row_stride + kv_head_idx * HEAD_SIZE;

    for (int n = warp_idx; n < BLOCK_SIZE / 16; n += NUM_WARPS) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> s;
      wmma::fill_fragment(s, 0.f);
      for (int d = 0; d < HEAD_SIZE; d += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> qf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> kf;
        wmma::load_matrix_sync(qf, &q_smem[0][d], HEAD_SIZE + 8);
        wmma::load_matrix_sync(kf, k_ptr + (int64_t)n * 16 * kv_row_stride + d, kv_row_stride);
        wmma::mma_sync(s, qf, kf, s);
      }
      wmma::store_matrix_sync(&s_smem[0][n * 16], s, BLOCK_SIZE + 4, wmma::mem_row_major);
    }
    __syncthreads();

    for (int r = warp_idx; r < QUERY_ROWS; r += NUM_WARPS) {
      float m = row_max[r];
      for (int c = lane; c < BLOCK_SIZE; c += WARP_SIZE) {
        if (b * BLOCK_SIZE + c < seq_len) m = fmaxf(m, s_smem[r][c] * scale);
      }
      for (int mask = WARP_SIZE / 2; mask >= 1; mask /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, mask));
      float sum = 0.f;
      for (int c = lane; c < BLOCK_SIZE; c += WARP_SIZE) {
        const float p = b * BLOCK_SIZE + c < seq_len ? __expf(s_smem[r][c] * scale - m) : 0.f;
        p_smem[r][c] = __float2half(p);
        sum += p;
      }
      for (int mask = WARP_SIZE / 2; mask >= 1; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
      if (lane == 0) {
        const float alpha = __expf(row_max[r] - m);
        row_alpha[r] = alpha;
        row_sum[r] = row_sum[r] * alpha + sum;
        row_max[r] = m;
      }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < QUERY_ROWS * HEAD_SIZE; i += num_threads) o_smem[i / HEAD_SIZE][i % HEAD_SIZE] *= row_alpha[i / HEAD_SIZE];
    __syncthreads();

    for (int n = warp_idx; n < HEAD_SIZE / 16; n += NUM_WARPS) {
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> o;
      wmma::load_matrix_sync(o, &o_smem[0][n * 16], HEAD_SIZE + 4, wmma::mem_row_major);
      for (int c = 0; c < BLOCK_SIZE; c += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> pf;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> vf;
        wmma::load_matrix_sync(pf, &p_smem[0][c], BLOCK_SIZE + 8);
        wmma::load_matrix_sync(vf, v_ptr + (int64_t)c * kv_row_stride + n * 16, kv_row_stride);
        wmma::mma_sync(o, pf, vf, o);
      }
      wmma::store_matrix_sync(&o_smem[0][n * 16], o, HEAD_SIZE + 4, wmma::mem_row_major);
    }
    __syncthreads();
  }

  half* out_ptr = out + ((int64_t)seq_idx * num_heads + kv_head_idx * group_size) * HEAD_SIZE;
  for (int i = threadIdx.x; i < group_size * HEAD_SIZE; i += num_threads) {
    const int r = i / HEAD_SIZE, c = i % HEAD_SIZE;
    out_ptr[r * HEAD_SIZE + c] = __float2half(o_smem[r][c] / (row_sum[r] + 1e-6f));
  }
}

}  // namespace vllm_tc

#define LAUNCH_DECODE(HEAD_SIZE)                                                                             \
  vllm_tc::paged_gqa_decode_kernel<HEAD_SIZE, BLOCK_SIZE, NUM_WARPS><<<grid, block, 0, stream>>>(            \
      reinterpret_cast<half*>(out.data_ptr()), reinterpret_cast<const half*>(query.data_ptr()),              \
      reinterpret_cast<const half*>(key_cache.data_ptr()), reinterpret_cast<const half*>(value_cache.data_ptr()), \
      num_kv_heads, static_cast<float>(scale), block_tables.data_ptr<int>(), seq_lens.data_ptr<int>(),       \
      max_num_blocks_per_seq, num_heads / num_kv_heads);

template <int BLOCK_SIZE, int NUM_WARPS = 4>
void paged_gqa_decode_launcher(torch::Tensor& out, torch::Tensor& query, torch::Tensor& key_cache, torch::Tensor& value_cache,
                               double scale, torch::Tensor& block_tables, torch::Tensor& seq_lens) {
  int num_seqs = query.size(0);
  int num_heads = query.size(1);
  int head_size = query.size(2);
  int num_kv_heads = key_cache.size(2);
  int max_num_blocks_per_seq = block_tables.size(1);
  TORCH_CHECK(num_heads / num_kv_heads <= vllm_tc::QUERY_ROWS);

  dim3 grid(num_kv_heads, num_seqs);
  dim3 block(NUM_WARPS * WARP_SIZE);
  const at::cuda::OptionalCUDAGuard device_guard(device_of(query));
  const cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  switch (head_size) {
    case 64:
      LAUNCH_DECODE(64);
      break;
    case 128:
      LAUNCH_DECODE(128);
      break;
    default:
      TORCH_CHECK(false, "Unsupported head size: ", head_size);
  }
}

void paged_gqa_decode(torch::Tensor& out, torch::Tensor& query, torch::Tensor& key_cache, torch::Tensor& value_cache,
                      double scale, torch::Tensor& block_tables, torch::Tensor& seq_lens) {
  const int block_size = key_cache.size(1);
  if (block_size == 16) {
    paged_gqa_decode_launcher<16>(out, query, key_cache, value_cache, scale, block_tables, seq_lens);
  } else if (block_size == 32) {
    paged_gqa_decode_launcher<32>(out, query, key_cache, value_cache, scale, block_tables, seq_lens);
  } else {
    TORCH_CHECK(false, "Unsupported block size: ", block_size);
  }
}
