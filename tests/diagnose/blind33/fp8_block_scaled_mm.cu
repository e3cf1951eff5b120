// Block-scaled fp8 linear for checkpoints that were quantised as DeepSeek-V3 is:
//   activations [M, K] e4m3, one scale for each token and 128 values of K   -> a_scales [M, K / 128]
//   weight      [N, K] e4m3, one scale for each block of 128 x 128 values  -> b_scales [ceil(N / 128), K / 128]
//   out         [M, N] bf16
// The tensor cores sum products of one block of K; the sum is scaled and added ("promoted") to an fp32 accumulator.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cstdint>

namespace engine {
namespace quant {

constexpr int kScaleBlock = 128;

template <int BLOCK_M_, int BLOCK_N_, int BLOCK_K_, int WARPS_M_, int WARPS_N_>
struct GemmTraits {
  static constexpr int BLOCK_M = BLOCK_M_;
  static constexpr int BLOCK_N = BLOCK_N_;
  static constexpr int BLOCK_K = BLOCK_K_;
  static constexpr int WARPS_M = WARPS_M_;
  static constexpr int WARPS_N = WARPS_N_;
  static constexpr int THREADS = WARPS_M * WARPS_N * 32;
  static constexpr int WARP_M = BLOCK_M / WARPS_M;
  static constexpr int WARP_N = BLOCK_N / WARPS_N;
  static constexpr int FRAGS_M = WARP_M / 16;
  static constexpr int FRAGS_N = WARP_N / 8;
  static constexpr int PITCH = BLOCK_K + 16;  // bytes of a row in shared memory
  static constexpr int VECS_PER_ROW = BLOCK_K / 16;
  static constexpr int A_VECS = BLOCK_M * VECS_PER_ROW / THREADS;
  static constexpr int B_VECS = BLOCK_N * VECS_PER_ROW / THREADS;
  static_assert(kScaleBlock % BLOCK_K == 0, "a tile of K must not straddle two scales");
  static_assert(kScaleBlock % BLOCK_N == 0, "a tile of N must not straddle two scales");
};

struct Params {
  const __nv_fp8_e4m3* a;
  const __nv_fp8_e4m3* b;
  const float* a_scales;
  const float* b_scales;
  __nv_bfloat16* out;
  int m, n, k;
};

__device__ __forceinline__ void mma_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t load_u32(const uint8_t* p) { return *reinterpret_cast<const uint32_t*>(p); }

/// Keeps a tile of ROWS rows in registers between global and shared memory.
template <class Traits, int VECS>
struct TileFetcher {
  uint4 regs[VECS];

  __device__ __forceinline__ void fetch(const __nv_fp8_e4m3* base, int row0, int rows, int k0, int ld) {
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int v = threadIdx.x + i * Traits::THREADS;
      const int row = row0 + v / Traits::VECS_PER_ROW;
      const int col = k0 + (v % Traits::VECS_PER_ROW) * 16;
      regs[i] = make_uint4(0, 0, 0, 0);
      if (row < rows) regs[i] = *reinterpret_cast<const uint4*>(base + int64_t(row) * ld + col);
    }
  }

  __device__ __forceinline__ void commit(uint8_t* smem) const {
#pragma unroll
    for (int i = 0; i < VECS; ++i) {
      const int v = threadIdx.x + i * Traits::THREADS;
      uint8_t* dst = smem + (v / Traits::VECS_PER_ROW) * Traits::PITCH + (v % Traits::VECS_PER_ROW) * 16;
      *reinterpret_cast<uint4*>(dst) = regs[i];
    }
  }
};

template <class Traits>
__global__ void __launch_bounds__(Traits::THREADS) fp8_block_scaled_mm_kernel(const Params p) {
  __shared__ __align__(16) uint8_t smem_a[Traits::BLOCK_M * Traits::PITCH];
  __shared__ __align__(16) uint8_t smem_b[Traits::BLOCK_N * Traits::PITCH];

  const int block_m = blockIdx.y * Traits::BLOCK_M;
  const int block_n = blockIdx.x * Traits::BLOCK_N;
  const int warp = threadIdx.x >> 5;
  const int group = (threadIdx.x & 31) >> 2;  // row of A and C, column of B
  const int quad = threadIdx.x & 3;
  const int warp_m = (warp / Traits::WARPS_N) * Traits::WARP_M;
  const int warp_n = (warp % Traits::WARPS_N) * Traits::WARP_N;
  const int scale_cols = p.k / kScaleBlock;

  float total[Traits::FRAGS_M][Traits::FRAGS_N][4] = {};
  float partial[Traits::FRAGS_M][Traits::FRAGS_N][4] = {};

  TileFetcher<Traits, Traits::A_VECS> tile_a;
  TileFetcher<Traits, Traits::B_VECS> tile_b;
  tile_a.fetch(p.a, block_m, p.m, 0, p.k);
  tile_b.fetch(p.b, block_n, p.n, 0, p.k);

  for (int k0 = 0; k0 < p.k; k0 += Traits::BLOCK_K) {
    tile_a.commit(smem_a);
    tile_b.commit(smem_b);
    __syncthreads();

    // the next tiles are on their way while this one is multiplied
    if (k0 + Traits::BLOCK_K < p.k) {
      tile_a.fetch(p.a, block_m, p.m, k0 + Traits::BLOCK_K, p.k);
      tile_b.fetch(p.b, block_n, p.n, k0 + Traits::BLOCK_K, p.k);
    }

#pragma unroll
    for (int kk = 0; kk < Traits::BLOCK_K; kk += 32) {
      uint32_t fa[Traits::FRAGS_M][4];
      uint32_t fb[Traits::FRAGS_N][2];
#pragma unroll
      for (int i = 0; i < Traits::FRAGS_M; ++i) {
        const uint8_t* src = smem_a + (warp_m + i * 16 + group) * Traits::PITCH + kk + quad * 4;
        fa[i][0] = load_u32(src);
        fa[i][1] = load_u32(src + 8 * Traits::PITCH);
        fa[i][2] = load_u32(src + 16);
        fa[i][3] = load_u32(src + 8 * Traits::PITCH + 16);
      }
#pragma unroll
      for (int j = 0; j < Traits::FRAGS_N; ++j) {
        const uint8_t* src = smem_b + (warp_n + j * 8 + group) * Traits::PITCH + kk + quad * 4;
        fb[j][0] = load_u32(src);
        fb[j][1] = load_u32(src + 16);
      }
#pragma unroll
      for (int i = 0; i < Traits::FRAGS_M; ++i)
#pragma unroll
        for (int j = 0; j < Traits::FRAGS_N; ++j) mma_e4m3(partial[i][j], fa[i], fb[j]);
    }
    __syncthreads();

    // promotion, when a block of K is complete
    if ((k0 + Traits::BLOCK_K) % kScaleBlock == 0) {
      const int kb = k0 / kScaleBlock;
      const float scale_b = p.b_scales[(block_n / kScaleBlock) * scale_cols + kb];
#pragma unroll
      for (int i = 0; i < Traits::FRAGS_M; ++i) {
        const int row = block_m + warp_m + i * 16 + group;
        const float scale_lo = row < p.m ? p.a_scales[row * scale_cols + kb] * scale_b : 0.f;
        const float scale_hi = row + 8 < p.m ? p.a_scales[(row + 8) * scale_cols + kb] * scale_b : 0.f;
#pragma unroll
        for (int j = 0; j < Traits::FRAGS_N; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            total[i][j][e] += partial[i][j][e] * (e < 2 ? scale_lo : scale_hi);
            partial[i][j][e] = 0.f;
          }
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < Traits::FRAGS_M; ++i) {
    const int row = block_m + warp_m + i * 16 + group;
#pragma unroll
    for (int j = 0; j < Traits::FRAGS_N; ++j) {
      const int col = block_n + warp_n + j * 8 + quad * 2;
      if (col >= p.n) continue;
      if (row < p.m)
        *reinterpret_cast<__nv_bfloat162*>(p.out + int64_t(row) * p.n + col) =
            __floats2bfloat162_rn(total[i][j][0], total[i][j][1]);
      if (row + 8 < p.m)
        *reinterpret_cast<__nv_bfloat162*>(p.out + int64_t(row + 8) * p.n + col) =
            __floats2bfloat162_rn(total[i][j][2], total[i][j][3]);
    }
  }
}

using DefaultTraits = GemmTraits<32, 64, 64, 1, 4>;

void fp8_block_scaled_mm(const Params& p, cudaStream_t stream) {
  dim3 grid((p.n + DefaultTraits::BLOCK_N - 1) / DefaultTraits::BLOCK_N,
            (p.m + DefaultTraits::BLOCK_M - 1) / DefaultTraits::BLOCK_M);
  fp8_block_scaled_mm_kernel<DefaultTraits><<<grid, DefaultTraits::THREADS, 0, stream>>>(p);
}

}  // namespace quant
}  // namespace engine
