// out[b] = silu(x[b] @ w[b] + bias[b])   batched, bfloat16 in and out, float sums
//
// x: (batch, M, K)   w: (batch, K, N)   bias: (batch, N)   out: (batch, M, N), all contiguous; K and N multiples of 8.
// WMMA in its 8 x 32 x 16 shape: flat tiles suit the few tokens that an expert gets.

#include <cuda_bf16.h>
#include <mma.h>

#include <cstdint>

namespace expert_ops {

namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;

constexpr int kM = 64, kN = 32, kK = 32;  // of a block
constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kPitchX = kK + 8;
constexpr int kPitchW = kN + 8;
constexpr int kPatch = kN + 4;  // pitch of a warp's 16 x 32 results

union alignas(32) Smem {
  struct {
    bf16 x[kM * kPitchX];
    bf16 w[kK * kPitchW];
  } in;
  float out[kWarps][16 * kPatch];
};

__device__ inline float silu(float v) { return v / (1.0f + __expf(-v)); }

__global__ void __launch_bounds__(kThreads)
    bmm_bias_silu_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w, const float* __restrict__ bias,
                         bf16* __restrict__ out, const int M, const int N, const int K) {
  __shared__ Smem smem;

  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int n0 = blockIdx.x * kN, m0 = blockIdx.y * kM;
  const auto batch = static_cast<int64_t>(blockIdx.z);
  const bf16* const xb = x + batch * M * K;
  const bf16* const wb = w + batch * K * N;
  bf16* const ob = out + batch * M * N;

  // Eight elements at a time: two vectors of x and one of w for each thread
  uint4 next_x[2], next_w;
  const auto fetch = [&](int k0) {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int idx = tid + v * kThreads;
      const int row = idx / (kK / 8), col = idx % (kK / 8) * 8;
      const bool in = m0 + row < M && k0 + col < K;
      next_x[v] = in ? *reinterpret_cast<const uint4*>(xb + int64_t(m0 + row) * K + k0 + col) : uint4{};
    }
    const int row = tid / (kN / 8), col = tid % (kN / 8) * 8;
    const bool in = k0 + row < K && n0 + col < N;
    next_w = in ? *reinterpret_cast<const uint4*>(wb + int64_t(k0 + row) * N + n0 + col) : uint4{};
  };
  const auto commit = [&]() {
#pragma unroll
    for (int v = 0; v < 2; ++v) {
      const int idx = tid + v * kThreads;
      *reinterpret_cast<uint4*>(&smem.in.x[idx / (kK / 8) * kPitchX + idx % (kK / 8) * 8]) = next_x[v];
    }
    *reinterpret_cast<uint4*>(&smem.in.w[tid / (kN / 8) * kPitchW + tid % (kN / 8) * 8]) = next_w;
  };

  // Each warp has 16 rows in two tiles, and all 32 columns
  const int wm = warp * 16;
  wmma::fragment<wmma::accumulator, 8, 32, 16, float> acc[2];
  for (auto& a : acc) wmma::fill_fragment(a, 0.0f);

  fetch(0);
  for (int k0 = 0; k0 < K; k0 += kK) {
    commit();
    __syncthreads();
    if (k0 + kK < K) fetch(k0 + kK);
#pragma unroll
    for (int k = 0; k < kK; k += 16) {
      wmma::fragment<wmma::matrix_b, 8, 32, 16, bf16, wmma::row_major> fw;
      wmma::load_matrix_sync(fw, &smem.in.w[k * kPitchW], kPitchW);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::fragment<wmma::matrix_a, 8, 32, 16, bf16, wmma::row_major> fx;
        wmma::load_matrix_sync(fx, &smem.in.x[(wm + i * 8) * kPitchX + k], kPitchX);
        wmma::mma_sync(acc[i], fx, fw, acc[i]);
      }
    }
    __syncthreads();
  }

  // The tiles are no longer needed: results take their place, a patch for each warp
  float* const patch = smem.out[warp];
  for (int i = 0; i < 2; ++i) wmma::store_matrix_sync(patch + i * 8 * kPatch, acc[i], kPatch, wmma::mem_row_major);
  __syncwarp();

  // A lane has two columns of every second row
  const int col = lane % 16 * 2;
  const int n = n0 + col;
  if (n >= N) return;
  const float b0 = bias[batch * N + n], b1 = bias[batch * N + n + 1];
  for (int r = lane / 16; r < 16; r += 2) {
    const int m = m0 + wm + r;
    if (m >= M) break;
    const float y0 = silu(patch[r * kPatch + col] + b0);
    const float y1 = silu(patch[r * kPatch + col + 1] + b1);
    *reinterpret_cast<__nv_bfloat162*>(ob + int64_t(m) * N + n) = __floats2bfloat162_rn(y0, y1);
  }
}

void bmm_bias_silu(const bf16* x, const bf16* w, const float* bias, bf16* out, int batch, int M, int N, int K,
                   cudaStream_t stream) {
  const dim3 grid((N + kN - 1) / kN, (M + kM - 1) / kM, batch);
  bmm_bias_silu_kernel<<<grid, kThreads, 0, stream>>>(x, w, bias, out, M, N, K);
}

}  // namespace expert_ops
