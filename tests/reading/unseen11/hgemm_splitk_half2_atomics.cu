// Small-M fp16 GEMM for LLM decode. B is pre-transposed (N x K). K is split over blockIdx.z; partial sums go to C with
// half2 atomics, so C has to be zero before the launch (see the host function).
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdexcept>

namespace cg = cooperative_groups;
using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;

struct GemmShape { int M, N, K; };

template <int kBlockN, int kSplitK>
__global__ void __launch_bounds__(kBlockN * 2) skinny_gemm_splitk(const GemmShape shape, const half* __restrict__ act, const half* __restrict__ weight, half* __restrict__ result) {
  constexpr int kWarps = kBlockN / 16;
  __shared__ __align__(32) float tile[kWarps][16 * 16];
  auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int wid = warp.meta_group_rank();
  const int n0 = blockIdx.x * kBlockN + wid * 16;
  const int m0 = blockIdx.y * 16;
  const int chunk = shape.K / kSplitK;
  const int k_begin = blockIdx.z * chunk;

  fragment<matrix_a, 16, 16, 16, half, row_major> fa;
  fragment<matrix_b, 16, 16, 16, half, col_major> fb;
  fragment<accumulator, 16, 16, 16, float> fc;
  nvcuda::wmma::fill_fragment(fc, 0.f);
#pragma unroll 4
  for (int k = k_begin; k < k_begin + chunk; k += 16) {
    nvcuda::wmma::load_matrix_sync(fa, act + (size_t)m0 * shape.K + k, shape.K);
    nvcuda::wmma::load_matrix_sync(fb, weight + (size_t)n0 * shape.K + k, shape.K);
    nvcuda::wmma::mma_sync(fc, fa, fb, fc);
  }
  nvcuda::wmma::store_matrix_sync(tile[wid], fc, 16, nvcuda::wmma::mem_row_major);
  warp.sync();
  for (int i = warp.thread_rank() * 2; i < 256; i += 64) {
    const int r = i / 16, c = i % 16;
    const half2 v = __floats2half2_rn(tile[wid][i], tile[wid][i + 1]);
    atomicAdd(reinterpret_cast<half2*>(result + (size_t)(m0 + r) * shape.N + n0 + c), v);
  }
}

void skinny_gemm(const half* act, const half* weight, half* result, int M, int N, int K, cudaStream_t stream) {
  constexpr int kBlockN = 64;
  constexpr int kSplitK = 4;
  if (M % 16 || N % kBlockN || K % (16 * kSplitK)) throw std::invalid_argument("skinny_gemm: unsupported shape");
  cudaMemsetAsync(result, 0, sizeof(half) * M * N, stream);
  const dim3 grid(N / kBlockN, M / 16, kSplitK);
  skinny_gemm_splitk<kBlockN, kSplitK><<<grid, kBlockN * 2, 0, stream>>>({M, N, K}, act, weight, result);
}
