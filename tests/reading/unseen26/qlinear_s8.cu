// qlinear_s8.cu -- part of "tinyquant", int8 inference kernels for Turing and newer
//
// Fully quantised linear layer:
//
//   acc[m, n] = sum_k (x[m, k] - x_zero) * w[n, k] + bias[n]
//   y[m, n]   = clamp(round(acc[m, n] * multiplier[n]) + y_zero, lo, 127)
//
// x [M, K], w [N, K], y [M, N] are int8 row-major, bias is int32 (scale x_scale * w_scale[n]),
// multiplier[n] = x_scale * w_scale[n] / y_scale.  lo is -128, or y_zero if a ReLU is fused
// (a real value of 0 is stored as y_zero).
//
// The term with x_zero does not depend on m, so it is folded into the bias once per weight:
//   folded[n] = bias[n] - x_zero * sum_k w[n, k]         (fold_zero_point)
//
// Shared tiles are stored as slabs of 16 values of k ([slab][row][16]) so that every fragment starts on
// a 32-byte boundary, which load_matrix_sync asks for.
#include <cuda_runtime.h>
#include <mma.h>
#include <stdint.h>

namespace tinyquant {

using namespace nvcuda;

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 64;
constexpr int kSlabs = kTileK / 16;
constexpr int kThreads = 128;
constexpr int kPitchC = kTileN + 4;

// One warp per row of w.
template <int kWarpsPerBlock>
__global__ void fold_zero_point_kernel(const int8_t* __restrict__ w, const int32_t* __restrict__ bias,
                                       int32_t* __restrict__ folded, int x_zero, int N, int K) {
  const int n = blockIdx.x * kWarpsPerBlock + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (n >= N) return;
  int sum = 0;
  for (int k = lane; k < K; k += 32) sum += w[(size_t)n * K + k];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (lane == 0) folded[n] = (bias ? bias[n] : 0) - x_zero * sum;
}

// 64 rows x 64 values of k -> slabs. Rows and columns outside of the matrix become zeros.
__device__ __forceinline__ void stage_tile(int8_t (*slab)[64][16], const int8_t* __restrict__ src, int row0, int rows,
                                           int k0, int K) {
  for (int i = threadIdx.x; i < 64 * kSlabs; i += kThreads) {
    const int r = i / kSlabs, s = i % kSlabs;
    int4 v = make_int4(0, 0, 0, 0);
    if (row0 + r < rows && k0 + s * 16 < K)
      v = *reinterpret_cast<const int4*>(src + (size_t)(row0 + r) * K + k0 + s * 16);
    *reinterpret_cast<int4*>(&slab[s][r][0]) = v;
  }
}

template <bool kRelu>
__global__ void __launch_bounds__(kThreads)
    qlinear_kernel(const int8_t* __restrict__ x, const int8_t* __restrict__ w, const int32_t* __restrict__ folded,
                   const float* __restrict__ multiplier, int8_t* __restrict__ y, int y_zero, int M, int N, int K) {
  __shared__ __align__(32) int8_t sx[kSlabs][kTileM][16];
  __shared__ __align__(32) int8_t sw[kSlabs][kTileN][16];
  __shared__ __align__(32) int32_t sc[kTileM][kPitchC];

  const int m0 = blockIdx.y * kTileM;
  const int n0 = blockIdx.x * kTileN;
  const int warp = threadIdx.x / 32;
  const int wm = (warp >> 1) * 32;
  const int wn = (warp & 1) * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, int> acc[2][2];
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0);

  for (int k0 = 0; k0 < K; k0 += kTileK) {
    stage_tile(sx, x, m0, M, k0, K);
    stage_tile(sw, w, n0, N, k0, K);
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSlabs; ++s) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> b[2];
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(a[i], &sx[s][wm + i * 16][0], 16);
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(b[j], &sw[s][wn + j * 16][0], 16);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(&sc[wm + i * 16][wn + j * 16], acc[i][j], kPitchC, wmma::mem_row_major);
  __syncthreads();

  // Requantise. Neighbouring threads write neighbouring bytes.
  const int lowest = kRelu ? y_zero : -128;
  for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
    const int r = i / kTileN, c = i % kTileN;
    const int m = m0 + r, n = n0 + c;
    if (m >= M || n >= N) continue;
    const float real = (float)(sc[r][c] + folded[n]) * multiplier[n];
    const int q = __float2int_rn(real) + y_zero;
    y[(size_t)m * N + n] = (int8_t)max(lowest, min(127, q));
  }
}

// ---- host side --------------------------------------------------------------------------------------

inline cudaError_t fold_zero_point(const int8_t* w, const int32_t* bias, int32_t* folded, int x_zero, int N, int K,
                                   cudaStream_t stream) {
  constexpr int kWarps = 4;
  fold_zero_point_kernel<kWarps><<<(N + kWarps - 1) / kWarps, kWarps * 32, 0, stream>>>(w, bias, folded, x_zero, N, K);
  return cudaGetLastError();
}

// K must be a multiple of 16 and the pointers 16-byte aligned.
template <bool kRelu>
cudaError_t qlinear(const int8_t* x, const int8_t* w, const int32_t* folded, const float* multiplier, int8_t* y,
                    int y_zero, int M, int N, int K, cudaStream_t stream) {
  if (K % 16 != 0) return cudaErrorInvalidValue;
  const dim3 grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM);
  qlinear_kernel<kRelu><<<grid, kThreads, 0, stream>>>(x, w, folded, multiplier, y, y_zero, M, N, K);
  return cudaGetLastError();
}

template cudaError_t qlinear<false>(const int8_t*, const int8_t*, const int32_t*, const float*, int8_t*, int, int, int,
                                    int, cudaStream_t);
template cudaError_t qlinear<true>(const int8_t*, const int8_t*, const int32_t*, const float*, int8_t*, int, int, int,
                                   int, cudaStream_t);

}  // namespace tinyquant
