// tensorop/gemm.cuh -- header-only tensor core GEMM
//
//   D = alpha * op(A) * op(B) + beta * C,   FP32 accumulation
//
// A problem of any size is taken: tiles that stick out are filled with zeros on load and
// predicated on store. Include this file from one .cu and call tensorop::gemm<Config>().
#ifndef TENSOROP_GEMM_CUH_
#define TENSOROP_GEMM_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <type_traits>

namespace tensorop {

struct RowMajor {
  using wmma_layout = nvcuda::wmma::row_major;
  __host__ __device__ static size_t offset(int r, int c, int ld) { return size_t(r) * ld + c; }
};

struct ColMajor {
  using wmma_layout = nvcuda::wmma::col_major;
  __host__ __device__ static size_t offset(int r, int c, int ld) { return size_t(c) * ld + r; }
};

template <typename Element_, typename LayoutA_, typename LayoutB_, int kM_, int kN_, int kK_,
          int kWarpsM_, int kWarpsN_>
struct GemmConfig {
  using Element = Element_;
  using LayoutA = LayoutA_;
  using LayoutB = LayoutB_;
  static constexpr int kM = kM_, kN = kN_, kK = kK_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kFragsM = kM / kWarpsM / 16;
  static constexpr int kFragsN = kN / kWarpsN / 16;
  static_assert(kM % (16 * kWarpsM) == 0 && kN % (16 * kWarpsN) == 0 && kK % 16 == 0, "tile");
};

template <typename Element>
struct GemmArguments {
  int m, n, k;
  const Element* A; int lda;
  const Element* B; int ldb;
  const Element* C; int ldc;
  Element* D;       int ldd;
  float alpha, beta;
};

template <typename T> __device__ __forceinline__ float to_float(T x) { return static_cast<float>(x); }
template <typename T> __device__ __forceinline__ T from_float(float x);
template <> __device__ __forceinline__ __half from_float<__half>(float x) { return __float2half_rn(x); }
template <> __device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

template <typename Layout, int kRows, int kCols, int kThreads, typename Element>
__device__ void load_tile(Element* smem, int lds, const Element* gmem, int ld, int row0, int col0,
                          int rows, int cols) {
  for (int i = threadIdx.x; i < kRows * kCols; i += kThreads) {
    int r, c;
    if (std::is_same<Layout, RowMajor>::value) { r = i / kCols; c = i % kCols; }
    else                                       { c = i / kRows; r = i % kRows; }
    const bool in = row0 + r < rows && col0 + c < cols;
    smem[Layout::offset(r, c, lds)] =
        in ? gmem[Layout::offset(row0 + r, col0 + c, ld)] : from_float<Element>(0.f);
  }
}

template <typename Config>
__global__ void __launch_bounds__(Config::kThreads)
gemm_kernel(GemmArguments<typename Config::Element> args) {
  namespace wmma = nvcuda::wmma;
  using Element = typename Config::Element;
  using LayoutA = typename Config::LayoutA;
  using LayoutB = typename Config::LayoutB;
  constexpr int kLdsA = (std::is_same<LayoutA, RowMajor>::value ? Config::kK : Config::kM) + 8;
  constexpr int kLdsB = (std::is_same<LayoutB, RowMajor>::value ? Config::kN : Config::kK) + 8;
  constexpr int kSizeA = kLdsA * (std::is_same<LayoutA, RowMajor>::value ? Config::kM : Config::kK);
  constexpr int kSizeB = kLdsB * (std::is_same<LayoutB, RowMajor>::value ? Config::kK : Config::kN);

  __shared__ __align__(32) Element smem_a[kSizeA];
  __shared__ __align__(32) Element smem_b[kSizeB];
  __shared__ __align__(32) float smem_d[Config::kThreads / 32][16 * 16];

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_m = (warp / Config::kWarpsN) * Config::kFragsM * 16;
  const int warp_n = (warp % Config::kWarpsN) * Config::kFragsN * 16;
  const int block_m = blockIdx.x * Config::kM;
  const int block_n = blockIdx.y * Config::kN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[Config::kFragsM][Config::kFragsN];
  for (auto& row : acc)
    for (auto& f : row) wmma::fill_fragment(f, 0.f);

  for (int k0 = 0; k0 < args.k; k0 += Config::kK) {
    load_tile<LayoutA, Config::kM, Config::kK, Config::kThreads>(smem_a, kLdsA, args.A, args.lda, block_m, k0, args.m, args.k);
    load_tile<LayoutB, Config::kK, Config::kN, Config::kThreads>(smem_b, kLdsB, args.B, args.ldb, k0, block_n, args.k, args.n);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < Config::kK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, Element, typename LayoutA::wmma_layout> a[Config::kFragsM];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, Element, typename LayoutB::wmma_layout> b;
#pragma unroll
      for (int i = 0; i < Config::kFragsM; ++i)
        wmma::load_matrix_sync(a[i], smem_a + LayoutA::offset(warp_m + i * 16, kk, kLdsA), kLdsA);
#pragma unroll
      for (int j = 0; j < Config::kFragsN; ++j) {
        wmma::load_matrix_sync(b, smem_b + LayoutB::offset(kk, warp_n + j * 16, kLdsB), kLdsB);
#pragma unroll
        for (int i = 0; i < Config::kFragsM; ++i) wmma::mma_sync(acc[i][j], a[i], b, acc[i][j]);
      }
    }
    __syncthreads();
  }

  float* stage = smem_d[warp];
  for (int i = 0; i < Config::kFragsM; ++i) {
    for (int j = 0; j < Config::kFragsN; ++j) {
      wmma::store_matrix_sync(stage, acc[i][j], 16, wmma::mem_row_major);
      __syncwarp();
      for (int e = lane; e < 256; e += 32) {
        const int r = block_m + warp_m + i * 16 + e / 16;
        const int c = block_n + warp_n + j * 16 + e % 16;
        if (r < args.m && c < args.n) {
          float v = args.alpha * stage[e];
          if (args.beta != 0.f) v += args.beta * to_float(args.C[RowMajor::offset(r, c, args.ldc)]);
          args.D[RowMajor::offset(r, c, args.ldd)] = from_float<Element>(v);
        }
      }
      __syncwarp();
    }
  }
}

/// Launches the GEMM on `stream`; C and D are row-major.
template <typename Config>
cudaError_t gemm(const GemmArguments<typename Config::Element>& args, cudaStream_t stream = nullptr) {
  if (args.m <= 0 || args.n <= 0 || args.k < 0) return cudaErrorInvalidValue;
  const dim3 grid((args.m + Config::kM - 1) / Config::kM, (args.n + Config::kN - 1) / Config::kN);
  gemm_kernel<Config><<<grid, Config::kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

using DefaultHalfNN = GemmConfig<__half, RowMajor, RowMajor, 64, 64, 32, 2, 2>;
using DefaultHalfNT = GemmConfig<__half, RowMajor, ColMajor, 64, 64, 32, 2, 2>;
using DefaultBf16NT = GemmConfig<__nv_bfloat16, RowMajor, ColMajor, 64, 64, 32, 2, 2>;

}  // namespace tensorop

/// C entry points: B of _nn is K x N, B of _nt is N x K, both with their rows one after another.
inline cudaError_t hgemm_nn(int m, int n, int k, float alpha, const __half* A, int lda, const __half* B,
                            int ldb, float beta, __half* C, int ldc, cudaStream_t stream = nullptr) {
  return tensorop::gemm<tensorop::DefaultHalfNN>({m, n, k, A, lda, B, ldb, C, ldc, C, ldc, alpha, beta}, stream);
}

inline cudaError_t hgemm_nt(int m, int n, int k, float alpha, const __half* A, int lda, const __half* B,
                            int ldb, float beta, __half* C, int ldc, cudaStream_t stream = nullptr) {
  return tensorop::gemm<tensorop::DefaultHalfNT>({m, n, k, A, lda, B, ldb, C, ldc, C, ldc, alpha, beta}, stream);
}

inline cudaError_t bf16gemm_nt(int m, int n, int k, float alpha, const __nv_bfloat16* A, int lda,
                               const __nv_bfloat16* B, int ldb, float beta, __nv_bfloat16* C, int ldc,
                               cudaStream_t stream = nullptr) {
  return tensorop::gemm<tensorop::DefaultBf16NT>({m, n, k, A, lda, B, ldb, C, ldc, C, ldc, alpha, beta}, stream);
}

#endif  // TENSOROP_GEMM_CUH_
