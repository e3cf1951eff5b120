// Split-K GEMM: partial products into a workspace, then a reduction with bias.
// out[M,N] = A[M,K] * B[N,K]^T + bias[N]
#include <cuda_fp16.h>
#include <mma.h>

namespace splitk {
using namespace nvcuda::wmma;

constexpr int TILE = 16;

__global__ void partial_kernel(const half* __restrict__ A, const half* __restrict__ B, float* __restrict__ workspace,
                               int M, int N, int K, int k_per_split) {
  const int n0 = blockIdx.x * TILE, m0 = blockIdx.y * TILE, split = blockIdx.z;
  const int k_begin = split * k_per_split;
  const int k_end = min(K, k_begin + k_per_split);
  fragment<matrix_a, 16, 16, 16, half, row_major> a;
  fragment<matrix_b, 16, 16, 16, half, col_major> b;
  fragment<accumulator, 16, 16, 16, float> acc;
  fill_fragment(acc, 0.f);
  for (int k = k_begin; k < k_end; k += TILE) {
    load_matrix_sync(a, A + m0 * K + k, K);
    load_matrix_sync(b, B + n0 * K + k, K);
    mma_sync(acc, a, b, acc);
  }
  store_matrix_sync(workspace + (size_t)split * M * N + m0 * N + n0, acc, N, mem_row_major);
}

__global__ void reduce_kernel(const float* __restrict__ workspace, const half* __restrict__ bias, half* __restrict__ out,
                              int M, int N, int splits) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= M * N) return;
  float s = 0.f;
  for (int k = 0; k < splits; ++k) s += workspace[(size_t)k * M * N + i];
  out[i] = __float2half(s + __half2float(bias[i % N]));
}

}  // namespace splitk

// workspace: splits * M * N floats
void gemm_splitk_bias(const half* A, const half* B, const half* bias, half* out, float* workspace, int M, int N, int K,
                      int splits, cudaStream_t stream) {
  int k_per_split = ((K / 16 + splits - 1) / splits) * 16;
  dim3 grid(N / 16, M / 16, splits);
  splitk::partial_kernel<<<grid, 32, 0, stream>>>(A, B, workspace, M, N, K, k_per_split);
  splitk::reduce_kernel<<<(M * N + 255) / 256, 256, 0, stream>>>(workspace, bias, out, M, N, splits);
}
