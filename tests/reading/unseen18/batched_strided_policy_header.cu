// tcblas/batched.cuh: strided batched GEMM behind a policy type, header only.
#pragma once
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <type_traits>

namespace tcblas {

enum class Op { N, T };

template <typename TIn, typename TOut, Op OpA, Op OpB, int WarpsM, int WarpsN>
struct GemmPolicy {
  using input_t = TIn;
  using output_t = TOut;
  static constexpr Op op_a = OpA, op_b = OpB;
  static constexpr int tile_m = WarpsM * 16, tile_n = WarpsN * 16, threads = WarpsM * WarpsN * 32;
};

template <typename P>
struct GemmArgs {
  int m, n, k;
  float alpha;
  const typename P::input_t* a;
  int lda;
  int64_t stride_a;
  const typename P::input_t* b;
  int ldb;
  int64_t stride_b;
  typename P::output_t* c;
  int ldc;
  int64_t stride_c;
  int batch_count;
};

namespace detail {

template <Op op>
using layout_t = std::conditional_t<op == Op::N, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;

template <Op op>
__device__ __forceinline__ int64_t offset(int row, int col, int ld) {
  return op == Op::N ? (int64_t)row * ld + col : (int64_t)col * ld + row;
}

template <typename P>
__global__ void __launch_bounds__(P::threads) batched_gemm_kernel(const GemmArgs<P> args) {
  namespace wmma = nvcuda::wmma;
  const auto* a = args.a + blockIdx.z * args.stride_a;
  const auto* b = args.b + blockIdx.z * args.stride_b;
  auto* c = args.c + blockIdx.z * args.stride_c;
  const int warp = threadIdx.x / 32;
  const int row = blockIdx.x * P::tile_m + warp % (P::tile_m / 16) * 16;
  const int col = blockIdx.y * P::tile_n + warp / (P::tile_m / 16) * 16;
  if (row >= args.m || col >= args.n) return;
  wmma::fragment<wmma::accumulator, 16, 16, 16, typename P::output_t> acc;
  wmma::fill_fragment(acc, typename P::output_t(0.0f));
  for (int k = 0; k < args.k; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, typename P::input_t, layout_t<P::op_a>> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, typename P::input_t, layout_t<P::op_b>> fb;
    wmma::load_matrix_sync(fa, a + offset<P::op_a>(row, k, args.lda), args.lda);
    wmma::load_matrix_sync(fb, b + offset<P::op_b>(k, col, args.ldb), args.ldb);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  for (int i = 0; i < acc.num_elements; ++i) acc.x[i] = typename P::output_t(args.alpha * float(acc.x[i]));
  wmma::store_matrix_sync(c + (int64_t)row * args.ldc + col, acc, args.ldc, wmma::mem_row_major);
}

}  // namespace detail

template <typename P>
cudaError_t gemm_strided_batched(const GemmArgs<P>& args, cudaStream_t stream = nullptr) {
  if (args.m % 16 || args.n % 16 || args.k % 16) return cudaErrorInvalidValue;
  const dim3 grid((args.m + P::tile_m - 1) / P::tile_m, (args.n + P::tile_n - 1) / P::tile_n, args.batch_count);
  detail::batched_gemm_kernel<P><<<grid, P::threads, 0, stream>>>(args);
  return cudaPeekAtLastError();
}

using HgemmNT = GemmPolicy<half, float, Op::N, Op::T, 2, 2>;
template cudaError_t gemm_strided_batched<HgemmNT>(const GemmArgs<HgemmNT>&, cudaStream_t);

}  // namespace tcblas
