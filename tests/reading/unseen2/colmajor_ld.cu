#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
// column-major C = alpha*A*B + beta*C, like BLAS, leading dimensions given
__global__ void gemm_nn(int m, int n, int k, float alpha, const half* A, int lda, const half* B, int ldb, float beta, float* C, int ldc) {
  int wm = (blockIdx.x * blockDim.x + threadIdx.x) / 32, wn = blockIdx.y * blockDim.y + threadIdx.y;
  if (wm * 16 >= m || wn * 16 >= n) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc, c;
  wmma::fill_fragment(acc, 0.f);
  for (int p = 0; p < k; p += 16) {
    wmma::load_matrix_sync(a, A + wm * 16 + p * lda, lda);
    wmma::load_matrix_sync(b, B + p + wn * 16 * ldb, ldb);
    wmma::mma_sync(acc, a, b, acc);
  }
  float* out = C + wm * 16 + wn * 16 * ldc;
  wmma::load_matrix_sync(c, out, ldc, wmma::mem_col_major);
  for (int i = 0; i < c.num_elements; i++) c.x[i] = alpha * acc.x[i] + beta * c.x[i];
  wmma::store_matrix_sync(out, c, ldc, wmma::mem_col_major);
}
void sgemm_tc(int m, int n, int k, float alpha, const half* A, int lda, const half* B, int ldb, float beta, float* C, int ldc) {
  dim3 block(128, 4);
  dim3 grid((m + 63) / 64, (n + 63) / 64);
  gemm_nn<<<grid, block>>>(m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}
