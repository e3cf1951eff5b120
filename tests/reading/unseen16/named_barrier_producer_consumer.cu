// Warp-specialised GEMM for Ampere: four producer warps copy, four consumer warps multiply; named barriers hand over
// the two stages (bar.arrive / bar.sync), in the manner of CUTLASS' early Hopper prototypes.
#include <cuda_fp16.h>
#include <mma.h>
#include <stdint.h>

constexpr int kM = 64, kN = 64, kK = 32;

template <int kId> __device__ __forceinline__ void bar_sync(int n) { asm volatile("bar.sync %0, %1;" ::"n"(kId), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_sync_id(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ void bar_arrive_id(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }

__global__ void __launch_bounds__(256) ws_hgemm(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) half sA[2][kM * kK];
  __shared__ __align__(32) half sB[2][kK * kN];
  // barriers 1, 2: stage is full; 3, 4: stage is empty
  const int group = threadIdx.x / 128, tid = threadIdx.x % 128;
  const int m0 = blockIdx.y * kM, n0 = blockIdx.x * kN;
  const int steps = K / kK;
  if (group == 0) {
    for (int s = 0; s < steps; ++s) {
      const int st = s & 1;
      if (s >= 2) bar_sync_id(3 + st, 256);
      for (int i = tid; i < kM * kK / 8; i += 128)
        *(uint4*)&sA[st][i * 8] = *(const uint4*)&A[(size_t)(m0 + i / (kK / 8)) * K + s * kK + i % (kK / 8) * 8];
      for (int i = tid; i < kK * kN / 8; i += 128)
        *(uint4*)&sB[st][i * 8] = *(const uint4*)&B[(size_t)(s * kK + i / (kN / 8)) * N + n0 + i % (kN / 8) * 8];
      bar_arrive_id(1 + st, 256);
    }
  } else {
    const int warp = tid / 32;
    fragment<accumulator, 16, 16, 16, float> acc[4];
    for (auto& f : acc) fill_fragment(f, 0.f);
    for (int s = 0; s < steps; ++s) {
      const int st = s & 1;
      bar_sync_id(1 + st, 256);
      for (int k = 0; k < kK; k += 16) {
        fragment<matrix_a, 16, 16, 16, half, row_major> a;
        load_matrix_sync(a, &sA[st][warp * 16 * kK + k], kK);
        for (int j = 0; j < 4; ++j) {
          fragment<matrix_b, 16, 16, 16, half, row_major> b;
          load_matrix_sync(b, &sB[st][k * kN + j * 16], kN);
          mma_sync(acc[j], a, b, acc[j]);
        }
      }
      if (s + 2 < steps) bar_arrive_id(3 + st, 256);
    }
    for (int j = 0; j < 4; ++j) store_matrix_sync(C + (size_t)(m0 + warp * 16) * N + n0 + j * 16, acc[j], N, mem_row_major);
  }
}

void launch_ws_hgemm(const half* A, const half* B, float* C, int M, int N, int K, cudaStream_t s) {
  ws_hgemm<<<dim3(N / kN, M / kM), 256, 0, s>>>(A, B, C, M, N, K);
}
