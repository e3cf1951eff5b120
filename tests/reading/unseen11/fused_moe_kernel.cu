// Fused MoE GEMM: tokens are sorted by expert and padded to a multiple of BLOCK_M (moe_align_block_size).
//   out[t, n] = sum_k a[t / top_k, k] * w[e, n, k]   (* topk_weight[t])
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <mma.h>

#define CHECK_CUDA(x) TORCH_CHECK((x).is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIG(x) TORCH_CHECK((x).is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIG(x)

namespace moe {
using namespace nvcuda;

constexpr int BLOCK_M = 16;
constexpr int BLOCK_N = 64;
constexpr int BLOCK_K = 32;
constexpr int NUM_THREADS = 128;

template <bool MUL_ROUTED_WEIGHT>
__global__ __launch_bounds__(NUM_THREADS) void fused_moe_kernel(
    const half* __restrict__ a,                         // [num_tokens, K]
    const half* __restrict__ w,                         // [E, N, K]
    half* __restrict__ out,                             // [num_tokens * top_k, N]
    const float* __restrict__ topk_weights,             // [num_tokens * top_k]
    const int32_t* __restrict__ sorted_token_ids,       // [EM]
    const int32_t* __restrict__ expert_ids,             // [EM / BLOCK_M]
    const int32_t* __restrict__ num_tokens_post_padded, // [1]
    int N, int K, int num_valid_tokens, int top_k) {
  const int pid_m = blockIdx.y, pid_n = blockIdx.x;
  if (pid_m * BLOCK_M >= num_tokens_post_padded[0]) return;

  __shared__ __align__(32) half s_a[BLOCK_M][BLOCK_K + 8];
  __shared__ __align__(32) half s_w[BLOCK_N][BLOCK_K + 8];
  __shared__ float s_c[BLOCK_M][BLOCK_N + 4];
  __shared__ int s_tok[BLOCK_M];

  const int tid = threadIdx.x, warp = tid >> 5;
  const int expert = expert_ids[pid_m];
  const half* w_e = w + (size_t)expert * N * K;
  if (tid < BLOCK_M) s_tok[tid] = sorted_token_ids[pid_m * BLOCK_M + tid];
  __syncthreads();

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.0f);
  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    for (int i = tid; i < BLOCK_M * BLOCK_K / 8; i += NUM_THREADS) {
      const int r = i / (BLOCK_K / 8), c = (i % (BLOCK_K / 8)) * 8;
      const int t = s_tok[r];
      uint4 v = make_uint4(0u, 0u, 0u, 0u);
      if (t < num_valid_tokens) v = *reinterpret_cast<const uint4*>(a + (size_t)(t / top_k) * K + k0 + c);
      *reinterpret_cast<uint4*>(&s_a[r][c]) = v;
    }
    for (int i = tid; i < BLOCK_N * BLOCK_K / 8; i += NUM_THREADS) {
      const int r = i / (BLOCK_K / 8), c = (i % (BLOCK_K / 8)) * 8;
      *reinterpret_cast<uint4*>(&s_w[r][c]) = *reinterpret_cast<const uint4*>(w_e + (size_t)(pid_n * BLOCK_N + r) * K + k0 + c);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
      wmma::load_matrix_sync(fa, &s_a[0][kk], BLOCK_K + 8);
      wmma::load_matrix_sync(fb, &s_w[warp * 16][kk], BLOCK_K + 8);
      wmma::mma_sync(acc, fa, fb, acc);
    }
    __syncthreads();
  }
  wmma::store_matrix_sync(&s_c[0][warp * 16], acc, BLOCK_N + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < BLOCK_M * BLOCK_N; i += NUM_THREADS) {
    const int r = i / BLOCK_N, c = i % BLOCK_N, t = s_tok[r];
    if (t >= num_valid_tokens) continue;
    float v = s_c[r][c];
    if (MUL_ROUTED_WEIGHT) v *= topk_weights[t];
    out[(size_t)t * N + pid_n * BLOCK_N + c] = __float2half_rn(v);
  }
}
}  // namespace moe

void fused_moe(torch::Tensor a, torch::Tensor w, torch::Tensor out, torch::Tensor topk_weights,
               torch::Tensor sorted_token_ids, torch::Tensor expert_ids, torch::Tensor num_tokens_post_padded,
               bool mul_routed_weight, int64_t top_k) {
  CHECK_INPUT(a);
  CHECK_INPUT(w);
  CHECK_INPUT(out);
  TORCH_CHECK(a.scalar_type() == at::kHalf);
  const int N = w.size(1), K = w.size(2);
  TORCH_CHECK(N % moe::BLOCK_N == 0 && K % moe::BLOCK_K == 0);
  const int EM = sorted_token_ids.size(0);
  const at::cuda::OptionalCUDAGuard guard(device_of(a));
  dim3 grid(N / moe::BLOCK_N, (EM + moe::BLOCK_M - 1) / moe::BLOCK_M);
  auto stream = at::cuda::getCurrentCUDAStream();
  auto kernel = mul_routed_weight ? moe::fused_moe_kernel<true> : moe::fused_moe_kernel<false>;
  kernel<<<grid, moe::NUM_THREADS, 0, stream>>>(
      reinterpret_cast<const half*>(a.data_ptr()), reinterpret_cast<const half*>(w.data_ptr()),
      reinterpret_cast<half*>(out.data_ptr()), topk_weights.data_ptr<float>(), sorted_token_ids.data_ptr<int32_t>(),
      expert_ids.data_ptr<int32_t>(), num_tokens_post_padded.data_ptr<int32_t>(), N, K, a.size(0) * top_k, top_k);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("fused_moe", &fused_moe); }
