// tk: small header-style tensor-core templates.
//
// dual_gemm:  D = silu(A * W_gate^T) .* (A * W_up^T)
//
// A is [M, K] row major. W is [2 * N, K] row major as torch.nn.Linear has it: N rows of the gate, then N rows of up.
// Both products share the tile of A, and nothing but the result goes to memory.
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace tk {

using bf16 = __nv_bfloat16;

template <int M_, int N_, int K_>
struct Shape {
  static constexpr int M = M_;
  static constexpr int N = N_;
  static constexpr int K = K_;
};

/// Rows of kCols elements in pieces of 16 bytes, permuted such that ldmatrix has no bank conflicts.
template <int kCols>
struct SwizzledLayout {
  static constexpr int kPieces = kCols / 8;
  __device__ static int offset(int row, int piece) {
    return row * kCols + ((piece ^ ((row >> 1) % kPieces)) * 8);
  }
};

struct Silu {
  __device__ float operator()(float x) const { return x / (1.0f + __expf(-x)); }
};

template <class Tile_, class Warps_, int kStages_, class Activation_>
struct DualGemmTraits {
  using Tile = Tile_;
  using Warps = Warps_;
  using Activation = Activation_;
  using Layout = SwizzledLayout<Tile::K>;
  static constexpr int kStages = kStages_;
  static constexpr int kThreads = Warps::M * Warps::N * 32;
  static constexpr int kWarpM = Tile::M / Warps::M;
  static constexpr int kWarpN = Tile::N / Warps::N;
  static constexpr int kMmaM = kWarpM / 16;
  static constexpr int kMmaN = kWarpN / 8;
  static constexpr int kSizeA = Tile::M * Tile::K;
  static constexpr int kSizeW = Tile::N * Tile::K;             // of one of the two
  static constexpr int kStageSize = kSizeA + 2 * kSizeW;
  static constexpr int kSmemBytes = kStages * kStageSize * sizeof(bf16);
  static_assert(kWarpN % 16 == 0, "a warp loads 16 rows of a weight at once");
};

namespace arch {

__device__ __forceinline__ uint32_t smem(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void copy16(bf16 *dst, const bf16 *src, bool pred) {
  int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem(dst)), "l"(src), "r"(bytes));
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;\n" ::); }
template <int N>
__device__ __forceinline__ void wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(N)); }

__device__ __forceinline__ void ldsm(uint32_t (&r)[4], const bf16 *p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(smem(p)));
}
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t *b) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace arch

/// Copies kRows rows, from first_row on, of a [rows, ld] matrix; what lies behind `rows` or `k_end` is zero.
template <class Traits, int kRows>
__device__ __forceinline__ void load_tile(bf16 *dst, const bf16 *src, int first_row, int rows, int k0, int k_end, int ld) {
  constexpr int kPieces = Traits::Layout::kPieces;
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kPieces; i += Traits::kThreads) {
    const int row = i / kPieces;
    const int piece = i % kPieces;
    const bool pred = first_row + row < rows && k0 + piece * 8 < k_end;
    const bf16 *from = pred ? src + static_cast<size_t>(first_row + row) * ld + k0 + piece * 8 : src;
    arch::copy16(dst + Traits::Layout::offset(row, piece), from, pred);
  }
}

template <class Traits>
__global__ void __launch_bounds__(Traits::kThreads)
dual_gemm_kernel(const bf16 *A, const bf16 *W, bf16 *D, int M, int N, int K) {
  using Tile = typename Traits::Tile;
  using Layout = typename Traits::Layout;
  extern __shared__ __align__(128) unsigned char raw[];
  bf16 *stages = reinterpret_cast<bf16 *>(raw);

  const int m0 = blockIdx.x * Tile::M;
  const int n0 = blockIdx.y * Tile::N;
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = warp / Traits::Warps::N * Traits::kWarpM;
  const int warp_n = warp % Traits::Warps::N * Traits::kWarpN;
  const int k_tiles = (K + Tile::K - 1) / Tile::K;

  auto fetch = [&](int tile) {
    if (tile < k_tiles) {
      bf16 *stage = stages + tile % Traits::kStages * Traits::kStageSize;
      load_tile<Traits, Tile::M>(stage, A, m0, M, tile * Tile::K, K, K);
      load_tile<Traits, Tile::N>(stage + Traits::kSizeA, W, n0, N, tile * Tile::K, K, K);
      load_tile<Traits, Tile::N>(stage + Traits::kSizeA + Traits::kSizeW, W + static_cast<size_t>(N) * K, n0, N, tile * Tile::K, K, K);
    }
    arch::commit();
  };

  float acc[2][Traits::kMmaM][Traits::kMmaN][4] = {};   // gate, up

#pragma unroll
  for (int s = 0; s < Traits::kStages - 1; ++s) fetch(s);

  for (int tile = 0; tile < k_tiles; ++tile) {
    arch::wait<Traits::kStages - 2>();
    __syncthreads();
    fetch(tile + Traits::kStages - 1);

    const bf16 *sA = stages + tile % Traits::kStages * Traits::kStageSize;
#pragma unroll
    for (int kk = 0; kk < Tile::K / 16; ++kk) {
      uint32_t a[Traits::kMmaM][4];
#pragma unroll
      for (int i = 0; i < Traits::kMmaM; ++i) {
        arch::ldsm(a[i], sA + Layout::offset(warp_m + i * 16 + lane % 16, kk * 2 + lane / 16));
      }
#pragma unroll
      for (int w = 0; w < 2; ++w) {
        const bf16 *sW = sA + Traits::kSizeA + w * Traits::kSizeW;
#pragma unroll
        for (int j = 0; j < Traits::kMmaN; j += 2) {
          uint32_t b[4];
          const int row = warp_n + j * 8 + lane / 16 * 8 + lane % 8;
          arch::ldsm(b, sW + Layout::offset(row, kk * 2 + lane / 8 % 2));
#pragma unroll
          for (int i = 0; i < Traits::kMmaM; ++i) {
            arch::mma(acc[w][i][j], a[i], b);
            arch::mma(acc[w][i][j + 1], a[i], b + 2);
          }
        }
      }
    }
  }

  typename Traits::Activation act;
#pragma unroll
  for (int i = 0; i < Traits::kMmaM; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int m = m0 + warp_m + i * 16 + half * 8 + lane / 4;
      if (m >= M) continue;
#pragma unroll
      for (int j = 0; j < Traits::kMmaN; ++j) {
        const int n = n0 + warp_n + j * 8 + lane % 4 * 2;
        if (n >= N) continue;
        const float x = act(acc[0][i][j][half * 2]) * acc[1][i][j][half * 2];
        const float y = act(acc[0][i][j][half * 2 + 1]) * acc[1][i][j][half * 2 + 1];
        *reinterpret_cast<__nv_bfloat162 *>(D + static_cast<size_t>(m) * N + n) = __floats2bfloat162_rn(x, y);
      }
    }
  }
}

using SwigluTraits = DualGemmTraits<Shape<64, 32, 32>, Shape<2, 2, 1>, 3, Silu>;

template <class Traits>
cudaError_t dual_gemm(const bf16 *A, const bf16 *W, bf16 *D, int M, int N, int K, cudaStream_t stream) {
  if (K % 8 || N % 2) return cudaErrorInvalidValue;
  dim3 grid((M + Traits::Tile::M - 1) / Traits::Tile::M, (N + Traits::Tile::N - 1) / Traits::Tile::N);
  dual_gemm_kernel<Traits><<<grid, Traits::kThreads, Traits::kSmemBytes, stream>>>(A, W, D, M, N, K);
  return cudaGetLastError();
}

template cudaError_t dual_gemm<SwigluTraits>(const bf16 *, const bf16 *, bf16 *, int, int, int, cudaStream_t);

}  // namespace tk
