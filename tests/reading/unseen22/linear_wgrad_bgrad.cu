// Backward of a linear layer: dW[out, in] (+)= dY^T X, db[out] = column sums of dY.
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

namespace backward {

namespace wmma = nvcuda::wmma;
using bf16 = __nv_bfloat16;

constexpr int kTileOut = 32;
constexpr int kTileIn = 64;
constexpr int kTileTok = 32;

// 8 warps of 16 x 16
template <bool Accumulate>
__global__ void wgrad_kernel(const bf16* __restrict__ dY, const bf16* __restrict__ X, float* __restrict__ dW, float* __restrict__ db,
                             int tokens, int out_dim, int in_dim) {
  __shared__ __align__(32) bf16 sdY[kTileTok][kTileOut + 8];
  __shared__ __align__(32) bf16 sX[kTileTok][kTileIn + 8];
  __shared__ __align__(32) float sW[kTileOut][kTileIn + 4];

  const int out0 = blockIdx.y * kTileOut, in0 = blockIdx.x * kTileIn;
  const int warp = threadIdx.x / 32;
  const int wo = warp / 4 * 16, wi = warp % 4 * 16;
  float bias_grad = 0.f;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
  wmma::fill_fragment(acc, 0.f);
  for (int t0 = 0; t0 < tokens; t0 += kTileTok) {
    for (int i = threadIdx.x; i < kTileTok * kTileOut; i += blockDim.x) {
      const int r = i / kTileOut, c = i % kTileOut;
      sdY[r][c] = t0 + r < tokens && out0 + c < out_dim ? dY[(int64_t)(t0 + r) * out_dim + out0 + c] : __float2bfloat16(0.f);
    }
    for (int i = threadIdx.x; i < kTileTok * kTileIn; i += blockDim.x) {
      const int r = i / kTileIn, c = i % kTileIn;
      sX[r][c] = t0 + r < tokens && in0 + c < in_dim ? X[(int64_t)(t0 + r) * in_dim + in0 + c] : __float2bfloat16(0.f);
    }
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x < kTileOut)
      for (int r = 0; r < kTileTok; ++r) bias_grad += __bfloat162float(sdY[r][threadIdx.x]);
    for (int k = 0; k < kTileTok; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::col_major> a;  // dY^T
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> b;
      wmma::load_matrix_sync(a, &sdY[k][wo], kTileOut + 8);
      wmma::load_matrix_sync(b, &sX[k][wi], kTileIn + 8);
      wmma::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }

  wmma::store_matrix_sync(&sW[wo][wi], acc, kTileIn + 4, wmma::mem_row_major);
  __syncthreads();
  for (int i = threadIdx.x; i < kTileOut * kTileIn; i += blockDim.x) {
    const int r = i / kTileIn, c = i % kTileIn;
    if (out0 + r < out_dim && in0 + c < in_dim) {
      float* dst = dW + (int64_t)(out0 + r) * in_dim + in0 + c;
      *dst = Accumulate ? *dst + sW[r][c] : sW[r][c];
    }
  }
  if (blockIdx.x == 0 && threadIdx.x < kTileOut && out0 + threadIdx.x < out_dim) {
    if (Accumulate)
      db[out0 + threadIdx.x] += bias_grad;
    else
      db[out0 + threadIdx.x] = bias_grad;
  }
}

}  // namespace backward

void linear_backward_weight(const __nv_bfloat16* dY, const __nv_bfloat16* X, float* dW, float* db, int tokens, int out_dim,
                            int in_dim, bool accumulate, cudaStream_t stream) {
  const dim3 grid((in_dim + backward::kTileIn - 1) / backward::kTileIn, (out_dim + backward::kTileOut - 1) / backward::kTileOut);
  if (accumulate)
    backward::wgrad_kernel<true><<<grid, 256, 0, stream>>>(dY, X, dW, db, tokens, out_dim, in_dim);
  else
    backward::wgrad_kernel<false><<<grid, 256, 0, stream>>>(dY, X, dW, db, tokens, out_dim, in_dim);
}
