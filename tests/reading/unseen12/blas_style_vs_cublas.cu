// Column-major C = alpha*A*B + beta*C on tensor cores, compared with cuBLAS.
// build: nvcc -O3 -arch=sm_80 blas_style_vs_cublas.cu -lcublas -lcurand -o tcgemm
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <curand.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK_CUDA(call)                                                                       \
  do {                                                                                         \
    cudaError_t err_ = (call);                                                                 \
    if (err_ != cudaSuccess) {                                                                 \
      fprintf(stderr, "%s:%d CUDA: %s\n", __FILE__, __LINE__, cudaGetErrorString(err_));       \
      exit(EXIT_FAILURE);                                                                      \
    }                                                                                          \
  } while (0)
#define CHECK_CUBLAS(call)                                                                     \
  do {                                                                                         \
    cublasStatus_t st_ = (call);                                                               \
    if (st_ != CUBLAS_STATUS_SUCCESS) {                                                        \
      fprintf(stderr, "%s:%d cuBLAS: %d\n", __FILE__, __LINE__, (int)st_);                     \
      exit(EXIT_FAILURE);                                                                      \
    }                                                                                          \
  } while (0)

#define SIZE_M 4096
#define SIZE_N 4096
#define SIZE_K 4096

#define TILE 16

using namespace nvcuda;

// every warp owns one TILE x TILE piece of C; warps along x walk over rows, along y over columns
__global__ void tc_gemm_nn(const half *A, const half *B, float *C, int m, int n, int k, float alpha, float beta) {
  const int wx = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  const int wy = blockIdx.y * blockDim.y + threadIdx.y;
  const int r0 = wx * TILE, c0 = wy * TILE;
  if (r0 >= m || c0 >= n) return;

  wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> sum, old;
  wmma::fill_fragment(sum, 0.f);
  for (int p = 0; p < k; p += TILE) {
    wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, A + r0 + (size_t)p * m, m);
    wmma::load_matrix_sync(fb, B + p + (size_t)c0 * k, k);
    wmma::mma_sync(sum, fa, fb, sum);
  }

  float *dst = C + r0 + (size_t)c0 * m;
  wmma::load_matrix_sync(old, dst, m, wmma::mem_col_major);
#pragma unroll
  for (int e = 0; e < old.num_elements; ++e) old.x[e] = alpha * sum.x[e] + beta * old.x[e];
  wmma::store_matrix_sync(dst, old, m, wmma::mem_col_major);
}

__global__ void to_half(half *dst, const float *src, size_t count) {
  size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
  if (i < count) dst[i] = __float2half(src[i]);
}

int main() {
  const size_t na = (size_t)SIZE_M * SIZE_K, nb = (size_t)SIZE_K * SIZE_N, nc = (size_t)SIZE_M * SIZE_N;
  float *fa, *fb, *c0, *c_tc, *c_ref;
  half *ha, *hb;
  CHECK_CUDA(cudaMalloc(&fa, na * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&fb, nb * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&ha, na * sizeof(half)));
  CHECK_CUDA(cudaMalloc(&hb, nb * sizeof(half)));
  CHECK_CUDA(cudaMalloc(&c0, nc * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&c_tc, nc * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&c_ref, nc * sizeof(float)));

  curandGenerator_t rng;
  curandCreateGenerator(&rng, CURAND_RNG_PSEUDO_DEFAULT);
  curandSetPseudoRandomGeneratorSeed(rng, 2024ULL);
  curandGenerateUniform(rng, fa, na);
  curandGenerateUniform(rng, fb, nb);
  curandGenerateUniform(rng, c0, nc);
  to_half<<<(na + 255) / 256, 256>>>(ha, fa, na);
  to_half<<<(nb + 255) / 256, 256>>>(hb, fb, nb);
  CHECK_CUDA(cudaMemcpy(c_tc, c0, nc * sizeof(float), cudaMemcpyDeviceToDevice));
  CHECK_CUDA(cudaMemcpy(c_ref, c0, nc * sizeof(float), cudaMemcpyDeviceToDevice));

  float alpha = 1.5f, beta = 0.5f;
  dim3 block(128, 4), grid;
  grid.x = (SIZE_M + TILE * block.x / 32 - 1) / (TILE * block.x / 32);
  grid.y = (SIZE_N + TILE * block.y - 1) / (TILE * block.y);

  cudaEvent_t t0, t1;
  cudaEventCreate(&t0);
  cudaEventCreate(&t1);
  cudaEventRecord(t0);
  tc_gemm_nn<<<grid, block>>>(ha, hb, c_tc, SIZE_M, SIZE_N, SIZE_K, alpha, beta);
  cudaEventRecord(t1);
  CHECK_CUDA(cudaGetLastError());

  cublasHandle_t handle;
  CHECK_CUBLAS(cublasCreate(&handle));
  CHECK_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, SIZE_M, SIZE_N, SIZE_K, &alpha, ha, CUDA_R_16F, SIZE_M,
                            hb, CUDA_R_16F, SIZE_K, &beta, c_ref, CUDA_R_32F, SIZE_M, CUBLAS_COMPUTE_32F,
                            CUBLAS_GEMM_DEFAULT_TENSOR_OP));

  std::vector<float> got(nc), want(nc);
  CHECK_CUDA(cudaMemcpy(got.data(), c_tc, nc * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaMemcpy(want.data(), c_ref, nc * sizeof(float), cudaMemcpyDeviceToHost));
  size_t bad = 0;
  for (size_t i = 0; i < nc; ++i)
    if (std::fabs(got[i] - want[i]) > 1e-3f * std::fabs(want[i])) ++bad;
  float ms = 0;
  cudaEventElapsedTime(&ms, t0, t1);
  printf("%zu mismatches, %.3f ms, %.2f TFLOPS\n", bad, ms, 2.0 * SIZE_M * SIZE_N * SIZE_K / ms / 1e9);
  cublasDestroy(handle);
  return bad != 0;
}
