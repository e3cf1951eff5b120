// Expert GEMM of a mixture of experts layer: rows of x are gathered by the sorted token list, results are scattered back.
// sorted_token_ids is padded per expert to a multiple of BLOCK_M; a padding entry is num_valid_tokens.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace moe {

using bf16 = __nv_bfloat16;

template <int kBlockM, int kBlockN, int kBlockK>
struct Smem {
  bf16 a[2][kBlockM][kBlockK + 8];
  bf16 b[2][kBlockN][kBlockK + 8];
};

__device__ __forceinline__ void cp16(void* dst, const void* src, bool pred) {
  const uint32_t d = static_cast<uint32_t>(__cvta_generic_to_shared(dst));
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(d), "l"(src), "r"(bytes));
}

__device__ __forceinline__ void mma_bf16(float* c, const uint32_t* a, const uint32_t* b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// out[token] = (routed weight) * x[token / top_k] @ w[expert].T
template <int kBlockM, int kBlockN, int kBlockK, bool kMulRoutedWeight>
__global__ void __launch_bounds__(128)
moe_gemm_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, bf16* __restrict__ out,
                const float* __restrict__ topk_weights, const int32_t* __restrict__ sorted_token_ids,
                const int32_t* __restrict__ expert_ids, const int32_t* __restrict__ num_tokens_post_padded,
                int N, int K, int num_valid_tokens, int top_k) {
  __shared__ __align__(16) Smem<kBlockM, kBlockN, kBlockK> smem;
  __shared__ int rows[kBlockM];

  const int m0 = blockIdx.y * kBlockM, n0 = blockIdx.x * kBlockN;
  if (m0 >= num_tokens_post_padded[0]) return;
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, g = lane / 4, t = lane % 4;
  if (tid < kBlockM) rows[tid] = sorted_token_ids[m0 + tid];
  const bf16* we = w + (int64_t)expert_ids[blockIdx.y] * N * K;
  __syncthreads();

  auto load = [&](int stage, int k0) {
    for (int i = tid; i < kBlockM * kBlockK / 8; i += 128) {
      const int r = i / (kBlockK / 8), c = i % (kBlockK / 8) * 8;
      const bool ok = rows[r] < num_valid_tokens;
      cp16(&smem.a[stage][r][c], x + (ok ? (int64_t)(rows[r] / top_k) * K + k0 + c : 0), ok);
    }
    for (int i = tid; i < kBlockN * kBlockK / 8; i += 128) {
      const int r = i / (kBlockK / 8), c = i % (kBlockK / 8) * 8;
      const bool ok = n0 + r < N;
      cp16(&smem.b[stage][r][c], we + (ok ? (int64_t)(n0 + r) * K + k0 + c : 0), ok);
    }
    asm volatile("cp.async.commit_group;\n");
  };

  constexpr int kNT = kBlockN / 4 / 8;  // n tiles of a warp
  float acc[kBlockM / 16][kNT][4] = {};
  const int steps = K / kBlockK;
  load(0, 0);
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) {
      load((s + 1) & 1, (s + 1) * kBlockK);
      asm volatile("cp.async.wait_group 1;\n");
    } else {
      asm volatile("cp.async.wait_group 0;\n");
    }
    __syncthreads();
    const auto& a = smem.a[s & 1];
    const auto& b = smem.b[s & 1];
#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 16) {
#pragma unroll
      for (int i = 0; i < kBlockM / 16; ++i) {
        uint32_t af[4];
        af[0] = *reinterpret_cast<const uint32_t*>(&a[i * 16 + g][kk + t * 2]);
        af[1] = *reinterpret_cast<const uint32_t*>(&a[i * 16 + g + 8][kk + t * 2]);
        af[2] = *reinterpret_cast<const uint32_t*>(&a[i * 16 + g][kk + t * 2 + 8]);
        af[3] = *reinterpret_cast<const uint32_t*>(&a[i * 16 + g + 8][kk + t * 2 + 8]);
#pragma unroll
        for (int j = 0; j < kNT; ++j) {
          const int n = (warp * kNT + j) * 8 + g;
          uint32_t bfr[2];
          bfr[0] = *reinterpret_cast<const uint32_t*>(&b[n][kk + t * 2]);
          bfr[1] = *reinterpret_cast<const uint32_t*>(&b[n][kk + t * 2 + 8]);
          mma_bf16(acc[i][j], af, bfr);
        }
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < kBlockM / 16; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int token = rows[i * 16 + g + half * 8];
      if (token >= num_valid_tokens) continue;
      const float scale = kMulRoutedWeight ? topk_weights[token] : 1.f;
#pragma unroll
      for (int j = 0; j < kNT; ++j) {
        const int n = n0 + (warp * kNT + j) * 8 + t * 2;
        if (n < N)
          *reinterpret_cast<__nv_bfloat162*>(out + (int64_t)token * N + n) =
              __floats2bfloat162_rn(acc[i][j][half * 2] * scale, acc[i][j][half * 2 + 1] * scale);
      }
    }
}

}  // namespace moe

void moe_gemm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* out, const float* topk_weights,
              const int32_t* sorted_token_ids, const int32_t* expert_ids, const int32_t* num_tokens_post_padded,
              int num_tokens, int num_experts, int N, int K, int top_k, bool mul_routed_weight, cudaStream_t stream) {
  constexpr int kBlockM = 16, kBlockN = 64, kBlockK = 32;
  const int max_padded = num_tokens * top_k + num_experts * (kBlockM - 1);
  dim3 grid((N + kBlockN - 1) / kBlockN, (max_padded + kBlockM - 1) / kBlockM);
  if (mul_routed_weight) {
    moe::moe_gemm_kernel<kBlockM, kBlockN, kBlockK, true><<<grid, 128, 0, stream>>>(
        x, w, out, topk_weights, sorted_token_ids, expert_ids, num_tokens_post_padded, N, K, num_tokens * top_k, top_k);
  } else {
    moe::moe_gemm_kernel<kBlockM, kBlockN, kBlockK, false><<<grid, 128, 0, stream>>>(
        x, w, out, topk_weights, sorted_token_ids, expert_ids, num_tokens_post_padded, N, K, num_tokens * top_k, top_k);
  }
}
