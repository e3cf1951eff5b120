// Grouped expert GEMM for mixture-of-experts decoding, bf16 weights.
//
//   output[slot, :] = topk_weight[slot] * input[slot / topk, :] @ weights[expert(slot)]^T
//
// Slots (token * topk + choice) are sorted by expert beforehand: those of expert e are
// sorted_slots[expert_offsets[e]] ... sorted_slots[expert_offsets[e + 1] - 1].
// Few tokens meet in an expert while decoding, hence 8x32x16 fragments.
#include <cstdint>
#include <cuda_bf16.h>
#include <mma.h>

namespace llm_engine {
namespace moe {

using namespace nvcuda::wmma;

struct MoeParams {
  const __nv_bfloat16* input;     // [num_tokens, size_k]
  const __nv_bfloat16* weights;   // [num_experts, size_n, size_k]
  const int32_t* sorted_slots;    // [num_tokens * topk]
  const int32_t* expert_offsets;  // [num_experts + 1]
  const float* topk_weights;      // [num_tokens * topk]
  __nv_bfloat16* output;          // [num_tokens * topk, size_n]
  int topk;
  int size_n;
  int size_k;
};

constexpr int kTileM = 16;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kSkew = 8;
constexpr int kStride = kTileK + kSkew;
constexpr int kStrideOut = kTileN + 4;
constexpr int kVec = 8;
constexpr int kThreads = 128;

struct Storage {
  alignas(128) __nv_bfloat16 a[kTileM * kStride];
  alignas(128) __nv_bfloat16 b[kTileN * kStride];
  alignas(128) float out[kTileM * kStrideOut];
  int32_t slots[kTileM];
};

// Rows of activations, gathered by slot; rows without a slot are zero.
__device__ __forceinline__ void gather_input(Storage& st, const MoeParams& p, int k0) {
  for (int i = threadIdx.x; i < kTileM * kTileK / kVec; i += kThreads) {
    const int m = i / (kTileK / kVec);
    const int k = (i % (kTileK / kVec)) * kVec;
    const int slot = st.slots[m];
    int4 v = {0, 0, 0, 0};
    if (slot >= 0 && k0 + k < p.size_k) {
      const int token = slot / p.topk;
      v = __ldg(reinterpret_cast<const int4*>(p.input + static_cast<int64_t>(token) * p.size_k + k0 + k));
    }
    *reinterpret_cast<int4*>(st.a + m * kStride + k) = v;
  }
}

__device__ __forceinline__ void load_weights(Storage& st, const MoeParams& p, const __nv_bfloat16* w, int n0, int k0) {
  for (int i = threadIdx.x; i < kTileN * kTileK / kVec; i += kThreads) {
    const int n = i / (kTileK / kVec);
    const int k = (i % (kTileK / kVec)) * kVec;
    int4 v = {0, 0, 0, 0};
    if (n0 + n < p.size_n && k0 + k < p.size_k) {
      v = __ldg(reinterpret_cast<const int4*>(w + static_cast<int64_t>(n0 + n) * p.size_k + k0 + k));
    }
    *reinterpret_cast<int4*>(st.b + n * kStride + k) = v;
  }
}

// grid: (ceil(size_n / kTileN), num_experts)
__global__ void __launch_bounds__(kThreads) moe_decode_gemm(MoeParams p) {
  __shared__ Storage st;

  const int expert = blockIdx.y;
  const int n0 = blockIdx.x * kTileN;
  const int begin = p.expert_offsets[expert];
  const int end = p.expert_offsets[expert + 1];
  const __nv_bfloat16* w = p.weights + static_cast<int64_t>(expert) * p.size_n * p.size_k;

  const int warp = threadIdx.x / 32;
  const int warp_m = (warp / 2) * 8;
  const int warp_n = (warp % 2) * 32;

  for (int first = begin; first < end; first += kTileM) {
    if (threadIdx.x < kTileM) {
      const int i = first + threadIdx.x;
      st.slots[threadIdx.x] = i < end ? p.sorted_slots[i] : -1;
    }

    fragment<accumulator, 8, 32, 16, float> acc;
    fill_fragment(acc, 0.0f);

    for (int k0 = 0; k0 < p.size_k; k0 += kTileK) {
      __syncthreads();
      gather_input(st, p, k0);
      load_weights(st, p, w, n0, k0);
      __syncthreads();

#pragma unroll
      for (int kk = 0; kk < kTileK; kk += 16) {
        fragment<matrix_a, 8, 32, 16, __nv_bfloat16, row_major> fa;
        fragment<matrix_b, 8, 32, 16, __nv_bfloat16, col_major> fb;
        load_matrix_sync(fa, st.a + warp_m * kStride + kk, kStride);
        load_matrix_sync(fb, st.b + warp_n * kStride + kk, kStride);
        mma_sync(acc, fa, fb, acc);
      }
    }

    store_matrix_sync(st.out + warp_m * kStrideOut + warp_n, acc, kStrideOut, mem_row_major);
    __syncthreads();

    for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
      const int m = i / kTileN;
      const int n = i % kTileN;
      const int slot = st.slots[m];
      if (slot >= 0 && n0 + n < p.size_n) {
        const float scaled = st.out[m * kStrideOut + n] * p.topk_weights[slot];
        p.output[static_cast<int64_t>(slot) * p.size_n + n0 + n] = __float2bfloat16(scaled);
      }
    }
    __syncthreads();
  }
}

}  // namespace moe
}  // namespace llm_engine
