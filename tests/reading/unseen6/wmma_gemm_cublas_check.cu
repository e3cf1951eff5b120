#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
using namespace nvcuda;

#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

// C = A * B, all row major, dimensions multiples of 16. Block of 4x4 warps.
__global__ void wmma_simple(const half* A, const half* B, float* C, int M, int N, int K) {
  int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  int warpN = blockIdx.y * blockDim.y + threadIdx.y;
  int row = warpM * WMMA_M, col = warpN * WMMA_N;
  if (row >= M || col >= N) return;
  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  for (int k = 0; k < K; k += WMMA_K) {
    wmma::load_matrix_sync(fa, A + row * K + k, K);
    wmma::load_matrix_sync(fb, B + k * N + col, N);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(C + row * N + col, fc, N, wmma::mem_row_major);
}

int main() {
  const int M = 128, N = 96, K = 64;
  std::vector<half> a(M * K), b(K * N);
  for (auto& v : a) v = __float2half((rand() % 7 - 3) * 0.25f);
  for (auto& v : b) v = __float2half((rand() % 5 - 2) * 0.5f);
  half *dA, *dB;
  float *dC, *dRef;
  cudaMalloc(&dA, a.size() * sizeof(half));
  cudaMalloc(&dB, b.size() * sizeof(half));
  cudaMalloc(&dC, M * N * sizeof(float));
  cudaMalloc(&dRef, M * N * sizeof(float));
  cudaMemcpy(dA, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice);
  cudaMemcpy(dB, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice);
  dim3 block(128, 4);
  dim3 grid((M + WMMA_M * 4 - 1) / (WMMA_M * 4), (N + WMMA_N * 4 - 1) / (WMMA_N * 4));
  wmma_simple<<<grid, block>>>(dA, dB, dC, M, N, K);

  cublasHandle_t handle;
  cublasCreate(&handle);
  float alpha = 1.f, beta = 0.f;
  // row major C = A*B is column major C^T = B^T * A^T
  cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, dB, CUDA_R_16F, N, dA, CUDA_R_16F, K, &beta, dRef,
               CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP);
  std::vector<float> c(M * N), ref(M * N);
  cudaMemcpy(c.data(), dC, M * N * sizeof(float), cudaMemcpyDeviceToHost);
  cudaMemcpy(ref.data(), dRef, M * N * sizeof(float), cudaMemcpyDeviceToHost);
  int bad = 0;
  for (int i = 0; i < M * N; i++)
    if (fabs(c[i] - ref[i]) > 1e-3) bad++;
  printf(bad ? "FAILED: %d elements\n" : "OK\n", bad);
  cublasDestroy(handle);
  return bad != 0;
}
