#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda::wmma;

struct GemmShape { int m, n, k; };

// Strided batched, fp32 in and out, TF32 inside: C_i = alpha A_i B_i + beta C_i
template <int TileM = 32, int TileN = 32>
__global__ void tf32_gemm_strided_batched(GemmShape s, float alpha, const float* A, int lda, long long strideA,
                                          const float* B, int ldb, long long strideB, float beta, float* C, int ldc,
                                          long long strideC) {
  const int batch = blockIdx.z;
  A += batch * strideA;
  B += batch * strideB;
  C += batch * strideC;
  const int warpId = threadIdx.y;
  const int row = blockIdx.y * TileM + (warpId / (TileN / 16)) * 16;
  const int col = blockIdx.x * TileN + (warpId % (TileN / 16)) * 16;
  if (row >= s.m || col >= s.n) return;

  fragment<accumulator, 16, 16, 8, float> acc, old;
  fill_fragment(acc, 0.0f);
  for (int k = 0; k < s.k; k += 8) {
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b;
    load_matrix_sync(a, A + (size_t)row * lda + k, lda);
    load_matrix_sync(b, B + (size_t)k * ldb + col, ldb);
#pragma unroll
    for (int i = 0; i < a.num_elements; ++i) a.x[i] = __float_to_tf32(a.x[i]);
#pragma unroll
    for (int i = 0; i < b.num_elements; ++i) b.x[i] = __float_to_tf32(b.x[i]);
    mma_sync(acc, a, b, acc);
  }
  float* out = C + (size_t)row * ldc + col;
  load_matrix_sync(old, out, ldc, mem_row_major);
#pragma unroll
  for (int i = 0; i < acc.num_elements; ++i) acc.x[i] = alpha * acc.x[i] + beta * old.x[i];
  store_matrix_sync(out, acc, ldc, mem_row_major);
}

int tf32_bmm(int batch, int m, int n, int k, float alpha, const float* A, const float* B, float beta, float* C) {
  if ((m | n) & 15 || k & 7) return -1;
  GemmShape shape{m, n, k};
  dim3 block(32, 4);
  dim3 grid((n + 31) / 32, (m + 31) / 32, batch);
  tf32_gemm_strided_batched<><<<grid, block>>>(shape, alpha, A, k, (long long)m * k, B, n, (long long)k * n, beta, C,
                                               n, (long long)m * n);
  return 0;
}
