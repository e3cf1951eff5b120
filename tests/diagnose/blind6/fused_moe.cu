// Expert GEMM of a mixture-of-experts layer, after the fused_moe kernels of serving engines.
//
// Every token goes to `top_k` experts, so there are num_tokens * top_k "slots"; slot s belongs to token s / top_k.
// The slots are sorted by expert on the host side and each expert's run is padded to a multiple of kBlockM with the
// invalid slot num_valid, so that a block of rows has exactly one expert:
//
//   out[s][:] = (x[s / top_k][:] * w[expert of s]^T) * (topk_weight[s], if mul_routed_weight)
//
//   x [num_tokens, K] bf16    w [experts, N, K] bf16    out [num_tokens * top_k, N] bf16
// An expert that lives on another device has id -1: its slots are written as zeros.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdint>

namespace moe {

using bf16 = __nv_bfloat16;
namespace wmma = nvcuda::wmma;

template <int M, int N, int K>
struct Tile {
  static constexpr int kM = M, kN = N, kK = K;
  static constexpr int kSkew = 8;
  static constexpr int kPitch = K + kSkew;
  static constexpr int kOutPitch = N + 4;
  static constexpr int kWarpsM = M / 16;
  static constexpr int kWarpsN = N / 32;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
};

template <typename T>
union SharedStorage {
  struct {
    bf16 x[T::kM * T::kPitch];
    bf16 w[T::kN * T::kPitch];
  } in;
  float out[T::kM * T::kOutPitch];
};

template <typename T>
__device__ void write_zeros(bf16* out, const int* slots, int n0, int N, int num_valid) {
  for (int i = threadIdx.x; i < T::kM * T::kN; i += T::kThreads) {
    const int slot = slots[i / T::kN], n = n0 + i % T::kN;
    if (slot < num_valid && n < N) out[static_cast<int64_t>(slot) * N + n] = __float2bfloat16(0.0f);
  }
}

template <typename T, bool kMulWeight>
__global__ void __launch_bounds__(T::kThreads)
    fused_moe_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, bf16* __restrict__ out,
                     const float* __restrict__ topk_weight, const int* __restrict__ sorted_slots,
                     const int* __restrict__ expert_ids, const int* __restrict__ num_slots_padded, int num_valid,
                     int top_k, int N, int K) {
  __shared__ __align__(128) SharedStorage<T> smem;
  __shared__ int slots[T::kM];

  const int m_block = blockIdx.y;
  if (m_block * T::kM >= *num_slots_padded) return;

  const int n0 = blockIdx.x * T::kN;
  const int warp = threadIdx.x / 32;
  const int warp_m = warp / T::kWarpsN * 16, warp_n = warp % T::kWarpsN * 32;

  if (threadIdx.x < T::kM) slots[threadIdx.x] = sorted_slots[m_block * T::kM + threadIdx.x];
  __syncthreads();

  const int expert = expert_ids[m_block];
  if (expert < 0) {
    write_zeros<T>(out, slots, n0, N, num_valid);
    return;
  }
  const bf16* w_expert = w + static_cast<int64_t>(expert) * N * K;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  for (auto& tile : acc) wmma::fill_fragment(tile, 0.0f);

  for (int k0 = 0; k0 < K; k0 += T::kK) {
    constexpr int kVecs = T::kK / 8;
    for (int i = threadIdx.x; i < T::kM * kVecs; i += T::kThreads) {
      const int row = i / kVecs, col = i % kVecs * 8;
      const int slot = slots[row];
      uint4 data{};
      if (slot < num_valid && k0 + col < K)
        data = *reinterpret_cast<const uint4*>(x + static_cast<int64_t>(slot / top_k) * K + k0 + col);
      *reinterpret_cast<uint4*>(&smem.in.x[row * T::kPitch + col]) = data;
    }
    for (int i = threadIdx.x; i < T::kN * kVecs; i += T::kThreads) {
      const int row = i / kVecs, col = i % kVecs * 8;
      uint4 data{};
      if (n0 + row < N && k0 + col < K)
        data = *reinterpret_cast<const uint4*>(w_expert + static_cast<int64_t>(n0 + row) * K + k0 + col);
      *reinterpret_cast<uint4*>(&smem.in.w[row * T::kPitch + col]) = data;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < T::kK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> a;
      wmma::load_matrix_sync(a, &smem.in.x[warp_m * T::kPitch + kk], T::kPitch);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> b;
        wmma::load_matrix_sync(b, &smem.in.w[(warp_n + j * 16) * T::kPitch + kk], T::kPitch);
        wmma::mma_sync(acc[j], a, b, acc[j]);
      }
    }
    __syncthreads();  // before the tiles are overwritten, by the next ones or by the output
  }

  for (int j = 0; j < 2; ++j)
    wmma::store_matrix_sync(&smem.out[warp_m * T::kOutPitch + warp_n + j * 16], acc[j], T::kOutPitch,
                            wmma::mem_row_major);
  __syncthreads();

  for (int i = threadIdx.x; i < T::kM * T::kN; i += T::kThreads) {
    const int row = i / T::kN, col = i % T::kN;
    const int slot = slots[row];
    if (slot >= num_valid || n0 + col >= N) continue;
    float value = smem.out[row * T::kOutPitch + col];
    if (kMulWeight) value *= topk_weight[slot];
    out[static_cast<int64_t>(slot) * N + n0 + col] = __float2bfloat16(value);
  }
}

}  // namespace moe

void fused_moe(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* out, const float* topk_weight,
               const int* sorted_slots, const int* expert_ids, const int* num_slots_padded, int max_blocks,
               int num_tokens, int top_k, int N, int K, cudaStream_t stream) {
  using T = moe::Tile<32, 64, 32>;
  const dim3 grid((N + T::kN - 1) / T::kN, max_blocks);
  moe::fused_moe_kernel<T, true><<<grid, T::kThreads, 0, stream>>>(
      x, w, out, topk_weight, sorted_slots, expert_ids, num_slots_padded, num_tokens * top_k, top_k, N, K);
}
