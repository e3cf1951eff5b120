#include <cuda_bf16.h>
#include <mma.h>

using bf16 = __nv_bfloat16;

enum class Act { kNone, kGelu };

template <Act kAct>
__device__ inline float activate(float v) {
  if constexpr (kAct == Act::kGelu) return 0.5f * v * (1.0f + erff(v * 0.7071067811865475f));
  return v;
}

/// out[M, N] = act(in[M, K] @ weight[N, K]^T + bias[N])
template <Act kAct>
__global__ void linear_act(const bf16* in, const bf16* weight, const bf16* bias, bf16* out, int M, int N, int K) {
  namespace wm = nvcuda::wmma;
  __shared__ __align__(32) bf16 sA[32][40];
  __shared__ __align__(32) bf16 sB[32][40];
  __shared__ __align__(32) float sC[32][36];
  const int warp = threadIdx.x >> 5;
  const int wr = (warp >> 1) * 16, wc = (warp & 1) * 16;
  const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
  wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
  wm::fill_fragment(acc, 0.f);
  for (int k0 = 0; k0 < K; k0 += 32) {
    for (int i = threadIdx.x; i < 32 * 32; i += 128) {
      const int r = i >> 5, c = i & 31;
      sA[r][c] = (m0 + r < M && k0 + c < K) ? in[(size_t)(m0 + r) * K + k0 + c] : bf16(0.f);
      sB[r][c] = (n0 + r < N && k0 + c < K) ? weight[(size_t)(n0 + r) * K + k0 + c] : bf16(0.f);
    }
    __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) {
      wm::fragment<wm::matrix_a, 16, 16, 16, bf16, wm::row_major> a;
      wm::fragment<wm::matrix_b, 16, 16, 16, bf16, wm::col_major> b;
      wm::load_matrix_sync(a, &sA[wr][kk], 40);
      wm::load_matrix_sync(b, &sB[wc][kk], 40);
      wm::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }
  wm::store_matrix_sync(&sC[wr][wc], acc, 36, wm::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * 32; i += 128) {
    const int r = i >> 5, c = i & 31;
    if (m0 + r < M && n0 + c < N)
      out[(size_t)(m0 + r) * N + n0 + c] = __float2bfloat16(activate<kAct>(sC[r][c] + __bfloat162float(bias[n0 + c])));
  }
}

void mlp_forward(const bf16* x, const bf16* fc1_w, const bf16* fc1_b, const bf16* fc2_w, const bf16* fc2_b, bf16* hidden,
                 bf16* y, int tokens, int d_model, int d_ff, cudaStream_t stream) {
  dim3 grid1((d_ff + 31) / 32, (tokens + 31) / 32), grid2((d_model + 31) / 32, (tokens + 31) / 32);
  linear_act<Act::kGelu><<<grid1, 128, 0, stream>>>(x, fc1_w, fc1_b, hidden, tokens, d_ff, d_model);
  linear_act<Act::kNone><<<grid2, 128, 0, stream>>>(hidden, fc2_w, fc2_b, y, tokens, d_model, d_ff);
}
