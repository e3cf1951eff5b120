#pragma once
// Strided batched bf16 GEMM with a fused epilogue, used by the MLP blocks.
//
//   D[b] = act(A[b] * B[b] + bias) + residual[b]
//
//   A [batch, M, K]   row-major
//   B [batch, K, N]   row-major (stride_b = 0 shares one weight between the batches)
//   D [batch, M, N]   row-major
//   bias [N] and residual [batch, M, N] may be nullptr
//
// M is free. N must be a multiple of 8 and K a multiple of 8; all base pointers 16 byte
// aligned, stride_a and stride_b multiples of 8 elements.
//
// Launch:  grid  = (ceil(N / 64), ceil(M / 64), batch)
//          block = gemm::kThreads
//
// The host wrapper lives in mlp.cpp, this header is device code only.

#include <cuda_bf16.h>
#include <mma.h>

namespace gemm {

enum class Act { kIdentity, kRelu, kGelu, kSilu };

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 32;
constexpr int kWarpsM = 2;
constexpr int kWarpsN = 4;
constexpr int kThreads = kWarpsM * kWarpsN * 32;  // 256
constexpr int kLdA = kTileK + 8;
constexpr int kLdB = kTileN + 8;
constexpr int kLdC = kTileN + 4;

template <Act kAct>
__device__ __forceinline__ float activate(float x) {
  if constexpr (kAct == Act::kRelu) {
    return fmaxf(x, 0.f);
  } else if constexpr (kAct == Act::kGelu) {
    // tanh approximation, as in GPT-2
    const float c = 0.7978845608028654f;  // sqrt(2 / pi)
    return 0.5f * x * (1.f + tanhf(c * (x + 0.044715f * x * x * x)));
  } else if constexpr (kAct == Act::kSilu) {
    return x / (1.f + __expf(-x));
  } else {
    return x;
  }
}

// ROWS x COLS tile of a row-major matrix with `rows` x `cols` valid elements (counted from
// src), zero filled. One 16 byte vector per thread: ROWS * COLS / 8 == kThreads.
template <int ROWS, int COLS, int LD>
__device__ __forceinline__ void copy_tile(__nv_bfloat16* dst, const __nv_bfloat16* src,
                                          long long ld, int rows, int cols) {
  static_assert(ROWS * COLS / 8 == kThreads, "one vector per thread");
  const int r = threadIdx.x / (COLS / 8);
  const int c = threadIdx.x % (COLS / 8) * 8;
  uint4 v = make_uint4(0u, 0u, 0u, 0u);
  if (r < rows && c < cols) v = *reinterpret_cast<const uint4*>(src + r * ld + c);
  *reinterpret_cast<uint4*>(dst + r * LD + c) = v;
}

template <Act kAct>
__global__ void __launch_bounds__(kThreads)
batched_gemm_epilogue_kernel(const __nv_bfloat16* __restrict__ a,
                             const __nv_bfloat16* __restrict__ b,
                             const __nv_bfloat16* __restrict__ bias,
                             const __nv_bfloat16* __restrict__ residual,
                             __nv_bfloat16* __restrict__ d, int m, int n, int k,
                             long long stride_a, long long stride_b) {
  using namespace nvcuda;
  __shared__ __align__(128) __nv_bfloat16 s_a[2][kTileM * kLdA];
  __shared__ __align__(128) __nv_bfloat16 s_b[2][kTileK * kLdB];
  __shared__ __align__(128) float s_c[kTileM * kLdC];

  const int warp = threadIdx.x / 32;
  const int warp_row = warp / kWarpsN * 32;  // two 16 x 16 tiles below each other
  const int warp_col = warp % kWarpsN * 16;
  const int row0 = blockIdx.y * kTileM;
  const int col0 = blockIdx.x * kTileN;

  a += blockIdx.z * stride_a + static_cast<long long>(row0) * k;
  b += blockIdx.z * stride_b + col0;
  const long long out_base = static_cast<long long>(blockIdx.z) * m * n;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.f);
  wmma::fill_fragment(acc[1], 0.f);

  const int steps = (k + kTileK - 1) / kTileK;
  copy_tile<kTileM, kTileK, kLdA>(s_a[0], a, k, m - row0, k);
  copy_tile<kTileK, kTileN, kLdB>(s_b[0], b, n, k, n - col0);
  __syncthreads();

  for (int step = 0; step < steps; ++step) {
    const int cur = step & 1;
    if (step + 1 < steps) {
      // The other buffer was last read in step - 1, which ended with a barrier.
      const int k0 = (step + 1) * kTileK;
      copy_tile<kTileM, kTileK, kLdA>(s_a[cur ^ 1], a + k0, k, m - row0, k - k0);
      copy_tile<kTileK, kTileN, kLdB>(s_b[cur ^ 1], b + static_cast<long long>(k0) * n, n, k - k0,
                                      n - col0);
    }

#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> fb;
      wmma::load_matrix_sync(fb, &s_b[cur][kk * kLdB + warp_col], kLdB);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa;
        wmma::load_matrix_sync(fa, &s_a[cur][(warp_row + i * 16) * kLdA + kk], kLdA);
        wmma::mma_sync(acc[i], fa, fb, acc[i]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
    wmma::store_matrix_sync(&s_c[(warp_row + i * 16) * kLdC + warp_col], acc[i], kLdC,
                            wmma::mem_row_major);
  __syncthreads();

  // two columns per thread, n is even
  for (int i = threadIdx.x; i < kTileM * kTileN / 2; i += kThreads) {
    const int r = i / (kTileN / 2);
    const int c = i % (kTileN / 2) * 2;
    const int row = row0 + r;
    const int col = col0 + c;
    if (row >= m || col >= n) continue;

    float x = s_c[r * kLdC + c];
    float y = s_c[r * kLdC + c + 1];
    if (bias != nullptr) {
      x += __bfloat162float(bias[col]);
      y += __bfloat162float(bias[col + 1]);
    }
    x = activate<kAct>(x);
    y = activate<kAct>(y);
    const long long idx = out_base + static_cast<long long>(row) * n + col;
    if (residual != nullptr) {
      x += __bfloat162float(residual[idx]);
      y += __bfloat162float(residual[idx + 1]);
    }
    *reinterpret_cast<__nv_bfloat162*>(d + idx) = __floats2bfloat162_rn(x, y);
  }
}

}  // namespace gemm
