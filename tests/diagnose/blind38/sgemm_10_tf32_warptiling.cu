// Kernel 10 of "SGEMM, one step at a time": what kernel 9 (warp tiling on CUDA cores) becomes on tensor cores.
//
//   * the A tile is transposed while it is written to shared memory, so that both tiles are read along a row
//   * the next tile travels global -> registers -> the other buffer while the current one is multiplied
//   * every warp owns WM x WN of the block's BM x BN, in 16x16 pieces
//
// C = alpha * A * B + beta * C, everything row-major float. K and N have to be multiples of 4 (float4 loads).
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mma.h>

#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))

namespace wt {

using namespace nvcuda;

const int WARPSIZE = 32;
const int PAD = 4;

template <const int BM, const int BN, const int BK, const int NUM_THREADS> struct Staging {
  static const int A_LOADS = BM * BK / 4 / NUM_THREADS;
  static const int B_LOADS = BK * BN / 4 / NUM_THREADS;
  float4 a[A_LOADS];
  float4 b[B_LOADS];
};

// global -> registers; what lies outside of the matrices is zero
template <const int BM, const int BN, const int BK, const int NUM_THREADS>
__device__ void loadFromGmem(Staging<BM, BN, BK, NUM_THREADS> &st, const float *A, const float *B, int M, int N, int K,
                             int cRow, int cCol, int bkIdx) {
  using S = Staging<BM, BN, BK, NUM_THREADS>;
  const int innerRowA = threadIdx.x / (BK / 4);
  const int innerColA = threadIdx.x % (BK / 4);
  constexpr int rowStrideA = NUM_THREADS / (BK / 4);
  const int innerRowB = threadIdx.x / (BN / 4);
  const int innerColB = threadIdx.x % (BN / 4);
  constexpr int rowStrideB = NUM_THREADS / (BN / 4);

#pragma unroll
  for (int i = 0; i < S::A_LOADS; ++i) {
    const int row = cRow * BM + innerRowA + i * rowStrideA;
    const int col = bkIdx + innerColA * 4;
    st.a[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row < M && col < K)
      st.a[i] = reinterpret_cast<const float4 *>(&A[row * K + col])[0];
  }
#pragma unroll
  for (int i = 0; i < S::B_LOADS; ++i) {
    const int row = bkIdx + innerRowB + i * rowStrideB;
    const int col = cCol * BN + innerColB * 4;
    st.b[i] = make_float4(0.f, 0.f, 0.f, 0.f);
    if (row < K && col < N)
      st.b[i] = reinterpret_cast<const float4 *>(&B[row * N + col])[0];
  }
}

// registers -> shared memory; As is [BK][BM + PAD], Bs is [BK][BN + PAD]
template <const int BM, const int BN, const int BK, const int NUM_THREADS>
__device__ void storeToSmem(const Staging<BM, BN, BK, NUM_THREADS> &st, float *As, float *Bs) {
  using S = Staging<BM, BN, BK, NUM_THREADS>;
  const int innerRowA = threadIdx.x / (BK / 4);
  const int innerColA = threadIdx.x % (BK / 4);
  constexpr int rowStrideA = NUM_THREADS / (BK / 4);
  const int innerRowB = threadIdx.x / (BN / 4);
  const int innerColB = threadIdx.x % (BN / 4);
  constexpr int rowStrideB = NUM_THREADS / (BN / 4);

#pragma unroll
  for (int i = 0; i < S::A_LOADS; ++i) {
    const float4 tmp = st.a[i];
    const int m = innerRowA + i * rowStrideA;
    As[(innerColA * 4 + 0) * (BM + PAD) + m] = tmp.x;
    As[(innerColA * 4 + 1) * (BM + PAD) + m] = tmp.y;
    As[(innerColA * 4 + 2) * (BM + PAD) + m] = tmp.z;
    As[(innerColA * 4 + 3) * (BM + PAD) + m] = tmp.w;
  }
#pragma unroll
  for (int i = 0; i < S::B_LOADS; ++i)
    reinterpret_cast<float4 *>(&Bs[(innerRowB + i * rowStrideB) * (BN + PAD) + innerColB * 4])[0] = st.b[i];
}

template <typename Frag> __device__ void toTf32(Frag &f) {
#pragma unroll
  for (int i = 0; i < f.num_elements; ++i)
    f.x[i] = wmma::__float_to_tf32(f.x[i]);
}

} // namespace wt

template <const int BM, const int BN, const int BK, const int WM, const int WN, const int NUM_THREADS>
__global__ void __launch_bounds__(NUM_THREADS)
    sgemmTf32Warptiling(int M, int N, int K, float alpha, const float *A, const float *B, float beta, float *C) {
  using namespace nvcuda;
  static_assert((BM / WM) * (BN / WN) * wt::WARPSIZE == NUM_THREADS, "one warp for each warp tile");
  constexpr int WMITER = WM / 16;
  constexpr int WNITER = WN / 16;
  constexpr int LDA = BM + wt::PAD;
  constexpr int LDB = BN + wt::PAD;
  constexpr int LDC = BN + wt::PAD;
  constexpr int STAGE = BK * LDA + BK * LDB;
  constexpr int FLOATS = 2 * STAGE > BM * LDC ? 2 * STAGE : BM * LDC;

  __shared__ __align__(128) float smem[FLOATS];

  const int cRow = blockIdx.y;
  const int cCol = blockIdx.x;
  const int warpIdx = threadIdx.x / wt::WARPSIZE;
  const int warpCol = warpIdx % (BN / WN);
  const int warpRow = warpIdx / (BN / WN);

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> acc[WMITER][WNITER];
#pragma unroll
  for (int i = 0; i < WMITER; ++i)
#pragma unroll
    for (int j = 0; j < WNITER; ++j)
      wmma::fill_fragment(acc[i][j], 0.0f);

  wt::Staging<BM, BN, BK, NUM_THREADS> st;
  wt::loadFromGmem<BM, BN, BK, NUM_THREADS>(st, A, B, M, N, K, cRow, cCol, 0);
  wt::storeToSmem<BM, BN, BK, NUM_THREADS>(st, smem, smem + BK * LDA);
  __syncthreads();

  int cur = 0;
  for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
    const bool more = bkIdx + BK < K;
    if (more)
      wt::loadFromGmem<BM, BN, BK, NUM_THREADS>(st, A, B, M, N, K, cRow, cCol, bkIdx + BK);

    const float *As = smem + cur * STAGE;
    const float *Bs = As + BK * LDA;
#pragma unroll
    for (int dotIdx = 0; dotIdx < BK; dotIdx += 8) {
      wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::col_major> regM[WMITER];
      wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> regN[WNITER];
#pragma unroll
      for (int i = 0; i < WMITER; ++i) {
        wmma::load_matrix_sync(regM[i], As + dotIdx * LDA + warpRow * WM + i * 16, LDA);
        wt::toTf32(regM[i]);
      }
#pragma unroll
      for (int j = 0; j < WNITER; ++j) {
        wmma::load_matrix_sync(regN[j], Bs + dotIdx * LDB + warpCol * WN + j * 16, LDB);
        wt::toTf32(regN[j]);
      }
#pragma unroll
      for (int i = 0; i < WMITER; ++i)
#pragma unroll
        for (int j = 0; j < WNITER; ++j)
          wmma::mma_sync(acc[i][j], regM[i], regN[j], acc[i][j]);
    }

    if (more) {
      float *next = smem + (cur ^ 1) * STAGE;
      wt::storeToSmem<BM, BN, BK, NUM_THREADS>(st, next, next + BK * LDA);
    }
    __syncthreads();
    cur ^= 1;
  }

  // the tiles are no longer needed: the block's part of A * B takes their place
#pragma unroll
  for (int i = 0; i < WMITER; ++i)
#pragma unroll
    for (int j = 0; j < WNITER; ++j)
      wmma::store_matrix_sync(smem + (warpRow * WM + i * 16) * LDC + warpCol * WN + j * 16, acc[i][j], LDC,
                              wmma::mem_row_major);
  __syncthreads();

  constexpr int rowStrideC = NUM_THREADS / (BN / 4);
  const int innerRowC = threadIdx.x / (BN / 4);
  const int innerColC = threadIdx.x % (BN / 4);
  const int col = cCol * BN + innerColC * 4;
  for (int r = innerRowC; r < BM; r += rowStrideC) {
    const int row = cRow * BM + r;
    if (row >= M || col >= N)
      continue;
    const float4 sum = reinterpret_cast<const float4 *>(&smem[r * LDC + innerColC * 4])[0];
    float4 *dst = reinterpret_cast<float4 *>(&C[row * N + col]);
    float4 out = *dst;
    out.x = alpha * sum.x + beta * out.x;
    out.y = alpha * sum.y + beta * out.y;
    out.z = alpha * sum.z + beta * out.z;
    out.w = alpha * sum.w + beta * out.w;
    *dst = out;
  }
}

void runSgemmTf32Warptiling(int M, int N, int K, float alpha, float *A, float *B, float beta, float *C) {
  const int K10_BM = 64, K10_BN = 64, K10_BK = 16, K10_WM = 32, K10_WN = 32, K10_THREADS = 128;
  dim3 gridDim(CEIL_DIV(N, K10_BN), CEIL_DIV(M, K10_BM));
  sgemmTf32Warptiling<K10_BM, K10_BN, K10_BK, K10_WM, K10_WN, K10_THREADS>
      <<<gridDim, K10_THREADS>>>(M, N, K, alpha, A, B, beta, C);
}
