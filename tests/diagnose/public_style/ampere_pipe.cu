// bf16 gemm, C = A * B, row major, for sm_80 and later. cp.async into two stages, XOR swizzle, ldmatrix, mma.sync.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <cassert>
#include <cstdio>

template <int BM_, int BN_, int BK_, int WM_, int WN_>
struct TileConfig {
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_;
  static constexpr int WARPS_M = BM / WM, WARPS_N = BN / WN;
  static constexpr int THREADS = WARPS_M * WARPS_N * 32;
  static constexpr int MMA_M = WM / 16, MMA_N = WN / 8;
  static_assert(BK == 32 && BN == 64, "the swizzles are written for these");
};

template <typename Cfg>
struct SharedStorage {
  __nv_bfloat16 a[2][Cfg::BM * Cfg::BK];
  __nv_bfloat16 b[2][Cfg::BK * Cfg::BN];
};

// a row of A's tile is four chunks of 16 bytes, of B's eight
__device__ inline int swz_a(int row, int chunk) { return row * 4 + (chunk ^ ((row >> 1) & 3)); }
__device__ inline int swz_b(int row, int chunk) { return row * 8 + (chunk ^ (row & 7)); }

__device__ inline void cp16(__nv_bfloat16* smem, const __nv_bfloat16* gmem, bool valid) {
  unsigned dst = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(gmem), "r"(bytes) : "memory");
}
#define CP_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define CP_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

__device__ inline void ldsm4(unsigned* r, const __nv_bfloat16* p) {
  unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void ldsm4t(unsigned* r, const __nv_bfloat16* p) {
  unsigned addr = static_cast<unsigned>(__cvta_generic_to_shared(p));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void mma16816(float* c, const unsigned* a, unsigned b0, unsigned b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <typename Cfg>
__global__ __launch_bounds__(Cfg::THREADS) void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C,
                                                          int m, int n, int k, int lda, int ldb, int ldc) {
  __shared__ __align__(128) SharedStorage<Cfg> storage;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int wm = warp / Cfg::WARPS_N * Cfg::WM, wn = warp % Cfg::WARPS_N * Cfg::WN;
  const int bm = blockIdx.y * Cfg::BM, bn = blockIdx.x * Cfg::BN;
  const __nv_bfloat16* gA = A + (size_t)bm * lda;
  const __nv_bfloat16* gB = B + bn;

  auto load_stage = [&](int stage) {
    for (int i = tid; i < Cfg::BM * 4; i += Cfg::THREADS) {
      const int row = i >> 2, chunk = i & 3;
      const bool ok = bm + row < m;
      cp16(storage.a[stage] + swz_a(row, chunk) * 8, ok ? gA + (size_t)row * lda + chunk * 8 : A, ok);
    }
    for (int i = tid; i < Cfg::BK * 8; i += Cfg::THREADS) {
      const int row = i >> 3, chunk = i & 7;
      const bool ok = bn + chunk * 8 < n;
      cp16(storage.b[stage] + swz_b(row, chunk) * 8, ok ? gB + (size_t)row * ldb + chunk * 8 : B, ok);
    }
    gA += Cfg::BK;
    gB += (size_t)Cfg::BK * ldb;
  };

  float acc[Cfg::MMA_M][Cfg::MMA_N][4] = {};
  const int tiles = k / Cfg::BK;
  load_stage(0);
  CP_COMMIT();

  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile & 1;
    if (tile + 1 < tiles) {
      load_stage(stage ^ 1);
      CP_COMMIT();
      CP_WAIT(1);
    } else {
      CP_WAIT(0);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      unsigned a[Cfg::MMA_M][4], b[Cfg::MMA_N / 2][4];
#pragma unroll
      for (int i = 0; i < Cfg::MMA_M; ++i) {
        const int row = wm + i * 16 + (lane & 15);
        ldsm4(a[i], storage.a[stage] + swz_a(row, kk * 2 + (lane >> 4)) * 8);
      }
#pragma unroll
      for (int j = 0; j < Cfg::MMA_N / 2; ++j) {
        const int row = kk * 16 + (lane & 15);
        ldsm4t(b[j], storage.b[stage] + swz_b(row, wn / 8 + j * 2 + (lane >> 4)) * 8);
      }
#pragma unroll
      for (int i = 0; i < Cfg::MMA_M; ++i)
#pragma unroll
        for (int j = 0; j < Cfg::MMA_N; ++j) mma16816(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }

  const int g = lane / 4, t = lane % 4;
  for (int i = 0; i < Cfg::MMA_M; ++i) {
    for (int j = 0; j < Cfg::MMA_N; ++j) {
      const int col = bn + wn + j * 8 + t * 2;
      for (int h = 0; h < 2; ++h) {
        const int row = bm + wm + i * 16 + g + h * 8;
        if (row < m && col < n) *reinterpret_cast<float2*>(C + (size_t)row * ldc + col) = {acc[i][j][h * 2], acc[i][j][h * 2 + 1]};
      }
    }
  }
}

void launch_gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int m, int n, int k, cudaStream_t s) {
  using Cfg = TileConfig<64, 64, 32, 32, 32>;
  assert(k % Cfg::BK == 0 && n % 8 == 0);
  dim3 grid((n + Cfg::BN - 1) / Cfg::BN, (m + Cfg::BM - 1) / Cfg::BM);
  gemm_bf16<Cfg><<<grid, Cfg::THREADS, 0, s>>>(A, B, C, m, n, k, k, n, n);
  if (cudaGetLastError() != cudaSuccess) fprintf(stderr, "gemm_bf16: launch failed\n");
}
