/*
 * tensor_core_gemm_demo.cu
 *
 * My first steps with Tensor Cores (WMMA API).
 *
 *     D = alpha * A * B + beta * C
 *
 * A (MxK), B (KxN), C and D (MxN) are all stored in COLUMN MAJOR order, like
 * cuBLAS wants them, so the result can be compared directly with cublasGemmEx.
 * A and B are given as fp32 and converted to fp16 on the device, C and D are fp32.
 *
 * Build:  nvcc -arch=sm_70 -O3 tensor_core_gemm_demo.cu -lcublas -o gemm_demo
 * Run:    ./gemm_demo [M N K]        (multiples of 16, default 160 112 96)
 *
 * Compared to the sample that everybody copies, each warp computes a 32x32 patch
 * of D (2x2 fragments), so every loaded fragment is used twice.
 */
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <ctime>
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cublas_v2.h>
#include <mma.h>

using namespace nvcuda;

#define CUDA_CHECK(stmt)                                                          \
  do {                                                                            \
    cudaError_t err_ = (stmt);                                                    \
    if (err_ != cudaSuccess) {                                                    \
      fprintf(stderr, "CUDA error: %s at %s:%d\n", cudaGetErrorString(err_),      \
              __FILE__, __LINE__);                                                \
      exit(EXIT_FAILURE);                                                         \
    }                                                                             \
  } while (0)

#define CUBLAS_CHECK(stmt)                                                        \
  do {                                                                            \
    cublasStatus_t st_ = (stmt);                                                  \
    if (st_ != CUBLAS_STATUS_SUCCESS) {                                           \
      fprintf(stderr, "cuBLAS error %d at %s:%d\n", (int)st_, __FILE__, __LINE__); \
      exit(EXIT_FAILURE);                                                         \
    }                                                                             \
  } while (0)

// fragment shape
const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// fragments of one warp
const int FRAGS_M = 2;
const int FRAGS_N = 2;

__global__ void convertFp32ToFp16(half *out, const float *in, int n) {
  int idx = blockDim.x * blockIdx.x + threadIdx.x;
  if (idx < n) {
    out[idx] = __float2half(in[idx]);
  }
}

// The grid is two dimensional: x counts warps along M, y counts warps along N.
__global__ void wmma_gemm(const half *a, const half *b, const float *c, float *d,
                          int M, int N, int K, float alpha, float beta) {
  // leading dimensions, nothing is transposed
  const int lda = M;
  const int ldb = K;
  const int ldc = M;

  const int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  const int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

  const int row0 = warpM * FRAGS_M * WMMA_M;
  const int col0 = warpN * FRAGS_N * WMMA_N;

  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag[FRAGS_M];
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag[FRAGS_N];
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc[FRAGS_M][FRAGS_N];
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

  for (int i = 0; i < FRAGS_M; i++)
    for (int j = 0; j < FRAGS_N; j++)
      wmma::fill_fragment(acc[i][j], 0.0f);

  for (int k = 0; k < K; k += WMMA_K) {
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++) {
      const int aRow = row0 + i * WMMA_M;
      if (aRow < M)
        wmma::load_matrix_sync(a_frag[i], a + aRow + k * lda, lda);
    }
#pragma unroll
    for (int j = 0; j < FRAGS_N; j++) {
      const int bCol = col0 + j * WMMA_N;
      if (bCol < N)
        wmma::load_matrix_sync(b_frag[j], b + k + bCol * ldb, ldb);
    }
#pragma unroll
    for (int i = 0; i < FRAGS_M; i++)
#pragma unroll
      for (int j = 0; j < FRAGS_N; j++)
        if (row0 + i * WMMA_M < M && col0 + j * WMMA_N < N)
          wmma::mma_sync(acc[i][j], a_frag[i], b_frag[j], acc[i][j]);
  }

  // scale, add the old C, store
  for (int i = 0; i < FRAGS_M; i++) {
    for (int j = 0; j < FRAGS_N; j++) {
      const int cRow = row0 + i * WMMA_M;
      const int cCol = col0 + j * WMMA_N;
      if (cRow < M && cCol < N) {
        wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);
#pragma unroll
        for (int t = 0; t < c_frag.num_elements; t++) {
          c_frag.x[t] = alpha * acc[i][j].x[t] + beta * c_frag.x[t];
        }
        wmma::store_matrix_sync(d + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
      }
    }
  }
}

static void randomFill(float *p, int n) {
  for (int i = 0; i < n; i++) p[i] = (float)rand() / RAND_MAX - 0.5f;
}

static int compare(const char *what, const float *x, const float *y, int n) {
  int errors = 0;
  for (int i = 0; i < n; i++) {
    float diff = fabsf(x[i] - y[i]);
    if (!(diff <= 1e-3f + 1e-3f * fabsf(y[i]))) {
      if (errors < 5) printf("  [%s] %d: %f instead of %f\n", what, i, x[i], y[i]);
      errors++;
    }
  }
  printf("%-12s %s\n", what, errors ? "MISMATCH" : "ok");
  return errors;
}

int main(int argc, char **argv) {
  int M = 160, N = 112, K = 96;
  if (argc == 4) {
    M = atoi(argv[1]);
    N = atoi(argv[2]);
    K = atoi(argv[3]);
  }
  if (M % 16 || N % 16 || K % 16) {
    fprintf(stderr, "M, N and K must be multiples of 16\n");
    return 2;
  }
  const float alpha = 1.5f, beta = 0.5f;
  srand(time(NULL));

  float *hA = (float *)malloc(M * K * sizeof(float));
  float *hB = (float *)malloc(K * N * sizeof(float));
  float *hC = (float *)malloc(M * N * sizeof(float));
  float *hD = (float *)malloc(M * N * sizeof(float));
  float *hBlas = (float *)malloc(M * N * sizeof(float));
  float *hRef = (float *)malloc(M * N * sizeof(float));
  randomFill(hA, M * K);
  randomFill(hB, K * N);
  randomFill(hC, M * N);

  float *dA32, *dB32, *dC, *dD, *dBlas;
  half *dA, *dB;
  CUDA_CHECK(cudaMalloc(&dA32, M * K * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&dB32, K * N * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&dA, M * K * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dB, K * N * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dC, M * N * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&dD, M * N * sizeof(float)));
  CUDA_CHECK(cudaMalloc(&dBlas, M * N * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(dA32, hA, M * K * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dB32, hB, K * N * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dC, hC, M * N * sizeof(float), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dBlas, hC, M * N * sizeof(float), cudaMemcpyHostToDevice));

  convertFp32ToFp16<<<(M * K + 255) / 256, 256>>>(dA, dA32, M * K);
  convertFp32ToFp16<<<(K * N + 255) / 256, 256>>>(dB, dB32, K * N);

  // 4 x 2 warps, a block covers 128 x 64 elements of D
  dim3 blockDim(128, 2);
  const int tileM = FRAGS_M * WMMA_M * blockDim.x / 32;
  const int tileN = FRAGS_N * WMMA_N * blockDim.y;
  dim3 gridDim((M + tileM - 1) / tileM, (N + tileN - 1) / tileN);

  cudaEvent_t start, stop;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  printf("M = %d, N = %d, K = %d, alpha = %f, beta = %f\n", M, N, K, alpha, beta);

  CUDA_CHECK(cudaEventRecord(start));
  wmma_gemm<<<gridDim, blockDim>>>(dA, dB, dC, dD, M, N, K, alpha, beta);
  CUDA_CHECK(cudaEventRecord(stop));
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaEventSynchronize(stop));
  float wmmaMs;
  CUDA_CHECK(cudaEventElapsedTime(&wmmaMs, start, stop));

  cublasHandle_t handle;
  CUBLAS_CHECK(cublasCreate(&handle));
  CUBLAS_CHECK(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, M, N, K, &alpha, dA, CUDA_R_16F, M, dB, CUDA_R_16F, K,
                            &beta, dBlas, CUDA_R_32F, M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  CUDA_CHECK(cudaMemcpy(hD, dD, M * N * sizeof(float), cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(hBlas, dBlas, M * N * sizeof(float), cudaMemcpyDeviceToHost));

  // CPU, with the same rounding of the inputs
  for (int j = 0; j < N; j++) {
    for (int i = 0; i < M; i++) {
      double sum = 0.0;
      for (int k = 0; k < K; k++)
        sum += (double)__half2float(__float2half(hA[i + k * M])) * __half2float(__float2half(hB[k + j * K]));
      hRef[i + j * M] = (float)(alpha * sum + beta * hC[i + j * M]);
    }
  }
  int errors = compare("wmma/cublas", hD, hBlas, M * N);
  errors += compare("wmma/cpu", hD, hRef, M * N);
  printf("wmma took %f ms\n", wmmaMs);

  cublasDestroy(handle);
  cudaFree(dA32); cudaFree(dB32); cudaFree(dA); cudaFree(dB);
  cudaFree(dC); cudaFree(dD); cudaFree(dBlas);
  free(hA); free(hB); free(hC); free(hD); free(hBlas); free(hRef);
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  printf("%s\n", errors ? "FAILED" : "PASSED");
  return errors ? EXIT_FAILURE : EXIT_SUCCESS;
}
