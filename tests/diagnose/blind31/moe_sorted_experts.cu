// Expert GEMM of a fused MoE layer, on token blocks that were sorted by expert (moe_align_block_size).
//
//   sorted_token_ids [EM]        slots (= token * top_k + choice), padded per expert to a multiple of BLOCK_M with
//                                num_valid_tokens
//   expert_ids       [EM / BLOCK_M]
//   a [M, K], w [E, N, K], topk_weights [M * top_k], c [M * top_k, N]
//
//   c[slot] = (topk_weights[slot] *) a[slot / top_k] @ w[expert]^T
//
// The next k-slice travels through registers while the current one is multiplied; two shared-memory buffers, one
// barrier per slice.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace engine {
namespace moe {

template <typename scalar_t>
struct TypeTraits;

template <>
struct TypeTraits<__nv_bfloat16> {
  using vec2_t = __nv_bfloat162;
  static __device__ __forceinline__ vec2_t to_vec2(float x, float y) { return __floats2bfloat162_rn(x, y); }
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <>
struct TypeTraits<half> {
  using vec2_t = half2;
  static __device__ __forceinline__ vec2_t to_vec2(float x, float y) { return __floats2half2_rn(x, y); }
  static __device__ __forceinline__ void mma(float (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
};

template <int NUM>
__device__ __forceinline__ void ldmatrix(uint32_t (&reg)[NUM], void const* smem_ptr) {
  uint32_t const addr = static_cast<uint32_t>(__cvta_generic_to_shared(smem_ptr));
  if constexpr (NUM == 4) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(reg[0]), "=r"(reg[1]), "=r"(reg[2]), "=r"(reg[3])
                 : "r"(addr));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
                 : "=r"(reg[0]), "=r"(reg[1])
                 : "r"(addr));
  }
}

template <typename scalar_t, int BLOCK_M, int BLOCK_N, int BLOCK_K, bool MUL_ROUTED_WEIGHT>
__global__ void __launch_bounds__(128)
moe_gemm_sorted_kernel(scalar_t const* __restrict__ a, scalar_t const* __restrict__ w, scalar_t* __restrict__ c,
                       float const* __restrict__ topk_weights, int32_t const* __restrict__ sorted_token_ids,
                       int32_t const* __restrict__ expert_ids, int32_t num_valid_tokens, int32_t N, int32_t K,
                       int32_t top_k) {
  using Traits = TypeTraits<scalar_t>;
  constexpr int NUM_THREADS = 128;
  constexpr int VEC = 8;  // 16 bytes
  constexpr int LDS = BLOCK_K + 8;
  constexpr int VECS_PER_ROW = BLOCK_K / VEC;
  constexpr int A_VECS = BLOCK_M * VECS_PER_ROW / NUM_THREADS;
  constexpr int W_VECS = BLOCK_N * VECS_PER_ROW / NUM_THREADS;
  // 2 x 2 warps
  constexpr int WARP_M = BLOCK_M / 2;
  constexpr int WARP_N = BLOCK_N / 2;
  constexpr int M_FRAGS = WARP_M / 16;
  constexpr int N_FRAGS = WARP_N / 8;
  static_assert(A_VECS >= 1 && W_VECS >= 1, "tile too small for 128 threads");

  __shared__ __align__(16) scalar_t a_smem[2][BLOCK_M][LDS];
  __shared__ __align__(16) scalar_t w_smem[2][BLOCK_N][LDS];
  __shared__ int32_t slots[BLOCK_M];

  int const tid = threadIdx.x;
  int const lane = tid & 31;
  int const warp_m = (tid >> 5) & 1;
  int const warp_n = tid >> 6;
  int const n_start = blockIdx.y * BLOCK_N;

  if (tid < BLOCK_M) slots[tid] = sorted_token_ids[blockIdx.x * BLOCK_M + tid];
  __syncthreads();
  // an expert's block that holds padding only
  if (slots[0] >= num_valid_tokens) return;

  int64_t const expert = expert_ids[blockIdx.x];
  scalar_t const* w_expert = w + expert * N * K;

  uint4 a_reg[A_VECS];
  uint4 w_reg[W_VECS];

  auto fetch = [&](int k_start) {
#pragma unroll
    for (int i = 0; i < A_VECS; ++i) {
      int const vec = tid + i * NUM_THREADS;
      int const row = vec / VECS_PER_ROW;
      int const k = k_start + (vec % VECS_PER_ROW) * VEC;
      int const slot = slots[row];
      a_reg[i] = make_uint4(0, 0, 0, 0);
      if (slot < num_valid_tokens && k < K) {
        int64_t const token = slot / top_k;
        a_reg[i] = *reinterpret_cast<uint4 const*>(a + token * K + k);
      }
    }
#pragma unroll
    for (int i = 0; i < W_VECS; ++i) {
      int const vec = tid + i * NUM_THREADS;
      int const n = n_start + vec / VECS_PER_ROW;
      int const k = k_start + (vec % VECS_PER_ROW) * VEC;
      w_reg[i] = make_uint4(0, 0, 0, 0);
      if (n < N && k < K) w_reg[i] = *reinterpret_cast<uint4 const*>(w_expert + static_cast<int64_t>(n) * K + k);
    }
  };

  auto stash = [&](int buf) {
#pragma unroll
    for (int i = 0; i < A_VECS; ++i) {
      int const vec = tid + i * NUM_THREADS;
      *reinterpret_cast<uint4*>(&a_smem[buf][vec / VECS_PER_ROW][(vec % VECS_PER_ROW) * VEC]) = a_reg[i];
    }
#pragma unroll
    for (int i = 0; i < W_VECS; ++i) {
      int const vec = tid + i * NUM_THREADS;
      *reinterpret_cast<uint4*>(&w_smem[buf][vec / VECS_PER_ROW][(vec % VECS_PER_ROW) * VEC]) = w_reg[i];
    }
  };

  float acc[M_FRAGS][N_FRAGS][4];
#pragma unroll
  for (int mi = 0; mi < M_FRAGS; ++mi)
#pragma unroll
    for (int ni = 0; ni < N_FRAGS; ++ni)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[mi][ni][e] = 0.f;

  fetch(0);
  stash(0);
  __syncthreads();

  int buf = 0;
  for (int k_start = 0; k_start < K; k_start += BLOCK_K) {
    bool const has_next = k_start + BLOCK_K < K;
    if (has_next) fetch(k_start + BLOCK_K);

#pragma unroll
    for (int kk = 0; kk < BLOCK_K; kk += 16) {
      uint32_t a_frag[M_FRAGS][4];
      uint32_t w_frag[N_FRAGS][2];
#pragma unroll
      for (int mi = 0; mi < M_FRAGS; ++mi)
        ldmatrix(a_frag[mi], &a_smem[buf][warp_m * WARP_M + mi * 16 + (lane & 15)][kk + (lane >> 4) * 8]);
#pragma unroll
      for (int ni = 0; ni < N_FRAGS; ++ni)
        ldmatrix(w_frag[ni], &w_smem[buf][warp_n * WARP_N + ni * 8 + (lane & 7)][kk + ((lane >> 3) & 1) * 8]);
#pragma unroll
      for (int mi = 0; mi < M_FRAGS; ++mi)
#pragma unroll
        for (int ni = 0; ni < N_FRAGS; ++ni) Traits::mma(acc[mi][ni], a_frag[mi], w_frag[ni]);
    }

    if (has_next) {
      stash(buf ^ 1);
      __syncthreads();
      buf ^= 1;
    }
  }

#pragma unroll
  for (int mi = 0; mi < M_FRAGS; ++mi) {
#pragma unroll
    for (int half_tile = 0; half_tile < 2; ++half_tile) {
      int const slot = slots[warp_m * WARP_M + mi * 16 + half_tile * 8 + (lane >> 2)];
      if (slot >= num_valid_tokens) continue;
      float const weight = MUL_ROUTED_WEIGHT ? topk_weights[slot] : 1.f;
      scalar_t* c_row = c + static_cast<int64_t>(slot) * N;
#pragma unroll
      for (int ni = 0; ni < N_FRAGS; ++ni) {
        int const n = n_start + warp_n * WARP_N + ni * 8 + (lane & 3) * 2;
        if (n < N)
          *reinterpret_cast<typename Traits::vec2_t*>(c_row + n) =
              Traits::to_vec2(acc[mi][ni][half_tile * 2] * weight, acc[mi][ni][half_tile * 2 + 1] * weight);
      }
    }
  }
}

template <typename scalar_t>
void moe_gemm_sorted(scalar_t const* a, scalar_t const* w, scalar_t* c, float const* topk_weights,
                     int32_t const* sorted_token_ids, int32_t const* expert_ids, int32_t num_blocks, int32_t num_tokens,
                     int32_t N, int32_t K, int32_t top_k, bool mul_routed_weight, cudaStream_t stream) {
  constexpr int BLOCK_M = 32, BLOCK_N = 64, BLOCK_K = 32;
  dim3 const grid(num_blocks, (N + BLOCK_N - 1) / BLOCK_N);
  auto kernel = mul_routed_weight ? moe_gemm_sorted_kernel<scalar_t, BLOCK_M, BLOCK_N, BLOCK_K, true>
                                  : moe_gemm_sorted_kernel<scalar_t, BLOCK_M, BLOCK_N, BLOCK_K, false>;
  kernel<<<grid, 128, 0, stream>>>(a, w, c, topk_weights, sorted_token_ids, expert_ids, num_tokens * top_k, N, K, top_k);
}

}  // namespace moe
}  // namespace engine
