/**
 * @file   moe_grouped_gemm.cu
 * @brief  Expert GEMM of a mixture-of-experts layer (bf16, sm_80+).
 *
 * Routing has already been done by the caller. Every token is sent to top_k experts; the pair
 * (token, slot) has the id `token * top_k + slot`. The ids are sorted by expert:
 *
 *   sorted_ids     [num_tokens * top_k]   ids, the ones of expert 0 first
 *   expert_offsets [num_experts + 1]      expert e owns sorted_ids[expert_offsets[e] .. expert_offsets[e + 1])
 *
 * Kernel 1:  partial[id, :] = topk_weights[id] * (tokens[id / top_k, :] * weight[e]^T)
 * Kernel 2:  out[token, :]  = sum over slots of partial[token * top_k + slot, :]
 *
 * tokens [num_tokens, K] bf16, weight [num_experts, N, K] bf16, topk_weights [num_tokens, top_k] fp32,
 * partial [num_tokens * top_k, N] fp32, out [num_tokens, N] bf16.  N % 64 == 0, K % 64 == 0.
 */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace moe {

using bf16 = __nv_bfloat16;

struct GroupedGemmArgs {
  const bf16* tokens;
  const bf16* weight;
  const int* sorted_ids;
  const int* expert_offsets;
  const float* topk_weights;
  float* partial;
  bf16* out;
  int num_tokens;
  int num_experts;
  int top_k;
  int N;
  int K;
};

constexpr int kBlockM = 32;  // few tokens per expert, so keep this small
constexpr int kBlockN = 64;
constexpr int kBlockK = 64;
constexpr int kLd = kBlockK + 8;
constexpr int kThreads = 128;

namespace detail {

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const bf16* ptr) {
  const uint32_t addr = static_cast<uint32_t>(__cvta_generic_to_shared(ptr));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(addr));
}

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Which expert, and which tile of it, is tile number `tile`? Returns false past the last one.
__device__ __forceinline__ bool find_tile(const int* offsets, int num_experts, int tile, int& expert, int& first) {
  for (expert = 0; expert < num_experts; ++expert) {
    const int begin = offsets[expert];
    const int tiles = (offsets[expert + 1] - begin + kBlockM - 1) / kBlockM;
    if (tile < tiles) {
      first = begin + tile * kBlockM;
      return true;
    }
    tile -= tiles;
  }
  return false;
}

}  // namespace detail

__global__ void __launch_bounds__(kThreads) expert_gemm_kernel(const GroupedGemmArgs args) {
  __shared__ __align__(16) bf16 smem_a[kBlockM][kLd];
  __shared__ __align__(16) bf16 smem_b[kBlockN][kLd];
  __shared__ int ids[kBlockM];

  int expert, first;
  if (!detail::find_tile(args.expert_offsets, args.num_experts, blockIdx.y, expert, first)) return;
  const int last = args.expert_offsets[expert + 1];
  const int n0 = blockIdx.x * kBlockN;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp / 2 * 16;
  const int warp_n = warp % 2 * 32;

  if (tid < kBlockM) ids[tid] = first + tid < last ? args.sorted_ids[first + tid] : -1;
  __syncthreads();

  const bf16* weight = args.weight + static_cast<size_t>(expert) * args.N * args.K;

  // Eight threads read the 128 bytes of a row; a thread handles rows tid / 8, tid / 8 + 16, ...
  const int load_row = tid / 8;
  const int load_col = tid % 8 * 8;
  const bf16* a_src[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int id = ids[load_row + i * 16];
    a_src[i] = id < 0 ? nullptr : args.tokens + static_cast<size_t>(id / args.top_k) * args.K + load_col;
  }
  const bf16* b_src = weight + static_cast<size_t>(n0 + load_row) * args.K + load_col;

  float acc[4][4] = {};
  uint4 a_reg[2], b_reg[4];

  auto fetch = [&](int k0) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      a_reg[i] = a_src[i] ? *reinterpret_cast<const uint4*>(a_src[i] + k0) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      b_reg[i] = *reinterpret_cast<const uint4*>(b_src + static_cast<size_t>(i) * 16 * args.K + k0);
  };

  fetch(0);
  for (int k0 = 0; k0 < args.K; k0 += kBlockK) {
#pragma unroll
    for (int i = 0; i < 2; ++i) *reinterpret_cast<uint4*>(&smem_a[load_row + i * 16][load_col]) = a_reg[i];
#pragma unroll
    for (int i = 0; i < 4; ++i) *reinterpret_cast<uint4*>(&smem_b[load_row + i * 16][load_col]) = b_reg[i];
    __syncthreads();
    if (k0 + kBlockK < args.K) fetch(k0 + kBlockK);  // in flight during the math

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 16) {
      uint32_t a[4], b[2][4];
      detail::ldmatrix_x4(a, &smem_a[warp_m + lane % 16][kk + lane / 16 * 8]);
#pragma unroll
      for (int j = 0; j < 2; ++j)
        detail::ldmatrix_x4(b[j], &smem_b[warp_n + j * 16 + lane / 16 * 8 + lane % 8][kk + lane / 8 % 2 * 8]);
#pragma unroll
      for (int j = 0; j < 4; ++j) detail::mma_m16n8k16(acc[j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }

  // Scatter: the result goes back to the place of the id.
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int id = ids[warp_m + lane / 4 + h * 8];
    if (id < 0) continue;
    const float gate = args.topk_weights[id];
    float* dst = args.partial + static_cast<size_t>(id) * args.N + n0 + warp_n + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < 4; ++j)
      *reinterpret_cast<float2*>(dst + j * 8) = make_float2(gate * acc[j][2 * h], gate * acc[j][2 * h + 1]);
  }
}

__global__ void combine_kernel(const GroupedGemmArgs args) {
  const int token = blockIdx.x;
  for (int n = threadIdx.x; n < args.N; n += blockDim.x) {
    float sum = 0.f;
    for (int slot = 0; slot < args.top_k; ++slot)
      sum += args.partial[(static_cast<size_t>(token) * args.top_k + slot) * args.N + n];
    args.out[static_cast<size_t>(token) * args.N + n] = __float2bfloat16(sum);
  }
}

inline cudaError_t grouped_gemm(const GroupedGemmArgs& args, cudaStream_t stream) {
  if (args.N % kBlockN != 0 || args.K % kBlockK != 0) return cudaErrorInvalidValue;
  if (args.num_tokens == 0) return cudaSuccess;
  // Upper bound of the number of tiles: every expert may have one that is not full.
  const int max_tiles = args.num_tokens * args.top_k / kBlockM + args.num_experts;
  expert_gemm_kernel<<<dim3(args.N / kBlockN, max_tiles), kThreads, 0, stream>>>(args);
  cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess) return err;
  combine_kernel<<<args.num_tokens, 256, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace moe

extern "C" cudaError_t moe_grouped_gemm(const moe::GroupedGemmArgs* args, cudaStream_t stream) {
  return moe::grouped_gemm(*args, stream);
}
