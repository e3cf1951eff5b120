// Strided batched GEMM with a fused epilogue, WMMA API (sm_70 and later).
//
//     D[b] = act(alpha * A[b] * W[b]^T + beta * C[b] + bias)
//
//   A: [batch, M, K] row major (lda)        W: [batch, N, K] row major (ldw), as nn.Linear stores it
//   C, D: [batch, M, N] row major (ldc)     bias: [N], float
//
// 64x64x32 block tile, 4 warps in a 2x2 arrangement, 32x32 per warp. Global loads for the next k tile are issued into
// registers before the math of the present one, and stored to the other smem buffer afterwards.
// M, N and K are arbitrary: full 16 byte vectors are used where possible, single elements at the borders.
#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

namespace bgemm {

using namespace nvcuda;

enum class Activation : int { kNone = 0, kRelu = 1, kSilu = 2 };

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kThreads = 128;
constexpr int kSkewHalf = 8;
constexpr int kSkewFloat = 4;
constexpr int kLdsAB = kBlockK + kSkewHalf;
constexpr int kLdsC = kBlockN + kSkewFloat;
constexpr int kTileA = kBlockM * kLdsAB;
constexpr int kTileW = kBlockN * kLdsAB;
constexpr int kVecPerThread = kBlockM * kBlockK / 8 / kThreads;  // 2, for A as for W
constexpr int kSmemBytes = 2 * (kTileA + kTileW) * sizeof(half);
static_assert(kSmemBytes >= int(kBlockM * kLdsC * sizeof(float)), "the epilogue reuses the buffers");

template <Activation kAct>
__device__ __forceinline__ float activate(float x) {
  if (kAct == Activation::kRelu) return fmaxf(x, 0.f);
  if (kAct == Activation::kSilu) return x / (1.f + __expf(-x));
  return x;
}

// 8 halves of a row; `left` of them exist
__device__ __forceinline__ uint4 load_vec8(const half* __restrict__ p, int left) {
  if (left >= 8 && (reinterpret_cast<uintptr_t>(p) & 15) == 0) {
    return *reinterpret_cast<const uint4*>(p);
  }
  union {
    uint4 v;
    half h[8];
  } u;
#pragma unroll
  for (int i = 0; i < 8; ++i) u.h[i] = i < left ? p[i] : __float2half(0.f);
  return u.v;
}

// One operand's part of a thread: kVecPerThread vectors of a [64][32] tile
struct TileLoader {
  const half* base;
  int ld, rows, cols;  // what is left of the matrix below this tile's first row
  int row, col;        // of the thread's first vector
  uint4 frag[kVecPerThread];

  __device__ TileLoader(const half* base_, int ld_, int rows_, int cols_)
      : base(base_), ld(ld_), rows(rows_), cols(cols_) {
    row = threadIdx.x / (kBlockK / 8);
    col = (threadIdx.x % (kBlockK / 8)) * 8;
  }
  __device__ void fetch(int k0) {
#pragma unroll
    for (int i = 0; i < kVecPerThread; ++i) {
      const int r = row + i * (kThreads / (kBlockK / 8));
      const int left = r < rows ? cols - (k0 + col) : 0;
      frag[i] = load_vec8(base + int64_t(r) * ld + k0 + col, left);
    }
  }
  __device__ void commit(half* tile) const {
#pragma unroll
    for (int i = 0; i < kVecPerThread; ++i) {
      const int r = row + i * (kThreads / (kBlockK / 8));
      *reinterpret_cast<uint4*>(tile + r * kLdsAB + col) = frag[i];
    }
  }
};

template <Activation kAct>
__global__ void __launch_bounds__(kThreads)
bgemm_bias_act(const half* __restrict__ A, const half* __restrict__ W, const half* __restrict__ C,
               const float* __restrict__ bias, half* __restrict__ D, int M, int N, int K, int lda, int ldw, int ldc,
               int64_t stride_a, int64_t stride_w, int64_t stride_c, float alpha, float beta) {
  __shared__ __align__(32) unsigned char smem[kSmemBytes];
  half* As = reinterpret_cast<half*>(smem);
  half* Ws = As + 2 * kTileA;

  const int n0 = blockIdx.x * kBlockN;
  const int m0 = blockIdx.y * kBlockM;
  const int64_t batch = blockIdx.z;
  A += batch * stride_a + int64_t(m0) * lda;
  W += batch * stride_w + int64_t(n0) * ldw;
  C += batch * stride_c;
  D += batch * stride_c;

  const int warp = threadIdx.x / 32;
  const int warp_m = (warp / 2) * 32;
  const int warp_n = (warp % 2) * 32;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.f);

  TileLoader load_a(A, lda, M - m0, K);
  TileLoader load_w(W, ldw, N - n0, K);
  load_a.fetch(0);
  load_w.fetch(0);
  load_a.commit(As);
  load_w.commit(Ws);
  __syncthreads();

  const int k_tiles = (K + kBlockK - 1) / kBlockK;
  for (int kt = 0; kt < k_tiles; ++kt) {
    const int cur = kt % 2;
    const bool more = kt + 1 < k_tiles;
    if (more) {
      load_a.fetch((kt + 1) * kBlockK);
      load_w.fetch((kt + 1) * kBlockK);
    }

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(fa[i], As + cur * kTileA + (warp_m + i * 16) * kLdsAB + kk, kLdsAB);
        wmma::load_matrix_sync(fb[i], Ws + cur * kTileW + (warp_n + i * 16) * kLdsAB + kk, kLdsAB);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }

    if (more) {
      load_a.commit(As + (cur ^ 1) * kTileA);
      load_w.commit(Ws + (cur ^ 1) * kTileW);
    }
    __syncthreads();
  }

  // The buffers are free now: the tile goes through them, so that every thread knows its row and column.
  float* Cs = reinterpret_cast<float*>(smem);
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 2; ++j)
      wmma::store_matrix_sync(Cs + (warp_m + i * 16) * kLdsC + warp_n + j * 16, acc[i][j], kLdsC, wmma::mem_row_major);
  __syncthreads();

  const int col = threadIdx.x % kBlockN;
  const int gn = n0 + col;
  if (gn >= N) return;
  const float b = bias != nullptr ? bias[gn] : 0.f;
  for (int row = threadIdx.x / kBlockN; row < kBlockM; row += kThreads / kBlockN) {
    const int gm = m0 + row;
    if (gm >= M) break;
    const int64_t at = int64_t(gm) * ldc + gn;
    float v = alpha * Cs[row * kLdsC + col] + b;
    if (beta != 0.f) v += beta * __half2float(C[at]);
    D[at] = __float2half(activate<kAct>(v));
  }
}

void launch(const half* A, const half* W, const half* C, const float* bias, half* D, int batch, int M, int N, int K,
            float alpha, float beta, Activation act, cudaStream_t stream) {
  dim3 grid((N + kBlockN - 1) / kBlockN, (M + kBlockM - 1) / kBlockM, batch);
#define BGEMM_LAUNCH(ACT)                                                                                      \
  bgemm_bias_act<ACT><<<grid, kThreads, 0, stream>>>(A, W, C, bias, D, M, N, K, K, K, N, int64_t(M) * K,       \
                                                     int64_t(N) * K, int64_t(M) * N, alpha, beta)
  if (act == Activation::kRelu) BGEMM_LAUNCH(Activation::kRelu);
  else if (act == Activation::kSilu) BGEMM_LAUNCH(Activation::kSilu);
  else BGEMM_LAUNCH(Activation::kNone);
#undef BGEMM_LAUNCH
}

}  // namespace bgemm
