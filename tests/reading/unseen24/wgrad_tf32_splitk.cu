// Weight gradient of a linear layer in TF32, split over the batch (split-K).
//
//     dW[out, in] = alpha * sum_t dY[t, out] * X[t, in]  +  beta * dW[out, in]
//
// dY is [tokens, out], X is [tokens, in], both row major fp32: a "TN" product whose reduction
// dimension (tokens) is far longer than the output is large. A single wave of output tiles does
// not fill the machine, so blockIdx.z takes a slice of the tokens and writes a partial product
// into a workspace; a second kernel sums the slices in a fixed order (bitwise reproducible,
// unlike atomics).
//
// Nothing needs to be a multiple of anything. The workspace is slices * out * in floats, see
// wgrad_workspace_bytes().

#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cstddef>

namespace wgrad {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::col_major;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::row_major;
namespace precision = nvcuda::wmma::precision;

constexpr int kTileOut = 64;
constexpr int kTileIn = 64;
constexpr int kTileTok = 16;
constexpr int kLd = 64 + 4;  // floats, padded rows of the staged tiles
constexpr int kThreads = 128;

// Copies tokens [t0, t0 + 16) x columns [c0, c0 + 64) to shared memory, zeros beyond the edges.
__device__ __forceinline__ void stage(float (*dst)[kLd], const float* __restrict__ src, int t0, int t_end, int c0,
                                      int cols) {
  for (int i = threadIdx.x; i < kTileTok * 64; i += kThreads) {
    const int t = i >> 6;
    const int c = i & 63;
    float v = 0.0f;
    if (t0 + t < t_end && c0 + c < cols) v = __ldg(src + static_cast<size_t>(t0 + t) * cols + c0 + c);
    dst[t][c] = v;
  }
}

__global__ void __launch_bounds__(kThreads)
wgrad_partial_kernel(const float* __restrict__ dY, const float* __restrict__ X, float* __restrict__ workspace,
                     int tokens, int out_features, int in_features, int tokens_per_slice) {
  __shared__ __align__(128) float s_dy[kTileTok][kLd];
  __shared__ __align__(128) float s_x[kTileTok][kLd];
  __shared__ __align__(128) float s_c[kTileOut][kLd];

  const int o0 = blockIdx.y * kTileOut;
  const int i0 = blockIdx.x * kTileIn;
  const int t_begin = blockIdx.z * tokens_per_slice;
  const int t_end = min(tokens, t_begin + tokens_per_slice);

  const int warp = threadIdx.x >> 5;
  const int wo = (warp >> 1) * 32;
  const int wi = (warp & 1) * 32;

  fragment<accumulator, 16, 16, 8, float> acc[2][2];
#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c < 2; ++c) nvcuda::wmma::fill_fragment(acc[r][c], 0.0f);

  for (int t0 = t_begin; t0 < t_end; t0 += kTileTok) {
    stage(s_dy, dY, t0, t_end, o0, out_features);
    stage(s_x, X, t0, t_end, i0, in_features);
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < kTileTok; kk += 8) {
      // dY^T is [out, tokens]; in memory its columns are rows of s_dy -> col_major
      fragment<matrix_a, 16, 16, 8, precision::tf32, col_major> a[2];
      fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b[2];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        nvcuda::wmma::load_matrix_sync(a[r], &s_dy[kk][wo + r * 16], kLd);
        nvcuda::wmma::load_matrix_sync(b[r], &s_x[kk][wi + r * 16], kLd);
        for (int e = 0; e < a[r].num_elements; ++e) a[r].x[e] = nvcuda::wmma::__float_to_tf32(a[r].x[e]);
        for (int e = 0; e < b[r].num_elements; ++e) b[r].x[e] = nvcuda::wmma::__float_to_tf32(b[r].x[e]);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c) nvcuda::wmma::mma_sync(acc[r][c], a[r], b[c], acc[r][c]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int r = 0; r < 2; ++r)
#pragma unroll
    for (int c = 0; c < 2; ++c)
      nvcuda::wmma::store_matrix_sync(&s_c[wo + r * 16][wi + c * 16], acc[r][c], kLd, nvcuda::wmma::mem_row_major);
  __syncthreads();

  float* dst = workspace + static_cast<size_t>(blockIdx.z) * out_features * in_features;
  for (int i = threadIdx.x; i < kTileOut * kTileIn; i += kThreads) {
    const int r = i / kTileIn;
    const int c = i % kTileIn;
    if (o0 + r < out_features && i0 + c < in_features)
      dst[static_cast<size_t>(o0 + r) * in_features + i0 + c] = s_c[r][c];
  }
}

__global__ void wgrad_reduce_kernel(const float* __restrict__ workspace, float* __restrict__ dW, int slices, int n,
                                    float alpha, float beta) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    float sum = 0.0f;
    for (int s = 0; s < slices; ++s) sum += workspace[static_cast<size_t>(s) * n + i];
    // beta == 0 must not read dW (it may be uninitialised)
    dW[i] = beta == 0.0f ? alpha * sum : alpha * sum + beta * dW[i];
  }
}

inline int ceil_div(int a, int b) { return (a + b - 1) / b; }

// enough slices for about two waves, none shorter than 64 tokens
int wgrad_choose_slices(int tokens, int out_features, int in_features, int sm_count) {
  const int tiles = ceil_div(out_features, kTileOut) * ceil_div(in_features, kTileIn);
  const int want = std::max(1, 2 * sm_count / tiles);
  return std::max(1, std::min(want, ceil_div(tokens, 64)));
}

size_t wgrad_workspace_bytes(int slices, int out_features, int in_features) {
  return sizeof(float) * static_cast<size_t>(slices) * out_features * in_features;
}

cudaError_t launch_wgrad_tf32(const float* dY, const float* X, float* dW, float* workspace, int tokens,
                              int out_features, int in_features, int slices, float alpha, float beta,
                              cudaStream_t stream) {
  if (tokens <= 0 || out_features <= 0 || in_features <= 0 || slices <= 0) return cudaErrorInvalidValue;
  // whole tiles of tokens in every slice but the last
  const int tokens_per_slice = ceil_div(ceil_div(tokens, slices), kTileTok) * kTileTok;

  const dim3 grid(ceil_div(in_features, kTileIn), ceil_div(out_features, kTileOut), slices);
  wgrad_partial_kernel<<<grid, kThreads, 0, stream>>>(dY, X, workspace, tokens, out_features, in_features,
                                                      tokens_per_slice);
  cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess) return err;

  const int n = out_features * in_features;
  wgrad_reduce_kernel<<<std::min(ceil_div(n, 256), 1024), 256, 0, stream>>>(workspace, dW, slices, n, alpha, beta);
  return cudaGetLastError();
}

}  // namespace wgrad
