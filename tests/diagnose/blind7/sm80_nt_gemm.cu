#pragma once
// Half-precision GEMM for sm_80 and later: D[M,N] = A[M,K] * B[N,K]^T ("NT"), fp32 accumulators, fp16 result.
//
//   * cp.async pipeline of Config::kStages stages in dynamic shared memory
//   * rows of 32 halves are four 16-byte chunks; chunk c of row r lies at c ^ ((r >> 1) & 3): ldmatrix without conflicts
//   * ldmatrix.x4 for both operands, mma.sync.m16n8k16
//
// K and N must be multiples of 8.

#include <cstdint>
#include <cuda_fp16.h>

namespace sm80 {

template <int BlockM_, int BlockN_, int Stages_>
struct Config {
  static constexpr int kBlockM = BlockM_;
  static constexpr int kBlockN = BlockN_;
  static constexpr int kBlockK = 32;
  static constexpr int kStages = Stages_;
  static constexpr int kWarpsM = 2;
  static constexpr int kWarpsN = 2;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kTilesM = kBlockM / kWarpsM / 16;
  static constexpr int kTilesN = kBlockN / kWarpsN / 16;
  static constexpr int kChunks = kBlockK / 8;
  static constexpr int kStageBytesA = kBlockM * kBlockK * 2;
  static constexpr int kStageBytesB = kBlockN * kBlockK * 2;
  static constexpr int kStageBytes = kStageBytesA + kStageBytesB;
  static constexpr int kSmemBytes = kStages * kStageBytes;
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void cp_async_16(uint32_t dst, const void* src, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldsm_x4(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// byte offset of a chunk of 8 halves in a tile
__device__ __forceinline__ uint32_t swizzled(int row, int chunk) { return row * 64 + ((chunk ^ ((row >> 1) & 3)) << 4); }

template <class Cfg, int Rows>
__device__ __forceinline__ void fetch_tile(uint32_t tile, const __half* __restrict__ src, int row0, int rows, int k0, int K) {
#pragma unroll
  for (int i = threadIdx.x; i < Rows * Cfg::kChunks; i += Cfg::kThreads) {
    const int r = i / Cfg::kChunks;
    const int c = i % Cfg::kChunks;
    const bool valid = row0 + r < rows && k0 + c * 8 < K;
    const __half* from = valid ? src + size_t(row0 + r) * K + k0 + c * 8 : src;
    cp_async_16(tile + swizzled(r, c), from, valid);
  }
}

template <class Cfg>
__global__ __launch_bounds__(Cfg::kThreads) void gemm_nt(const __half* __restrict__ A, const __half* __restrict__ B,
                                                         __half* __restrict__ D, int M, int N, int K) {
  extern __shared__ __align__(128) unsigned char smem_raw[];
  const uint32_t smem = smem_u32(smem_raw);
  const int lane = threadIdx.x & 31;
  const int warp_m = (threadIdx.x >> 5) / Cfg::kWarpsN;
  const int warp_n = (threadIdx.x >> 5) % Cfg::kWarpsN;
  const int m_base = blockIdx.y * Cfg::kBlockM;
  const int n_base = blockIdx.x * Cfg::kBlockN;
  const int k_tiles = (K + Cfg::kBlockK - 1) / Cfg::kBlockK;

  auto produce = [&](int k_tile) {
    if (k_tile < k_tiles) {
      const uint32_t stage = smem + (k_tile % Cfg::kStages) * Cfg::kStageBytes;
      fetch_tile<Cfg, Cfg::kBlockM>(stage, A, m_base, M, k_tile * Cfg::kBlockK, K);
      fetch_tile<Cfg, Cfg::kBlockN>(stage + Cfg::kStageBytesA, B, n_base, N, k_tile * Cfg::kBlockK, K);
    }
    cp_async_fence();
  };

  float acc[Cfg::kTilesM][Cfg::kTilesN * 2][4] = {};

#pragma unroll
  for (int s = 0; s < Cfg::kStages - 1; ++s) produce(s);

  for (int kt = 0; kt < k_tiles; ++kt) {
    cp_async_wait<Cfg::kStages - 2>();
    __syncthreads();

    const uint32_t tile_a = smem + (kt % Cfg::kStages) * Cfg::kStageBytes;
    const uint32_t tile_b = tile_a + Cfg::kStageBytesA;
#pragma unroll
    for (int ks = 0; ks < Cfg::kBlockK / 16; ++ks) {
      uint32_t fa[Cfg::kTilesM][4];
      uint32_t fb[Cfg::kTilesN][4];
#pragma unroll
      for (int i = 0; i < Cfg::kTilesM; ++i) {
        const int row = (warp_m * Cfg::kTilesM + i) * 16 + (lane & 15);
        ldsm_x4(fa[i], tile_a + swizzled(row, ks * 2 + (lane >> 4)));
      }
#pragma unroll
      for (int j = 0; j < Cfg::kTilesN; ++j) {
        const int row = (warp_n * Cfg::kTilesN + j) * 16 + (lane >> 4) * 8 + (lane & 7);
        ldsm_x4(fb[j], tile_b + swizzled(row, ks * 2 + ((lane >> 3) & 1)));
      }
#pragma unroll
      for (int i = 0; i < Cfg::kTilesM; ++i)
#pragma unroll
        for (int j = 0; j < Cfg::kTilesN; ++j) {
          mma_16816(acc[i][2 * j], fa[i], fb[j][0], fb[j][1]);
          mma_16816(acc[i][2 * j + 1], fa[i], fb[j][2], fb[j][3]);
        }
    }
    produce(kt + Cfg::kStages - 1);
  }

  const int group = lane >> 2;
  const int pair = (lane & 3) * 2;
#pragma unroll
  for (int i = 0; i < Cfg::kTilesM; ++i)
#pragma unroll
    for (int half_row = 0; half_row < 2; ++half_row) {
      const int m = m_base + (warp_m * Cfg::kTilesM + i) * 16 + half_row * 8 + group;
      if (m >= M) continue;
#pragma unroll
      for (int j = 0; j < Cfg::kTilesN * 2; ++j) {
        const int n = n_base + warp_n * Cfg::kTilesN * 16 + j * 8 + pair;
        if (n < N)
          *reinterpret_cast<__half2*>(D + size_t(m) * N + n) =
              __floats2half2_rn(acc[i][j][half_row * 2], acc[i][j][half_row * 2 + 1]);
      }
    }
}

}  // namespace sm80
