// One warp per 16x16 tile of C, everything column major as cuBLAS has it: C = alpha * A * B + beta * C.
#include <stdio.h>
#include <curand.h>
#include <cublas_v2.h>
#include <mma.h>

#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
}
#define cublasErrCheck(stat) { cublasErrCheck_((stat), __FILE__, __LINE__); }
void cublasErrCheck_(cublasStatus_t stat, const char *file, int line) {
   if (stat != CUBLAS_STATUS_SUCCESS) fprintf(stderr, "cuBLAS Error: %d %s %d\n", stat, file, line);
}
#define curandErrCheck(stat) { if ((stat) != CURAND_STATUS_SUCCESS) fprintf(stderr, "cuRand Error %d\n", __LINE__); }

using namespace nvcuda;

// Must be multiples of 16 for wmma code to work
#define MATRIX_M 1024
#define MATRIX_N 1024
#define MATRIX_K 1024

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

__global__ void warp_gemm(half *a, half *b, float *c, int M, int N, int K, float alpha, float beta) {
   // Leading dimensions. Packed with no transpositions.
   int lda = M;
   int ldb = K;
   int ldc = M;

   // A 2D grid of warps
   int tileM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int tileN = (blockIdx.y * blockDim.y + threadIdx.y);
   int cRow = tileM * WMMA_M;
   int cCol = tileN * WMMA_N;
   if (cRow >= M || cCol >= N) return;

   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> fragA;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> fragB;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> fragAcc;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> fragC;
   wmma::fill_fragment(fragAcc, 0.0f);

   for (int k = 0; k < K; k += WMMA_K) {
      wmma::load_matrix_sync(fragA, a + cRow + k * lda, lda);
      wmma::load_matrix_sync(fragB, b + k + cCol * ldb, ldb);
      wmma::mma_sync(fragAcc, fragA, fragB, fragAcc);
   }

   // Scale by alpha, and add C scaled by beta
   wmma::load_matrix_sync(fragC, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);
#pragma unroll
   for (int i = 0; i < fragC.num_elements; i++)
      fragC.x[i] = alpha * fragAcc.x[i] + beta * fragC.x[i];
   wmma::store_matrix_sync(c + cRow + cCol * ldc, fragC, ldc, wmma::mem_col_major);
}

__global__ void convertFp32ToFp16(half *out, float *in, int n) {
   int idx = blockDim.x * blockIdx.x + threadIdx.x;
   if (idx < n) out[idx] = in[idx];
}

int main(int argc, char *argv[]) {
   float *a_fp32, *b_fp32, *c, *c_cublas, *c_wmma;
   half *a_fp16, *b_fp16;
   float *c_host_cublas, *c_host_wmma;
   curandGenerator_t gen;
   cublasHandle_t cublasHandle;
   cudaEvent_t startWMMA, stopWMMA;
   cudaErrCheck(cudaEventCreate(&startWMMA));
   cudaErrCheck(cudaEventCreate(&stopWMMA));
   cublasErrCheck(cublasCreate(&cublasHandle));
   cublasErrCheck(cublasSetMathMode(cublasHandle, CUBLAS_TENSOR_OP_MATH));

   cudaErrCheck(cudaMalloc((void**)&a_fp32, MATRIX_M * MATRIX_K * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&b_fp32, MATRIX_K * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&a_fp16, MATRIX_M * MATRIX_K * sizeof(half)));
   cudaErrCheck(cudaMalloc((void**)&b_fp16, MATRIX_K * MATRIX_N * sizeof(half)));
   cudaErrCheck(cudaMalloc((void**)&c, MATRIX_M * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&c_cublas, MATRIX_M * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&c_wmma, MATRIX_M * MATRIX_N * sizeof(float)));
   c_host_cublas = (float*)malloc(MATRIX_M * MATRIX_N * sizeof(float));
   c_host_wmma = (float*)malloc(MATRIX_M * MATRIX_N * sizeof(float));
   curandErrCheck(curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_DEFAULT));
   curandErrCheck(curandSetPseudoRandomGeneratorSeed(gen, 1337ULL));
   curandErrCheck(curandGenerateUniform(gen, a_fp32, MATRIX_M * MATRIX_K));
   curandErrCheck(curandGenerateUniform(gen, b_fp32, MATRIX_K * MATRIX_N));
   // curand doesn't currently support fp16 so we generate in fp32 and convert to fp16.
   convertFp32ToFp16 <<< (MATRIX_M * MATRIX_K + 255) / 256, 256 >>> (a_fp16, a_fp32, MATRIX_M * MATRIX_K);
   convertFp32ToFp16 <<< (MATRIX_K * MATRIX_N + 255) / 256, 256 >>> (b_fp16, b_fp32, MATRIX_K * MATRIX_N);

   float alpha = 2.0f;
   float beta = 2.0f;
   printf("\nM = %d, N = %d, K = %d. alpha = %f, beta = %f\n\n", MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);

   // blockDim.x must be a multiple of warpSize
   // 128x4 means we have 16 warps and a block computes a 64x64 output tile
   dim3 gridDim;
   dim3 blockDim;
   blockDim.x = 128;
   blockDim.y = 4;
   gridDim.x = (MATRIX_M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (MATRIX_N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);

   printf("Running with wmma...\n");
   cudaErrCheck(cudaEventRecord(startWMMA));
   warp_gemm <<< gridDim, blockDim >>> (a_fp16, b_fp16, c_wmma, MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);
   cudaErrCheck(cudaEventRecord(stopWMMA));

   printf("Running with cuBLAS...\n");
   cublasErrCheck(cublasGemmEx(cublasHandle, CUBLAS_OP_N, CUBLAS_OP_N, MATRIX_M, MATRIX_N, MATRIX_K, &alpha,
                               a_fp16, CUDA_R_16F, MATRIX_M, b_fp16, CUDA_R_16F, MATRIX_K, &beta,
                               c_cublas, CUDA_R_32F, MATRIX_M, CUDA_R_32F, CUBLAS_GEMM_DFALT_TENSOR_OP));
   cudaErrCheck(cudaMemcpy(c_host_wmma, c_wmma, MATRIX_M * MATRIX_N * sizeof(float), cudaMemcpyDeviceToHost));
   cudaErrCheck(cudaMemcpy(c_host_cublas, c_cublas, MATRIX_M * MATRIX_N * sizeof(float), cudaMemcpyDeviceToHost));
   // 0.01% relative tolerance. 1e-5 absolute tolerance.
   int errors = 0;
   for (int i = 0; i < MATRIX_M * MATRIX_N; i++) {
      float v1 = c_host_wmma[i];
      float v2 = c_host_cublas[i];
      if (fabsf(v1 / v2 - 1.0f) > 1e-4f || fabsf(v1 - v2) > 1e-5f) {
         errors++;
         if (errors < 10) printf("%f %f\n", v1, v2);
      }
   }
   if (errors > 0) printf("WMMA does not agree with cuBLAS! %d errors!\n", errors);
   cudaErrCheck(cudaDeviceReset());
   return 0;
}
