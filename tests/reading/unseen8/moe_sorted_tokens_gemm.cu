#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// Tokens are sorted by their expert; expert e has the rows offsets[e] .. offsets[e + 1] of x and y.
// y[row] = x[row] * w[e], w: [experts, hidden, inter].

static const int kRows = 32, kCols = 32, kDepth = 32;

__global__ void grouped_gemm_kernel(const half* __restrict__ x, const half* __restrict__ w, half* __restrict__ y,
                                    const int* __restrict__ offsets, int hidden, int inter) {
  namespace wm = nvcuda::wmma;
  const int e = blockIdx.z;
  const int first = offsets[e], last = offsets[e + 1];
  const int row0 = first + blockIdx.y * kRows;
  if (row0 >= last) return;
  const int col0 = blockIdx.x * kCols;
  const half* we = w + (size_t)e * hidden * inter;

  __shared__ half xs[kRows * kDepth];
  __shared__ half ws[kDepth * kCols];
  __shared__ float ys[kRows * kCols];
  const int warp = threadIdx.x / 32, wr = (warp / 2) * 16, wc = (warp % 2) * 16;

  wm::fragment<wm::accumulator, 16, 16, 16, float> acc;
  wm::fill_fragment(acc, 0.f);
  for (int k0 = 0; k0 < hidden; k0 += kDepth) {
    for (int i = threadIdx.x; i < kRows * kDepth; i += blockDim.x) {
      const int r = i / kDepth, k = k0 + i % kDepth;
      xs[i] = row0 + r < last && k < hidden ? x[(size_t)(row0 + r) * hidden + k] : half(0.f);
    }
    for (int i = threadIdx.x; i < kDepth * kCols; i += blockDim.x) {
      const int k = k0 + i / kCols, c = col0 + i % kCols;
      ws[i] = k < hidden && c < inter ? we[(size_t)k * inter + c] : half(0.f);
    }
    __syncthreads();
    for (int kk = 0; kk < kDepth; kk += 16) {
      wm::fragment<wm::matrix_a, 16, 16, 16, half, wm::row_major> a;
      wm::fragment<wm::matrix_b, 16, 16, 16, half, wm::row_major> b;
      wm::load_matrix_sync(a, xs + wr * kDepth + kk, kDepth);
      wm::load_matrix_sync(b, ws + kk * kCols + wc, kCols);
      wm::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }
  wm::store_matrix_sync(ys + wr * kCols + wc, acc, kCols, wm::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kRows * kCols; i += blockDim.x) {
    const int r = row0 + i / kCols, c = col0 + i % kCols;
    if (r < last && c < inter) y[(size_t)r * inter + c] = __float2half(ys[i]);
  }
}

void moe_gemm(const half* x, const half* w, half* y, const int* offsets, int num_tokens, int num_experts, int hidden,
              int inter, cudaStream_t stream) {
  // no expert can have more rows than there are tokens
  dim3 grid((inter + kCols - 1) / kCols, (num_tokens + kRows - 1) / kRows, num_experts);
  grouped_gemm_kernel<<<grid, dim3(128), 0, stream>>>(x, w, y, offsets, hidden, inter);
}
