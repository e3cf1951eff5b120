#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_fp16.h>
#include <stdint.h>

// Grouped GEMM of a mixture-of-experts layer, int8 activations (one scale per token) and int8 weights (one scale per
// output channel of each expert).
//
// Tokens come sorted by expert, as moe_align_block_size leaves them: sorted_token_ids has for each slot the index
// token * top_k + choice, padded per expert up to BLOCK_M with the value num_tokens * top_k; expert_ids has the expert of
// each block of slots (-1: none of ours, under expert parallelism; those blocks write zeros).

namespace moe {

constexpr int BLOCK_N = 64;
constexpr int BLOCK_K = 64;
constexpr int LDS = BLOCK_K + 16;  // bytes of a row in shared memory
constexpr int THREADS = 128;

__device__ inline void imma_16832(int32_t* c, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <int BLOCK_M, bool MUL_ROUTED_WEIGHT>
__global__ void moe_w8a8_kernel(
    const int8_t* __restrict__ a,            // [num_tokens, K]
    const float* __restrict__ a_scales,      // [num_tokens]
    const int8_t* __restrict__ w,            // [E, N, K]
    const float* __restrict__ w_scales,      // [E, N]
    const float* __restrict__ topk_weights,  // [num_tokens * top_k]
    const int32_t* __restrict__ sorted_token_ids,
    const int32_t* __restrict__ expert_ids,
    const int32_t* __restrict__ num_tokens_post_padded,
    __half* __restrict__ out,                // [num_tokens * top_k, N]
    int num_valid, int top_k, int N, int K) {
  const int slot0 = blockIdx.y * BLOCK_M;
  if (slot0 >= num_tokens_post_padded[0]) return;
  const int n0 = blockIdx.x * BLOCK_N;
  const int expert = expert_ids[blockIdx.y];

  __shared__ __align__(16) int8_t sa[BLOCK_M * LDS];
  __shared__ __align__(16) int8_t sw[BLOCK_N * LDS];
  __shared__ int32_t ids[BLOCK_M];

  const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
  if (tid < BLOCK_M) ids[tid] = sorted_token_ids[slot0 + tid];
  __syncthreads();

  if (expert < 0) {
    for (int i = tid; i < BLOCK_M * BLOCK_N; i += THREADS) {
      const int id = ids[i / BLOCK_N], n = n0 + i % BLOCK_N;
      if (id < num_valid && n < N) out[(int64_t)id * N + n] = __float2half(0.f);
    }
    return;
  }
  const int8_t* we = w + (int64_t)expert * N * K;

  constexpr int MT = BLOCK_M / 16;
  int32_t acc[MT][2][4];
#pragma unroll
  for (int i = 0; i < MT * 8; ++i) (&acc[0][0][0])[i] = 0;

  for (int k0 = 0; k0 < K; k0 += BLOCK_K) {
    // K is a multiple of 16: a 16 byte vector is all inside or all outside
    for (int i = tid; i < BLOCK_M * (BLOCK_K / 16); i += THREADS) {
      const int r = i >> 2, c = (i & 3) << 4;
      int4 v = make_int4(0, 0, 0, 0);
      if (ids[r] < num_valid && k0 + c < K) {
        const int token = ids[r] / top_k;
        v = *reinterpret_cast<const int4*>(a + (int64_t)token * K + k0 + c);
      }
      *reinterpret_cast<int4*>(sa + r * LDS + c) = v;
    }
    for (int i = tid; i < BLOCK_N * (BLOCK_K / 16); i += THREADS) {
      const int r = i >> 2, c = (i & 3) << 4;
      int4 v = make_int4(0, 0, 0, 0);
      if (n0 + r < N && k0 + c < K) v = __ldg(reinterpret_cast<const int4*>(we + (int64_t)(n0 + r) * K + k0 + c));
      *reinterpret_cast<int4*>(sw + r * LDS + c) = v;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 32) {
      uint32_t fb[2][2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int8_t* p = sw + (warp * 16 + j * 8 + (lane >> 2)) * LDS + kk + ((lane & 3) << 2);
        fb[j][0] = *reinterpret_cast<const uint32_t*>(p);
        fb[j][1] = *reinterpret_cast<const uint32_t*>(p + 16);
      }
#pragma unroll
      for (int i = 0; i < MT; ++i) {
        const int8_t* p = sa + (i * 16 + (lane >> 2)) * LDS + kk + ((lane & 3) << 2);
        uint32_t fa[4];
        fa[0] = *reinterpret_cast<const uint32_t*>(p);
        fa[1] = *reinterpret_cast<const uint32_t*>(p + 8 * LDS);
        fa[2] = *reinterpret_cast<const uint32_t*>(p + 16);
        fa[3] = *reinterpret_cast<const uint32_t*>(p + 8 * LDS + 16);
        imma_16832(acc[i][0], fa, fb[0]);
        imma_16832(acc[i][1], fa, fb[1]);
      }
    }
    __syncthreads();
  }

  // dequantize and scatter
#pragma unroll
  for (int i = 0; i < MT; ++i) {
#pragma unroll
    for (int half_tile = 0; half_tile < 2; ++half_tile) {
      const int id = ids[i * 16 + half_tile * 8 + (lane >> 2)];
      if (id >= num_valid) continue;
      float row_scale = a_scales[id / top_k];
      if (MUL_ROUTED_WEIGHT) row_scale *= topk_weights[id];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int n = n0 + warp * 16 + j * 8 + ((lane & 3) << 1);
        if (n >= N) continue;
        const float2 ws = *reinterpret_cast<const float2*>(w_scales + (int64_t)expert * N + n);
        const float x = acc[i][j][half_tile * 2] * row_scale * ws.x;
        const float y = acc[i][j][half_tile * 2 + 1] * row_scale * ws.y;
        *reinterpret_cast<__half2*>(out + (int64_t)id * N + n) = __floats2half2_rn(x, y);
      }
    }
  }
}

}  // namespace moe

#define LAUNCH_MOE(BM, MUL)                                                                                      \
  moe::moe_w8a8_kernel<BM, MUL><<<grid, moe::THREADS, 0, stream>>>(                                              \
      a.data_ptr<int8_t>(), a_scales.data_ptr<float>(), w.data_ptr<int8_t>(), w_scales.data_ptr<float>(),        \
      topk_weights.data_ptr<float>(), sorted_token_ids.data_ptr<int32_t>(), expert_ids.data_ptr<int32_t>(),      \
      num_tokens_post_padded.data_ptr<int32_t>(), reinterpret_cast<__half*>(out.data_ptr<at::Half>()),           \
      num_tokens * static_cast<int>(top_k), static_cast<int>(top_k), n, k)

torch::Tensor moe_w8a8_gemm(torch::Tensor a, torch::Tensor a_scales, torch::Tensor w, torch::Tensor w_scales,
                            torch::Tensor topk_weights, torch::Tensor sorted_token_ids, torch::Tensor expert_ids,
                            torch::Tensor num_tokens_post_padded, int64_t top_k, int64_t block_size_m,
                            bool mul_routed_weight) {
  TORCH_CHECK(a.is_cuda() && w.is_cuda(), "expected CUDA tensors");
  TORCH_CHECK(a.is_contiguous() && w.is_contiguous(), "expected contiguous tensors");
  TORCH_CHECK(a.scalar_type() == torch::kInt8 && w.scalar_type() == torch::kInt8, "expected int8");
  const int num_tokens = a.size(0), k = a.size(1), n = w.size(1);
  TORCH_CHECK(w.size(2) == k, "K of the activations and the weights differ");
  TORCH_CHECK(k % 16 == 0 && n % 2 == 0, "K must be a multiple of 16, and N even");

  const at::cuda::OptionalCUDAGuard device_guard(device_of(a));
  auto out = torch::empty({num_tokens * top_k, n}, a.options().dtype(torch::kFloat16));
  const dim3 grid((n + moe::BLOCK_N - 1) / moe::BLOCK_N, sorted_token_ids.size(0) / block_size_m);
  cudaStream_t stream = at::cuda::getCurrentCUDAStream();
  if (block_size_m == 16) {
    if (mul_routed_weight) LAUNCH_MOE(16, true); else LAUNCH_MOE(16, false);
  } else if (block_size_m == 32) {
    if (mul_routed_weight) LAUNCH_MOE(32, true); else LAUNCH_MOE(32, false);
  } else {
    TORCH_CHECK(false, "block_size_m must be 16 or 32");
  }
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("moe_w8a8_gemm", &moe_w8a8_gemm, "W8A8 grouped GEMM for mixture-of-experts");
}
