#pragma once

// Kernel 12: warptiling, but with tensor cores.
// fp32 in, fp32 out; operands are rounded to bf16 on their way into shared memory.
// Row-major: A is MxK, B is KxN, C is MxN. K and N must be multiples of 4 (float4 loads), M is free.

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

using namespace nvcuda;

const int WARPSIZE = 32;
const int GROUP_M = 2; // rows of tiles that are walked together, for L2

namespace wt {

// next tile -> registers
template <const int BM, const int BN, const int BK, const int NUM_THREADS, const int NA, const int NB>
__device__ void loadFromGmem(int M, int N, int K, int bkIdx, int rowA0, int colB0, const float *A, const float *B,
                             float4 (&regA)[NA], float4 (&regB)[NB]) {
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  for (int i = 0; i < NA; ++i) {
    int idx = threadIdx.x + i * NUM_THREADS;
    int row = rowA0 + idx / (BK / 4);
    int col = bkIdx + (idx % (BK / 4)) * 4;
    regA[i] = (row < M && col < K) ? *reinterpret_cast<const float4 *>(&A[row * K + col]) : zero;
  }
  for (int i = 0; i < NB; ++i) {
    int idx = threadIdx.x + i * NUM_THREADS;
    int row = bkIdx + idx / (BN / 4);
    int col = colB0 + (idx % (BN / 4)) * 4;
    regB[i] = (row < K && col < N) ? *reinterpret_cast<const float4 *>(&B[row * N + col]) : zero;
  }
}

// registers -> smem; A is transposed while we are at it
template <const int BK, const int BN, const int NUM_THREADS, const int LDA, const int LDB, const int NA, const int NB>
__device__ void storeToSmem(const float4 (&regA)[NA], const float4 (&regB)[NB], __nv_bfloat16 *As, __nv_bfloat16 *Bs) {
  for (int i = 0; i < NA; ++i) {
    int idx = threadIdx.x + i * NUM_THREADS;
    int innerRowA = idx / (BK / 4);
    int innerColA = idx % (BK / 4);
    float4 tmp = regA[i];
    As[(innerColA * 4 + 0) * LDA + innerRowA] = __float2bfloat16(tmp.x);
    As[(innerColA * 4 + 1) * LDA + innerRowA] = __float2bfloat16(tmp.y);
    As[(innerColA * 4 + 2) * LDA + innerRowA] = __float2bfloat16(tmp.z);
    As[(innerColA * 4 + 3) * LDA + innerRowA] = __float2bfloat16(tmp.w);
  }
  for (int i = 0; i < NB; ++i) {
    int idx = threadIdx.x + i * NUM_THREADS;
    int innerRowB = idx / (BN / 4);
    int innerColB = idx % (BN / 4);
    __nv_bfloat162 *dst = reinterpret_cast<__nv_bfloat162 *>(&Bs[innerRowB * LDB + innerColB * 4]);
    dst[0] = __floats2bfloat162_rn(regB[i].x, regB[i].y);
    dst[1] = __floats2bfloat162_rn(regB[i].z, regB[i].w);
  }
}

} // namespace wt

template <const int BM, const int BN, const int BK, const int WM, const int WN, const int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
    sgemmWarptilingTC(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  constexpr int LDA = BM + 8;
  constexpr int LDB = BN + 8;
  constexpr int LDC = 20;
  constexpr int WMITER = WM / 16;
  constexpr int WNITER = WN / 16;
  constexpr int NA = BM * BK / 4 / NUM_THREADS;
  constexpr int NB = BK * BN / 4 / NUM_THREADS;
  static_assert(NA >= 1 && NB >= 1, "tile too small for this many threads");

  __shared__ __align__(128) __nv_bfloat16 As[2][BK * LDA];
  __shared__ __align__(128) __nv_bfloat16 Bs[2][BK * LDB];
  __shared__ __align__(128) float Cs[NUM_THREADS / WARPSIZE][16 * LDC];

  // grouped rasterisation of a 1D grid
  const int gridM = CEIL_DIV(M, BM);
  const int gridN = CEIL_DIV(N, BN);
  const int perGroup = GROUP_M * gridN;
  const int firstM = (blockIdx.x / perGroup) * GROUP_M;
  const int groupRows = min(gridM - firstM, GROUP_M);
  const int cRow = firstM + (blockIdx.x % perGroup) % groupRows;
  const int cCol = (blockIdx.x % perGroup) / groupRows;

  const int warpIdx = threadIdx.x / WARPSIZE;
  const int laneIdx = threadIdx.x % WARPSIZE;
  const int warpCol = warpIdx % (BN / WN);
  const int warpRow = warpIdx / (BN / WN);

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[WMITER][WNITER];
  for (int m = 0; m < WMITER; ++m)
    for (int n = 0; n < WNITER; ++n)
      wmma::fill_fragment(acc[m][n], 0.0f);

  float4 regA[NA], regB[NB];
  wt::loadFromGmem<BM, BN, BK, NUM_THREADS, NA, NB>(M, N, K, 0, cRow * BM, cCol * BN, A, B, regA, regB);
  wt::storeToSmem<BK, BN, NUM_THREADS, LDA, LDB, NA, NB>(regA, regB, As[0], Bs[0]);
  __syncthreads();

  int read = 0;
  for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
    const bool more = bkIdx + BK < K;
    if (more)
      wt::loadFromGmem<BM, BN, BK, NUM_THREADS, NA, NB>(M, N, K, bkIdx + BK, cRow * BM, cCol * BN, A, B, regA, regB);

    for (int dotIdx = 0; dotIdx < BK; dotIdx += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::col_major> a[WMITER];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b[WNITER];
      for (int m = 0; m < WMITER; ++m)
        wmma::load_matrix_sync(a[m], &As[read][dotIdx * LDA + warpRow * WM + m * 16], LDA);
      for (int n = 0; n < WNITER; ++n)
        wmma::load_matrix_sync(b[n], &Bs[read][dotIdx * LDB + warpCol * WN + n * 16], LDB);
      for (int m = 0; m < WMITER; ++m)
        for (int n = 0; n < WNITER; ++n)
          wmma::mma_sync(acc[m][n], a[m], b[n], acc[m][n]);
    }

    if (more) {
      wt::storeToSmem<BK, BN, NUM_THREADS, LDA, LDB, NA, NB>(regA, regB, As[read ^ 1], Bs[read ^ 1]);
      __syncthreads();
    }
    read ^= 1;
  }

  // write out: a 16x16 piece at a time through this warp's own staging tile
  for (int m = 0; m < WMITER; ++m) {
    for (int n = 0; n < WNITER; ++n) {
      wmma::store_matrix_sync(Cs[warpIdx], acc[m][n], LDC, wmma::mem_row_major);
      __syncwarp();
      for (int i = laneIdx; i < 16 * 4; i += WARPSIZE) {
        const int row = cRow * BM + warpRow * WM + m * 16 + i / 4;
        const int col = cCol * BN + warpCol * WN + n * 16 + (i % 4) * 4;
        if (row < M && col < N) {
          float4 *dst = reinterpret_cast<float4 *>(&C[row * N + col]);
          const float *src = &Cs[warpIdx][(i / 4) * LDC + (i % 4) * 4];
          float4 tmp = *dst;
          tmp.x = alpha * src[0] + beta * tmp.x;
          tmp.y = alpha * src[1] + beta * tmp.y;
          tmp.z = alpha * src[2] + beta * tmp.z;
          tmp.w = alpha * src[3] + beta * tmp.w;
          *dst = tmp;
        }
      }
      __syncwarp();
    }
  }
}

inline void runSgemmWarptilingTC(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  dim3 gridDim(CEIL_DIV(M, 32) * CEIL_DIV(N, 64));
  sgemmWarptilingTC<32, 64, 32, 16, 32, 128><<<gridDim, 128>>>(M, N, K, alpha, A, B, beta, C);
}
