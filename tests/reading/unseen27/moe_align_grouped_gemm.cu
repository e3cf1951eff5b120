// Fused MoE GEMM in the style of the Triton fused_moe kernel, written with WMMA.
//
//  hidden       [num_tokens, K]            row-major
//  w            [num_experts, N, K]        row-major per expert
//  topk_ids     [num_tokens, top_k]        expert of each (token, slot) pair
//  topk_weights [num_tokens, top_k]
//  out          [num_tokens, top_k, N]     = topk_weight * hidden[token] @ w[expert]^T
//
// Step 1 (moe_align_block_size) sorts the pairs by expert and pads every expert to a multiple of BLOCK_M.
// Step 2 runs one block per (BLOCK_M pairs of ONE expert) x (BLOCK_N columns).
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>

#define MAX_EXPERTS 256
#define BLOCK_M 32
#define BLOCK_N 64
#define BLOCK_K 32
#define LDT (BLOCK_K + 8)

namespace moe {

// one block; sorted_ids has room for numel + num_experts * (BLOCK_M - 1) entries, expert_ids for that / BLOCK_M
__global__ void align_block_size_kernel(const int32_t* __restrict__ topk_ids, int32_t* __restrict__ sorted_ids,
                                        int32_t* __restrict__ expert_ids, int32_t* __restrict__ total_post_pad,
                                        int num_experts, int numel) {
  __shared__ int32_t counts[MAX_EXPERTS];
  __shared__ int32_t starts[MAX_EXPERTS + 1];

  for (int e = threadIdx.x; e < num_experts; e += blockDim.x) counts[e] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < numel; i += blockDim.x) atomicAdd(&counts[topk_ids[i]], 1);
  __syncthreads();

  if (threadIdx.x == 0) {
    starts[0] = 0;
    for (int e = 0; e < num_experts; ++e) {
      const int32_t padded = (counts[e] + BLOCK_M - 1) / BLOCK_M * BLOCK_M;
      starts[e + 1] = starts[e] + padded;
    }
    *total_post_pad = starts[num_experts];
  }
  __syncthreads();

  // padding slots point one past the last pair
  for (int i = threadIdx.x; i < starts[num_experts]; i += blockDim.x) sorted_ids[i] = numel;
  for (int e = threadIdx.x; e < num_experts; e += blockDim.x) {
    for (int i = starts[e]; i < starts[e + 1]; i += BLOCK_M) expert_ids[i / BLOCK_M] = e;
    counts[e] = 0;  // becomes the fill position
  }
  __syncthreads();
  for (int i = threadIdx.x; i < numel; i += blockDim.x) {
    const int e = topk_ids[i];
    sorted_ids[starts[e] + atomicAdd(&counts[e], 1)] = i;
  }
}

template <bool MUL_ROUTED_WEIGHT>
__global__ void __launch_bounds__(128)
    fused_moe_kernel(const __nv_bfloat16* __restrict__ hidden, const __nv_bfloat16* __restrict__ w,
                     __nv_bfloat16* __restrict__ out, const float* __restrict__ topk_weights,
                     const int32_t* __restrict__ sorted_ids, const int32_t* __restrict__ expert_ids,
                     const int32_t* __restrict__ total_post_pad, int N, int K, int num_valid, int top_k) {
  using namespace nvcuda;
  __shared__ __align__(32) __nv_bfloat16 a_tile[BLOCK_M * LDT];
  __shared__ __align__(32) __nv_bfloat16 b_tile[BLOCK_N * LDT];
  __shared__ __align__(32) float c_tile[BLOCK_M * BLOCK_N];
  __shared__ int32_t pair_ids[BLOCK_M];

  if (blockIdx.x * BLOCK_M >= *total_post_pad) return;  // the same for the whole block

  const int n0 = blockIdx.y * BLOCK_N;
  const __nv_bfloat16* w_e = w + (int64_t)expert_ids[blockIdx.x] * N * K;
  if (threadIdx.x < BLOCK_M) pair_ids[threadIdx.x] = sorted_ids[blockIdx.x * BLOCK_M + threadIdx.x];
  __syncthreads();

  const int warp = threadIdx.x / 32;
  const int wm = warp / 2 * 16;  // 2 x 2 warps, 16 x 32 each
  const int wn = warp % 2 * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.f);
  wmma::fill_fragment(acc[1], 0.f);

  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    {  // 32 rows x 4 vectors: one per thread
      const int r = threadIdx.x / 4, c = threadIdx.x % 4 * 8;
      const int pair = pair_ids[r];
      uint4 v = make_uint4(0, 0, 0, 0);
      if (pair < num_valid && k0 + c < K)
        v = *reinterpret_cast<const uint4*>(hidden + (int64_t)(pair / top_k) * K + k0 + c);
      *reinterpret_cast<uint4*>(a_tile + r * LDT + c) = v;
    }
#pragma unroll
    for (int i = threadIdx.x; i < BLOCK_N * 4; i += 128) {
      const int r = i / 4, c = i % 4 * 8;
      uint4 v = make_uint4(0, 0, 0, 0);
      if (n0 + r < N && k0 + c < K) v = *reinterpret_cast<const uint4*>(w_e + (int64_t)(n0 + r) * K + k0 + c);
      *reinterpret_cast<uint4*>(b_tile + r * LDT + c) = v;
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
      wmma::load_matrix_sync(a, a_tile + wm * LDT + kk, LDT);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
        wmma::load_matrix_sync(b, b_tile + (wn + j * 16) * LDT + kk, LDT);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(c_tile + wm * BLOCK_N + wn + j * 16, acc[j], BLOCK_N, wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < BLOCK_M * BLOCK_N; i += 128) {
    const int r = i / BLOCK_N, c = i % BLOCK_N;
    const int pair = pair_ids[r];
    if (pair < num_valid && n0 + c < N) {
      float v = c_tile[i];
      if (MUL_ROUTED_WEIGHT) v *= topk_weights[pair];
      out[(int64_t)pair * N + n0 + c] = __float2bfloat16(v);
    }
  }
}

}  // namespace moe

// K must be a multiple of 8 and num_experts at most MAX_EXPERTS.
void fused_moe_gemm(const __nv_bfloat16* hidden, const __nv_bfloat16* w, __nv_bfloat16* out, const int32_t* topk_ids,
                    const float* topk_weights, int32_t* sorted_ids, int32_t* expert_ids, int32_t* total_post_pad,
                    int num_tokens, int num_experts, int top_k, int N, int K, bool mul_routed_weight,
                    cudaStream_t stream) {
  const int numel = num_tokens * top_k;
  moe::align_block_size_kernel<<<1, 256, 0, stream>>>(topk_ids, sorted_ids, expert_ids, total_post_pad, num_experts,
                                                      numel);
  // upper bound on the host, surplus blocks leave at once
  const int max_padded = numel + num_experts * (BLOCK_M - 1);
  dim3 grid((max_padded + BLOCK_M - 1) / BLOCK_M, (N + BLOCK_N - 1) / BLOCK_N);
  if (mul_routed_weight)
    moe::fused_moe_kernel<true><<<grid, 128, 0, stream>>>(hidden, w, out, topk_weights, sorted_ids, expert_ids,
                                                          total_post_pad, N, K, numel, top_k);
  else
    moe::fused_moe_kernel<false><<<grid, 128, 0, stream>>>(hidden, w, out, topk_weights, sorted_ids, expert_ids,
                                                           total_post_pad, N, K, numel, top_k);
}
