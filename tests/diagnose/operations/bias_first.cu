#include <mma.h>
#include <cuda_fp16.h>
namespace w = nvcuda::wmma;
// C[m][n] = silu(sum_k A[m][k] B[k][n] + bias[n]); accumulators start as the bias
template <int BM, int BN, int BK>
__global__ void fused_linear(const half* A, const half* B, const float* bias, float* C, int M, int N, int K) {
  extern __shared__ char raw[];
  half* As = reinterpret_cast<half*>(raw);
  half* Bs = As + BM * (BK + 8);
  float* bt = reinterpret_cast<float*>(Bs + BK * (BN + 8));
  const int m0 = blockIdx.x * BM, n0 = blockIdx.y * BN;
  const int wid = threadIdx.x / 32;
  const int wm = wid % (BM / 16), wn = wid / (BM / 16);
  for (int i = threadIdx.x; i < 16 * BN; i += blockDim.x) bt[i] = bias[n0 + i % BN];
  __syncthreads();
  w::fragment<w::accumulator, 16, 16, 16, float> acc;
  w::load_matrix_sync(acc, bt + wn * 16, BN, w::mem_row_major);
  for (int k0 = 0; k0 < K; k0 += BK) {
    for (int i = threadIdx.x; i < BM * BK; i += blockDim.x) As[i / BK * (BK + 8) + i % BK] = A[(m0 + i / BK) * K + k0 + i % BK];
    for (int i = threadIdx.x; i < BK * BN; i += blockDim.x) Bs[i / BN * (BN + 8) + i % BN] = B[(k0 + i / BN) * N + n0 + i % BN];
    __syncthreads();
    for (int kk = 0; kk < BK; kk += 16) {
      w::fragment<w::matrix_a, 16, 16, 16, half, w::row_major> a;
      w::fragment<w::matrix_b, 16, 16, 16, half, w::row_major> b;
      w::load_matrix_sync(a, As + wm * 16 * (BK + 8) + kk, BK + 8);
      w::load_matrix_sync(b, Bs + kk * (BN + 8) + wn * 16, BN + 8);
      w::mma_sync(acc, a, b, acc);
    }
    __syncthreads();
  }
  for (int t = 0; t < acc.num_elements; t++) { float x = acc.x[t]; acc.x[t] = x / (1.f + __expf(-x)); }
  w::store_matrix_sync(C + (m0 + wm * 16) * N + n0 + wn * 16, acc, N, w::mem_row_major);
}
