// W4A8 GEMM, per-channel weights, per-token activations.
//
//   out[m, n] = ascale[m] * wscale[n] * sum_k A[m, k] * Q[n, k]  -  asum[m] * wszero[n]
//
// A: int8 [M, K]. Q: uint4 [N, K], prepacked: for each row n and each 32 values of k four 32-bit words; byte i of
// word j holds k = 4j + i in its low nibble and k = 16 + 4j + i in its high nibble, so that the two registers of the
// B operand of mma.m16n8k32 are (word & 0x0f0f0f0f) and ((word >> 4) & 0x0f0f0f0f). The zero points never enter the
// main loop: wszero = wscale * zero, asum = ascale * row sum of A, both computed when quantising.
//
// Requires K % 32 == 0, N % 2 == 0.
#include <cuda_fp16.h>
#include <stdint.h>

namespace qgemm {
namespace w4a8_per_chn {

#define DEVICE_INLINE __device__ __forceinline__

template <int CtaM_, int CtaN_, int CtaK_, int WarpsM_, int WarpsN_, int Stages_>
struct KernelTraits {
  static constexpr int kCtaM = CtaM_, kCtaN = CtaN_, kCtaK = CtaK_;
  static constexpr int kWarpsM = WarpsM_, kWarpsN = WarpsN_, kStages = Stages_;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kWarpM = kCtaM / kWarpsM, kWarpN = kCtaN / kWarpsN;
  static constexpr int kMmaM = kWarpM / 16, kMmaN = kWarpN / 8, kMmaK = kCtaK / 32;

  // 16-byte chunks
  static constexpr int kChunksPerRowA = kCtaK / 16;
  static constexpr int kChunksA = kCtaM * kChunksPerRowA;
  static constexpr int kChunksB = kCtaN * kMmaK;
  static constexpr int kStageBytes = (kChunksA + kChunksB) * 16;
  static constexpr int kSmemBytes = kStageBytes * kStages;
  static constexpr int kGroupM = 2;  // row blocks that are walked together, for the L2

  static_assert(kChunksA % kThreads == 0 && kChunksB % kThreads == 0, "copies are not distributed evenly");
  static_assert(kChunksPerRowA == 4, "swizzle_a assumes rows of 64 bytes");
};

DEVICE_INLINE uint32_t smem_u32(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

DEVICE_INLINE void cp_async_16_zfill(uint32_t dst, const void* src, bool pred) {
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes));
}
DEVICE_INLINE void cp_async_fence() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
DEVICE_INLINE void cp_async_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

DEVICE_INLINE void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
DEVICE_INLINE uint32_t lds_32(uint32_t addr) {
  uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(v) : "r"(addr));
  return v;
}
DEVICE_INLINE void mma_s8_m16n8k32(int32_t (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
               "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// four chunks of 16 bytes per row, two rows per 128-byte line
DEVICE_INLINE int swizzle_a(int row, int chunk) { return row * 4 + (chunk ^ ((row >> 1) & 3)); }

template <typename T>
DEVICE_INLINE void load_stage(uint32_t stage, const int8_t* A, const uint4* B, int m0, int n0, int k0, int M, int N,
                              int K) {
#pragma unroll
  for (int i = 0; i < T::kChunksA / T::kThreads; ++i) {
    const int idx = i * T::kThreads + threadIdx.x;
    const int row = idx / T::kChunksPerRowA, chunk = idx % T::kChunksPerRowA;
    const bool pred = m0 + row < M && k0 + chunk * 16 < K;
    const int8_t* src = A + static_cast<int64_t>(m0 + row) * K + k0 + chunk * 16;
    cp_async_16_zfill(stage + swizzle_a(row, chunk) * 16, pred ? src : A, pred);
  }
  const uint32_t stage_b = stage + T::kChunksA * 16;
#pragma unroll
  for (int i = 0; i < T::kChunksB / T::kThreads; ++i) {
    const int idx = i * T::kThreads + threadIdx.x;
    const int row = idx / T::kMmaK, kb = idx % T::kMmaK;
    const bool pred = n0 + row < N && k0 + kb * 32 < K;
    const uint4* src = B + static_cast<int64_t>(n0 + row) * (K / 32) + k0 / 32 + kb;
    cp_async_16_zfill(stage_b + (kb * T::kCtaN + row) * 16, pred ? src : B, pred);
  }
}

// blocks of kGroupM rows of tiles, column by column
template <typename T>
DEVICE_INLINE void get_tile(int M, int N, int& tile_m, int& tile_n) {
  const int tiles_m = (M + T::kCtaM - 1) / T::kCtaM, tiles_n = (N + T::kCtaN - 1) / T::kCtaN;
  const int per_group = T::kGroupM * tiles_n;
  const int group = blockIdx.x / per_group, within = blockIdx.x % per_group;
  const int rows = min(tiles_m - group * T::kGroupM, T::kGroupM);
  tile_m = group * T::kGroupM + within % rows;
  tile_n = within / rows;
}

template <typename T>
__global__ void __launch_bounds__(T::kThreads)
w4a8_gemm_kernel(const int8_t* __restrict__ A, const uint4* __restrict__ B, const half* __restrict__ wscale,
                 const half* __restrict__ ascale, const half* __restrict__ wszero, const half* __restrict__ asum,
                 half* __restrict__ out, int M, int N, int K) {
  extern __shared__ __align__(128) uint8_t smem[];
  const uint32_t smem_base = smem_u32(smem);

  int tile_m, tile_n;
  get_tile<T>(M, N, tile_m, tile_n);
  const int m0 = tile_m * T::kCtaM, n0 = tile_n * T::kCtaN;

  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
  const int warp_m = warp % T::kWarpsM * T::kWarpM, warp_n = warp / T::kWarpsM * T::kWarpN;

  int32_t acc[T::kMmaM][T::kMmaN][4] = {};

  const int k_iters = (K + T::kCtaK - 1) / T::kCtaK;
#pragma unroll
  for (int s = 0; s < T::kStages - 1; ++s) {
    if (s < k_iters) load_stage<T>(smem_base + s * T::kStageBytes, A, B, m0, n0, s * T::kCtaK, M, N, K);
    cp_async_fence();
  }

  int read = 0, write = T::kStages - 1;
  for (int it = 0; it < k_iters; ++it) {
    cp_async_wait<T::kStages - 2>();
    __syncthreads();

    const int ahead = it + T::kStages - 1;
    if (ahead < k_iters) load_stage<T>(smem_base + write * T::kStageBytes, A, B, m0, n0, ahead * T::kCtaK, M, N, K);
    cp_async_fence();
    write = write + 1 == T::kStages ? 0 : write + 1;

    const uint32_t stage_a = smem_base + read * T::kStageBytes;
    const uint32_t stage_b = stage_a + T::kChunksA * 16;
#pragma unroll
    for (int kb = 0; kb < T::kMmaK; ++kb) {
      uint32_t a_frag[T::kMmaM][4];
#pragma unroll
      for (int i = 0; i < T::kMmaM; ++i)
        ldsm_x4(a_frag[i], stage_a + swizzle_a(warp_m + i * 16 + lane % 16, kb * 2 + lane / 16) * 16);
#pragma unroll
      for (int j = 0; j < T::kMmaN; ++j) {
        const int col = warp_n + j * 8 + lane / 4;
        const uint32_t packed = lds_32(stage_b + (kb * T::kCtaN + col) * 16 + lane % 4 * 4);
        const uint32_t b_frag[2] = {packed & 0x0f0f0f0fu, (packed >> 4) & 0x0f0f0f0fu};
#pragma unroll
        for (int i = 0; i < T::kMmaM; ++i) mma_s8_m16n8k32(acc[i][j], a_frag[i], b_frag);
      }
    }
    read = read + 1 == T::kStages ? 0 : read + 1;
  }

#pragma unroll
  for (int i = 0; i < T::kMmaM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int m = m0 + warp_m + i * 16 + lane / 4 + h * 8;
      if (m >= M) continue;
      const float as = __half2float(ascale[m]);
      const float sum = __half2float(asum[m]);
#pragma unroll
      for (int j = 0; j < T::kMmaN; ++j) {
        const int n = n0 + warp_n + j * 8 + lane % 4 * 2;
        if (n >= N) continue;
        const float2 ws = __half22float2(*reinterpret_cast<const half2*>(wscale + n));
        const float2 wz = __half22float2(*reinterpret_cast<const half2*>(wszero + n));
        const float x = acc[i][j][h * 2] * as * ws.x - sum * wz.x;
        const float y = acc[i][j][h * 2 + 1] * as * ws.y - sum * wz.y;
        *reinterpret_cast<half2*>(out + static_cast<int64_t>(m) * N + n) = __floats2half2_rn(x, y);
      }
    }
  }
}

using Traits32x64x64 = KernelTraits<32, 64, 64, 2, 2, 3>;
using Traits64x64x64 = KernelTraits<64, 64, 64, 2, 2, 4>;

}  // namespace w4a8_per_chn
}  // namespace qgemm
