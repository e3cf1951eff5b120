// act = silu(x @ Wgate) * (x @ Wup)
// W is the fused [K, 2 * I] weight of the checkpoint: gate columns first, then up.
// Two accumulators share every A fragment; the product is formed in registers,
// element by element, which is legal because both accumulators have the same
// (unspecified) fragment layout.
#ifndef SWIGLU_DUAL_GEMM_CU_
#define SWIGLU_DUAL_GEMM_CU_

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstddef>

namespace kernels {
namespace detail {

template <typename T>
__device__ __forceinline__ T silu(T x) {
  return x / (T(1) + __expf(-x));
}

template <int kThreads, int kRows, int kCols, int kPitch, typename T>
__device__ __forceinline__ void copy_tile(T (&dst)[kRows * kPitch], const T* __restrict__ src, size_t ld) {
  static_assert(kCols % 8 == 0, "");
  constexpr int kChunksPerRow = kCols / 8;
  static_assert(kRows * kChunksPerRow % kThreads == 0, "tile must divide evenly over the threads");
#pragma unroll
  for (int it = 0; it < kRows * kChunksPerRow / kThreads; ++it) {
    const int idx = it * kThreads + threadIdx.x;
    const int r = idx / kChunksPerRow;
    const int c = idx % kChunksPerRow * 8;
    *reinterpret_cast<float4*>(dst + r * kPitch + c) = *reinterpret_cast<const float4*>(src + r * ld + c);
  }
}

}  // namespace detail

template <typename scalar_t, int kTileM = 64, int kTileI = 32, int kTileK = 32>
__global__ void swiglu_dual_gemm(const scalar_t* __restrict__ x, const scalar_t* __restrict__ w_gate_up,
                                 scalar_t* __restrict__ act, int M, int I, int K) {
  namespace wm = nvcuda::wmma;
  constexpr int kThreads = 128;
  constexpr int kPitchA = kTileK + 8;
  constexpr int kPitchB = kTileI + 8;
  __shared__ __align__(128) scalar_t tile_x[kTileM * kPitchA];
  __shared__ __align__(128) scalar_t tile_gate[kTileK * kPitchB];
  __shared__ __align__(128) scalar_t tile_up[kTileK * kPitchB];
  __shared__ __align__(128) float tile_out[kTileM * (kTileI + 4)];

  const size_t row0 = size_t(blockIdx.x) * kTileM;
  const size_t col0 = size_t(blockIdx.y) * kTileI;
  const int warp = threadIdx.x / 32;

  wm::fragment<wm::accumulator, 16, 16, 16, float> gate[kTileI / 16], up[kTileI / 16];
  for (int j = 0; j < kTileI / 16; ++j) {
    wm::fill_fragment(gate[j], 0.f);
    wm::fill_fragment(up[j], 0.f);
  }

  for (int k = 0; k < K; k += kTileK) {
    detail::copy_tile<kThreads, kTileM, kTileK, kPitchA>(tile_x, x + row0 * K + k, K);
    detail::copy_tile<kThreads, kTileK, kTileI, kPitchB>(tile_gate, w_gate_up + size_t(k) * 2 * I + col0, 2 * I);
    detail::copy_tile<kThreads, kTileK, kTileI, kPitchB>(tile_up, w_gate_up + size_t(k) * 2 * I + I + col0, 2 * I);
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wm::fragment<wm::matrix_a, 16, 16, 16, scalar_t, wm::row_major> a;
      wm::load_matrix_sync(a, tile_x + warp * 16 * kPitchA + kk, kPitchA);
#pragma unroll
      for (int j = 0; j < kTileI / 16; ++j) {
        wm::fragment<wm::matrix_b, 16, 16, 16, scalar_t, wm::row_major> b;
        wm::load_matrix_sync(b, tile_gate + kk * kPitchB + j * 16, kPitchB);
        wm::mma_sync(gate[j], a, b, gate[j]);
        wm::load_matrix_sync(b, tile_up + kk * kPitchB + j * 16, kPitchB);
        wm::mma_sync(up[j], a, b, up[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < kTileI / 16; ++j) {
#pragma unroll
    for (int e = 0; e < gate[j].num_elements; ++e) gate[j].x[e] = detail::silu(gate[j].x[e]) * up[j].x[e];
    wm::store_matrix_sync(tile_out + warp * 16 * (kTileI + 4) + j * 16, gate[j], kTileI + 4, wm::mem_row_major);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kTileM * kTileI; i += kThreads)
    act[(row0 + i / kTileI) * I + col0 + i % kTileI] =
        static_cast<scalar_t>(tile_out[i / kTileI * (kTileI + 4) + i % kTileI]);
}

// M must be a multiple of 64 (pad the batch), I and K of 32.
template <typename scalar_t>
inline cudaError_t launch_swiglu(const scalar_t* x, const scalar_t* w, scalar_t* act, int M, int I, int K,
                                 cudaStream_t stream) {
  if (M % 64 || I % 32 || K % 32) return cudaErrorInvalidValue;
  swiglu_dual_gemm<scalar_t><<<dim3(M / 64, I / 32), 128, 0, stream>>>(x, w, act, M, I, K);
  return cudaGetLastError();
}

template cudaError_t launch_swiglu<__nv_bfloat16>(const __nv_bfloat16*, const __nv_bfloat16*, __nv_bfloat16*, int, int,
                                                  int, cudaStream_t);

}  // namespace kernels

#endif  // SWIGLU_DUAL_GEMM_CU_
