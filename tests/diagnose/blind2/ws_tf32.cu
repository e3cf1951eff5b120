// Warp-specialised TF32 GEMM: one producer warp group fills a ring of smem stages, four consumer warps do the math.
// Full/empty hand-over by named barriers (bar.sync / bar.arrive), no __syncthreads in the main loop.
//
//     D[M,N] = A[M,K] * B[N,K]^T        fp32 in, fp32 out, tf32 tensor cores
//
#include <mma.h>
#include <cstdint>

namespace ws {

using namespace nvcuda;

static constexpr int kStages    = 2;
static constexpr int kM         = 64;
static constexpr int kN         = 64;
static constexpr int kK         = 16;
static constexpr int kLd        = kK + 4;
static constexpr int kProducers = 64;
static constexpr int kConsumers = 128;
static constexpr int kThreads   = kProducers + kConsumers;

// barrier 0 belongs to __syncthreads
enum Barrier : int { kFull0 = 1, kEmpty0 = kFull0 + kStages };

__device__ __forceinline__ void bar_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void bar_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

struct __align__(128) Ring {
  float a[kStages][kM * kLd];
  float b[kStages][kN * kLd];
};

__device__ void produce(Ring& ring, const float* __restrict__ A, const float* __restrict__ B, int M, int N, int K,
                        int m0, int n0, int tid) {
  const int tiles = (K + kK - 1) / kK;
  for (int t = 0; t < tiles; ++t) {
    const int stage = t % kStages;
    if (t >= kStages) bar_sync(kEmpty0 + stage, kThreads);
    const int k0 = t * kK;
#pragma unroll 4
    for (int i = tid; i < kM * kK; i += kProducers) {
      const int r = i / kK, c = i % kK;
      const bool in = m0 + r < M && k0 + c < K;
      ring.a[stage][r * kLd + c] = in ? wmma::__float_to_tf32(A[(size_t)(m0 + r) * K + k0 + c]) : 0.0f;
    }
#pragma unroll 4
    for (int i = tid; i < kN * kK; i += kProducers) {
      const int r = i / kK, c = i % kK;
      const bool in = n0 + r < N && k0 + c < K;
      ring.b[stage][r * kLd + c] = in ? wmma::__float_to_tf32(B[(size_t)(n0 + r) * K + k0 + c]) : 0.0f;
    }
    bar_arrive(kFull0 + stage, kThreads);
  }
}

using FragA   = wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>;
using FragB   = wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major>;
using FragAcc = wmma::fragment<wmma::accumulator, 16, 16, 8, float>;

__device__ void consume(Ring& ring, FragAcc (&acc)[2][2], int K, int wm, int wn) {
  const int tiles = (K + kK - 1) / kK;
  for (int t = 0; t < tiles; ++t) {
    const int stage = t % kStages;
    bar_sync(kFull0 + stage, kThreads);
#pragma unroll
    for (int k = 0; k < kK; k += 8) {
      FragA a[2];
      FragB b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(a[i], ring.a[stage] + (wm + i * 16) * kLd + k, kLd);
        wmma::load_matrix_sync(b[i], ring.b[stage] + (wn + i * 16) * kLd + k, kLd);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    // nobody waits for the last kStages arrivals, so they are left out
    if (t + kStages < tiles) bar_arrive(kEmpty0 + stage, kThreads);
  }
}

__global__ void __launch_bounds__(kThreads) gemm_tn(const float* A, const float* B, float* D, int M, int N, int K) {
  __shared__ Ring ring;
  __shared__ __align__(128) float out[kM][kN + 4];

  const int m0 = blockIdx.y * kM;
  const int n0 = blockIdx.x * kN;

  if (threadIdx.x < kProducers) {
    produce(ring, A, B, M, N, K, m0, n0, threadIdx.x);
  } else {
    const int warp = (threadIdx.x - kProducers) / 32;
    const int wm = (warp >> 1) * 32;
    const int wn = (warp & 1) * 32;
    FragAcc acc[2][2];
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) wmma::fill_fragment(acc[i][j], 0.0f);
    consume(ring, acc, K, wm, wn);
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        wmma::store_matrix_sync(&out[wm + i * 16][wn + j * 16], acc[i][j], kN + 4, wmma::mem_row_major);
  }
  __syncthreads();

  for (int i = threadIdx.x; i < kM * kN; i += kThreads) {
    const int r = i / kN, c = i % kN;
    if (m0 + r < M && n0 + c < N) D[(size_t)(m0 + r) * N + n0 + c] = out[r][c];
  }
}

void launch(const float* A, const float* B, float* D, int M, int N, int K, cudaStream_t stream = 0) {
  dim3 grid((N + kN - 1) / kN, (M + kM - 1) / kM);
  gemm_tn<<<grid, kThreads, 0, stream>>>(A, B, D, M, N, K);
}

}  // namespace ws
