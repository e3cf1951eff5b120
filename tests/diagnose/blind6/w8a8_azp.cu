// W8A8 linear layer with asymmetric activations (per token scale and zero point, per channel weight scale):
//
//   y[m][n] = bf16( scale_a[m] * scale_w[n] * (sum_k qa[m][k] * qw[n][k] - azp[m] * sum_k qw[n][k]) + bias[n] )
//
// qa int8 [tokens, in_features], qw int8 [out_features, in_features] (as nn.Linear keeps it); in_features % 16 == 0.
// The sums over the weight's rows, which the zero point needs, are made on the way with dp4a.
#include <cuda_bf16.h>
#include <cstdint>

namespace w8a8 {

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kTileK = 64;          // bytes
constexpr int kPitch = kTileK + 16; // bytes, conflict free for 32-bit fragment loads
constexpr int kBlock = 128;
constexpr int kVecPerRow = kTileK / 16;
constexpr int kVecPerThread = kTileM * kVecPerRow / kBlock;

struct Prefetch {
  int4 a[kVecPerThread];
  int4 w[kVecPerThread];
};

__device__ __forceinline__ void imma(int (&acc)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t word(const int8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

__device__ __forceinline__ int sum_of_bytes(int packed, int acc) { return __dp4a(packed, 0x01010101, acc); }

__device__ __forceinline__ void prefetch(Prefetch& regs, const int8_t* qa, const int8_t* qw, int m0, int n0, int k0,
                                         int M, int N, int K) {
#pragma unroll
  for (int i = 0; i < kVecPerThread; ++i) {
    const int vec = threadIdx.x + i * kBlock;
    const int row = vec / kVecPerRow;
    const int k = k0 + vec % kVecPerRow * 16;
    const int4 none = make_int4(0, 0, 0, 0);
    regs.a[i] = m0 + row < M && k < K ? *reinterpret_cast<const int4*>(qa + (int64_t)(m0 + row) * K + k) : none;
    regs.w[i] = n0 + row < N && k < K ? *reinterpret_cast<const int4*>(qw + (int64_t)(n0 + row) * K + k) : none;
  }
}

__global__ __launch_bounds__(kBlock) void linear_azp(__nv_bfloat16* __restrict__ y, const int8_t* __restrict__ qa,
                                                     const int8_t* __restrict__ qw, const float* __restrict__ scale_a,
                                                     const int* __restrict__ azp, const float* __restrict__ scale_w,
                                                     const float* __restrict__ bias, int M, int N, int K) {
  __shared__ __align__(16) int8_t tile_a[kTileM * kPitch];
  __shared__ __align__(16) int8_t tile_w[kTileN * kPitch];
  __shared__ int row_sum_w[kTileN];

  const int m0 = blockIdx.y * kTileM;
  const int n0 = blockIdx.x * kTileN;
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int g = lane >> 2, t = lane & 3;
  const int warp_m = (warp >> 1) * 32, warp_n = (warp & 1) * 32;

  if (threadIdx.x < kTileN) row_sum_w[threadIdx.x] = 0;

  int acc[2][4][4] = {};
  Prefetch regs;
  prefetch(regs, qa, qw, m0, n0, 0, M, N, K);

  for (int k0 = 0; k0 < K; k0 += kTileK) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kVecPerThread; ++i) {
      const int vec = threadIdx.x + i * kBlock;
      const int row = vec / kVecPerRow, at = row * kPitch + vec % kVecPerRow * 16;
      *reinterpret_cast<int4*>(tile_a + at) = regs.a[i];
      *reinterpret_cast<int4*>(tile_w + at) = regs.w[i];
      int part = sum_of_bytes(regs.w[i].x, 0);
      part = sum_of_bytes(regs.w[i].y, part);
      part = sum_of_bytes(regs.w[i].z, part);
      part = sum_of_bytes(regs.w[i].w, part);
      atomicAdd(&row_sum_w[row], part);
    }
    __syncthreads();
    if (k0 + kTileK < K) prefetch(regs, qa, qw, m0, n0, k0 + kTileK, M, N, K);

#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 32) {
      uint32_t b[4][2];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int8_t* p = tile_w + (warp_n + j * 8 + g) * kPitch + kk + t * 4;
        b[j][0] = word(p);
        b[j][1] = word(p + 16);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int8_t* p = tile_a + (warp_m + i * 16 + g) * kPitch + kk + t * 4;
        const uint32_t a[4] = {word(p), word(p + 8 * kPitch), word(p + 16), word(p + 8 * kPitch + 16)};
#pragma unroll
        for (int j = 0; j < 4; ++j) imma(acc[i][j], a, b[j]);
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + warp_m + i * 16 + half * 8 + g;
      if (m >= M) continue;
      const float sa = scale_a[m];
      const int zero = azp[m];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int c = warp_n + j * 8 + t * 2 + e;
          if (n0 + c >= N) continue;
          const int exact = acc[i][j][half * 2 + e] - zero * row_sum_w[c];
          const float value = sa * scale_w[n0 + c] * static_cast<float>(exact) + bias[n0 + c];
          y[(int64_t)m * N + n0 + c] = __float2bfloat16(value);
        }
      }
    }
  }
}

}  // namespace w8a8

void w8a8_linear_azp(__nv_bfloat16* y, const int8_t* qa, const int8_t* qw, const float* scale_a, const int* azp,
                     const float* scale_w, const float* bias, int M, int N, int K, cudaStream_t stream) {
  dim3 grid((N + w8a8::kTileN - 1) / w8a8::kTileN, (M + w8a8::kTileM - 1) / w8a8::kTileM);
  w8a8::linear_azp<<<grid, w8a8::kBlock, 0, stream>>>(y, qa, qw, scale_a, azp, scale_w, bias, M, N, K);
}
