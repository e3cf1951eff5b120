#pragma once
#include <cuda_bf16.h>
#include <mma.h>

// C[M,N] = relu(A[M,K] * W[N,K]^T + bias[N]) in bf16, fp32 accumulate. M, N, K multiples of 16.
struct GemmArgs {
  const __nv_bfloat16* A;
  const __nv_bfloat16* W;
  const __nv_bfloat16* bias;
  __nv_bfloat16* C;
  int M, N, K;
};

__global__ void linear_relu_bf16(GemmArgs args) {
  using namespace nvcuda;
  __shared__ float tile[16 * 16];
  const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.f);
  for (int k = 0; k < args.K; k += 16) {
    wmma::load_matrix_sync(a, args.A + m0 * args.K + k, args.K);
    wmma::load_matrix_sync(b, args.W + n0 * args.K + k, args.K);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(tile, c, 16, wmma::mem_row_major);
  __syncwarp();
  for (int i = threadIdx.x; i < 256; i += 32) {
    const int r = i / 16, col = n0 + i % 16;
    const float v = tile[i] + __bfloat162float(args.bias[col]);
    args.C[(m0 + r) * args.N + col] = __float2bfloat16(fmaxf(v, 0.f));
  }
}

inline void launch_linear_relu(const GemmArgs& args, cudaStream_t stream) {
  linear_relu_bf16<<<dim3(args.N / 16, args.M / 16), 32, 0, stream>>>(args);
}
