// SPDX-License-Identifier: Apache-2.0
//
// fp8 (e4m3) GEMM with fine-grained scales for Ada and Hopper, mma.sync path (sm_89+).
//
//   C[m, n] = sum_kb  scale_a[m, kb] * scale_b[n / 128, kb] * sum_{k in block kb} A[m, k] * B[n, k]
//
//   A        [M, K]            e4m3, activations, one scale per row and 128 values of k
//   B        [N, K]            e4m3, weights, one scale per 128 x 128 block
//   scale_a  [M, K / 128]      float
//   scale_b  [N / 128, K / 128] float
//   C        [M, N]            bf16
//
// N and K are multiples of 128, M is arbitrary.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace fp8gemm {

template <int kTileM_, int kTileN_>
struct TileConfig {
  static constexpr int kTileM = kTileM_;
  static constexpr int kTileN = kTileN_;
  static constexpr int kTileK = 128;                // bytes, exactly one scale block
  static constexpr int kPitch = kTileK + 16;        // shared memory row, bytes
  static constexpr int kThreads = 128;              // 2 x 2 warps
  static constexpr int kMmaM = kTileM / 2 / 16;     // m16 tiles of a warp
  static constexpr int kMmaN = kTileN / 2 / 8;      // n8 tiles of a warp
  static constexpr int kStageBytes = (kTileM + kTileN) * kPitch;
  static_assert(kTileM % 32 == 0 && kTileN % 32 == 0, "warp tiles are multiples of 16 x 16");
  static_assert(128 % kTileN == 0, "a tile must not straddle two weight scales");
};

__device__ inline uint32_t shared_ptr_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

// 16 bytes, zero-filled when the predicate is false (the source is not read then).
__device__ inline void copy_async16(void* dst, const void* src, bool pred) {
  const int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_ptr_u32(dst)), "l"(src), "r"(bytes));
}

__device__ inline void copy_async_fence() { asm volatile("cp.async.commit_group;" ::); }

template <int kPending>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending));
}

__device__ inline void ldmatrix4(uint32_t& r0, uint32_t& r1, uint32_t& r2, uint32_t& r3, const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
               : "r"(shared_ptr_u32(p)));
}

__device__ inline void mma_e4m3(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <typename Cfg>
__global__ void __launch_bounds__(Cfg::kThreads)
    blockscale_gemm(const uint8_t* __restrict__ A, const uint8_t* __restrict__ B, const float* __restrict__ scale_a,
                    const float* __restrict__ scale_b, __nv_bfloat16* __restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(16) uint8_t smem[];

  const int m0 = blockIdx.y * Cfg::kTileM;
  const int n0 = blockIdx.x * Cfg::kTileN;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = warp / 2 * (Cfg::kTileM / 2);
  const int warp_n = warp % 2 * (Cfg::kTileN / 2);
  const int k_blocks = K / Cfg::kTileK;

  auto fetch = [&](int kb) {
    uint8_t* sa = smem + (kb & 1) * Cfg::kStageBytes;
    uint8_t* sb = sa + Cfg::kTileM * Cfg::kPitch;
    for (int i = threadIdx.x; i < (Cfg::kTileM + Cfg::kTileN) * 8; i += Cfg::kThreads) {
      const int row = i / 8, col = i % 8 * 16;
      if (row < Cfg::kTileM) {
        const bool ok = m0 + row < M;
        copy_async16(sa + row * Cfg::kPitch + col, A + (size_t)(ok ? m0 + row : 0) * K + kb * Cfg::kTileK + col, ok);
      } else {
        const int n = row - Cfg::kTileM;
        copy_async16(sb + n * Cfg::kPitch + col, B + (size_t)(n0 + n) * K + kb * Cfg::kTileK + col, true);
      }
    }
    copy_async_fence();
  };

  float acc[Cfg::kMmaM][Cfg::kMmaN][4] = {};

  fetch(0);
  for (int kb = 0; kb < k_blocks; ++kb) {
    if (kb + 1 < k_blocks) {
      fetch(kb + 1);
      copy_async_wait<1>();
    } else {
      copy_async_wait<0>();
    }
    __syncthreads();

    const uint8_t* sa = smem + (kb & 1) * Cfg::kStageBytes;
    const uint8_t* sb = sa + Cfg::kTileM * Cfg::kPitch;

    // The unscaled products of this block of k; promoted to acc with the scales below.
    float part[Cfg::kMmaM][Cfg::kMmaN][4] = {};
#pragma unroll
    for (int k = 0; k < Cfg::kTileK; k += 32) {
      uint32_t a[Cfg::kMmaM][4], b[Cfg::kMmaN][2];
#pragma unroll
      for (int i = 0; i < Cfg::kMmaM; ++i)
        ldmatrix4(a[i][0], a[i][1], a[i][2], a[i][3],
                  sa + (warp_m + i * 16 + lane % 16) * Cfg::kPitch + k + lane / 16 * 16);
#pragma unroll
      for (int j = 0; j < Cfg::kMmaN; j += 2)
        ldmatrix4(b[j][0], b[j][1], b[j + 1][0], b[j + 1][1],
                  sb + (warp_n + j * 8 + lane / 16 * 8 + lane % 8) * Cfg::kPitch + k + lane / 8 % 2 * 16);
#pragma unroll
      for (int i = 0; i < Cfg::kMmaM; ++i)
#pragma unroll
        for (int j = 0; j < Cfg::kMmaN; ++j) mma_e4m3(part[i][j], a[i], b[j]);
    }

    const float sw = scale_b[(size_t)(n0 / 128) * k_blocks + kb];
#pragma unroll
    for (int i = 0; i < Cfg::kMmaM; ++i) {
      const int row = m0 + warp_m + i * 16 + lane / 4;
      const float s0 = row < M ? scale_a[(size_t)row * k_blocks + kb] * sw : 0.f;
      const float s1 = row + 8 < M ? scale_a[(size_t)(row + 8) * k_blocks + kb] * sw : 0.f;
#pragma unroll
      for (int j = 0; j < Cfg::kMmaN; ++j) {
        acc[i][j][0] += part[i][j][0] * s0;
        acc[i][j][1] += part[i][j][1] * s0;
        acc[i][j][2] += part[i][j][2] * s1;
        acc[i][j][3] += part[i][j][3] * s1;
      }
    }
    __syncthreads();  // the next fetch overwrites this stage
  }

#pragma unroll
  for (int i = 0; i < Cfg::kMmaM; ++i) {
#pragma unroll
    for (int half_tile = 0; half_tile < 2; ++half_tile) {
      const int row = m0 + warp_m + i * 16 + lane / 4 + half_tile * 8;
      if (row >= M) continue;
#pragma unroll
      for (int j = 0; j < Cfg::kMmaN; ++j) {
        const int col = n0 + warp_n + j * 8 + lane % 4 * 2;
        *reinterpret_cast<__nv_bfloat162*>(C + (size_t)row * N + col) =
            __floats2bfloat162_rn(acc[i][j][half_tile * 2], acc[i][j][half_tile * 2 + 1]);
      }
    }
  }
}

template <typename Cfg>
cudaError_t launch(const __nv_fp8_e4m3* A, const __nv_fp8_e4m3* B, const float* scale_a, const float* scale_b,
                   __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  constexpr int kSmem = 2 * Cfg::kStageBytes;
  cudaError_t err = cudaFuncSetAttribute(blockscale_gemm<Cfg>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSmem);
  if (err != cudaSuccess) return err;
  const dim3 grid(N / Cfg::kTileN, (M + Cfg::kTileM - 1) / Cfg::kTileM);
  blockscale_gemm<Cfg><<<grid, Cfg::kThreads, kSmem, stream>>>(reinterpret_cast<const uint8_t*>(A),
                                                               reinterpret_cast<const uint8_t*>(B), scale_a, scale_b,
                                                               C, M, N, K);
  return cudaGetLastError();
}

// Small batches (decoding) get the flatter tile.
cudaError_t gemm(const __nv_fp8_e4m3* A, const __nv_fp8_e4m3* B, const float* scale_a, const float* scale_b,
                 __nv_bfloat16* C, int M, int N, int K, cudaStream_t stream) {
  if (N % 128 != 0 || K % 128 != 0) return cudaErrorInvalidValue;
  if (M <= 0) return cudaSuccess;
  if (M <= 32) return launch<TileConfig<32, 64>>(A, B, scale_a, scale_b, C, M, N, K, stream);
  return launch<TileConfig<64, 64>>(A, B, scale_a, scale_b, C, M, N, K, stream);
}

}  // namespace fp8gemm
