// MoE router: softmax over experts, then the k largest, weights renormalised.
#include <cuda_runtime.h>
#include <math.h>

template <int MAX_EXPERTS = 64>
__global__ void topk_gating_softmax(const float* __restrict__ logits,  // [num_tokens, num_experts]
                                    float* __restrict__ topk_weights,  // [num_tokens, k]
                                    int* __restrict__ topk_ids,        // [num_tokens, k]
                                    int num_tokens, int num_experts, int k, bool renormalize) {
  const int token = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  const int lane = threadIdx.x & 31;
  if (token >= num_tokens) return;
  constexpr int PER_LANE = MAX_EXPERTS / 32;
  float p[PER_LANE];
  float mx = -INFINITY;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    int e = i * 32 + lane;
    p[i] = e < num_experts ? logits[token * num_experts + e] : -INFINITY;
    mx = fmaxf(mx, p[i]);
  }
  for (int o = 16; o; o >>= 1) mx = fmaxf(mx, __shfl_xor_sync(~0u, mx, o));
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    p[i] = expf(p[i] - mx);
    sum += p[i];
  }
  for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) p[i] /= sum;

  float chosen = 0.f;
  for (int j = 0; j < k; j++) {
    float best = -1.f;
    int arg = MAX_EXPERTS;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
      int e = i * 32 + lane;
      if (e < num_experts && p[i] > best) {
        best = p[i];
        arg = e;
      }
    }
    for (int o = 16; o; o >>= 1) {
      float ob = __shfl_xor_sync(~0u, best, o);
      int oa = __shfl_xor_sync(~0u, arg, o);
      if (ob > best || (ob == best && oa < arg)) {
        best = ob;
        arg = oa;
      }
    }
    if (lane == 0) {
      topk_weights[token * k + j] = best;
      topk_ids[token * k + j] = arg;
    }
    chosen += best;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++)
      if (i * 32 + lane == arg) p[i] = -2.f;
  }
  __syncwarp();
  if (renormalize)
    for (int j = lane; j < k; j += 32) topk_weights[token * k + j] /= chosen;
}

void moe_topk_softmax(const float* logits, float* topk_weights, int* topk_ids, int num_tokens, int num_experts, int k,
                      bool renormalize, cudaStream_t stream) {
  const int warps = 4;
  topk_gating_softmax<64><<<(num_tokens + warps - 1) / warps, warps * 32, 0, stream>>>(
      logits, topk_weights, topk_ids, num_tokens, num_experts, k, renormalize);
}
