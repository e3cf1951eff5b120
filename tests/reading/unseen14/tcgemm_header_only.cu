// tcgemm: a tiny header-only tensor core GEMM.   #include "tcgemm.cuh" and call tcgemm::gemm(...)
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <type_traits>

namespace tcgemm {

enum class Layout { RowMajor, ColMajor };

namespace detail {

template <Layout L>
struct wmma_layout;
template <>
struct wmma_layout<Layout::RowMajor> {
  using type = nvcuda::wmma::row_major;
  __host__ __device__ static constexpr size_t offset(int r, int c, int ld) { return size_t(r) * ld + c; }
};
template <>
struct wmma_layout<Layout::ColMajor> {
  using type = nvcuda::wmma::col_major;
  __host__ __device__ static constexpr size_t offset(int r, int c, int ld) { return size_t(c) * ld + r; }
};

template <typename T_, Layout LA_, Layout LB_, int WarpsM_, int WarpsN_, int TilesM_, int TilesN_>
struct Config {
  using T = T_;
  using LA = wmma_layout<LA_>;
  using LB = wmma_layout<LB_>;
  static constexpr int kWarpsM = WarpsM_;
  static constexpr int kWarpsN = WarpsN_;
  static constexpr int kTilesM = TilesM_;
  static constexpr int kTilesN = TilesN_;
  static constexpr int kBlockM = kWarpsM * kTilesM * 16;
  static constexpr int kBlockN = kWarpsN * kTilesN * 16;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
};

template <typename C>
__global__ void __launch_bounds__(C::kThreads)
    gemm_kernel(const typename C::T* __restrict__ A, int lda, const typename C::T* __restrict__ B, int ldb,
                float* __restrict__ D, int ldd, int M, int N, int K) {
  using namespace nvcuda;
  using FragA = wmma::fragment<wmma::matrix_a, 16, 16, 16, typename C::T, typename C::LA::type>;
  using FragB = wmma::fragment<wmma::matrix_b, 16, 16, 16, typename C::T, typename C::LB::type>;
  using FragC = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

  const int warp = threadIdx.x / warpSize;
  const int m0 = blockIdx.y * C::kBlockM + (warp / C::kWarpsN) * C::kTilesM * 16;
  const int n0 = blockIdx.x * C::kBlockN + (warp % C::kWarpsN) * C::kTilesN * 16;

  FragC acc[C::kTilesM][C::kTilesN];
  for (auto& row : acc)
    for (auto& f : row) wmma::fill_fragment(f, 0.0f);

  for (int k = 0; k < K; k += 16) {
    FragA fa[C::kTilesM];
    FragB fb[C::kTilesN];
#pragma unroll
    for (int i = 0; i < C::kTilesM; ++i)
      if (m0 + i * 16 < M) wmma::load_matrix_sync(fa[i], A + C::LA::offset(m0 + i * 16, k, lda), lda);
#pragma unroll
    for (int j = 0; j < C::kTilesN; ++j)
      if (n0 + j * 16 < N) wmma::load_matrix_sync(fb[j], B + C::LB::offset(k, n0 + j * 16, ldb), ldb);
#pragma unroll
    for (int i = 0; i < C::kTilesM; ++i)
#pragma unroll
      for (int j = 0; j < C::kTilesN; ++j)
        if (m0 + i * 16 < M && n0 + j * 16 < N) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
  }
#pragma unroll
  for (int i = 0; i < C::kTilesM; ++i)
#pragma unroll
    for (int j = 0; j < C::kTilesN; ++j)
      if (m0 + i * 16 < M && n0 + j * 16 < N)
        wmma::store_matrix_sync(D + size_t(m0 + i * 16) * ldd + n0 + j * 16, acc[i][j], ldd, wmma::mem_row_major);
}

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

}  // namespace detail

/// D (M x N, row major, float) = A (M x K) * B (K x N). M, N and K are multiples of 16.
template <Layout LA = Layout::RowMajor, Layout LB = Layout::ColMajor, typename T>
inline cudaError_t gemm(int M, int N, int K, const T* A, const T* B, float* D, cudaStream_t stream = nullptr) {
  static_assert(std::is_same<T, half>::value || std::is_same<T, __nv_bfloat16>::value, "half or bfloat16");
  using C = detail::Config<T, LA, LB, 2, 2, 2, 2>;
  const int lda = LA == Layout::RowMajor ? K : M;
  const int ldb = LB == Layout::RowMajor ? N : K;
  const dim3 grid(detail::ceil_div(N, C::kBlockN), detail::ceil_div(M, C::kBlockM));
  detail::gemm_kernel<C><<<grid, C::kThreads, 0, stream>>>(A, lda, B, ldb, D, N, M, N, K);
  return cudaGetLastError();
}

}  // namespace tcgemm
