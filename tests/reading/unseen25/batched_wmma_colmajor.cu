/* Strided-batched tensor core GEMM, BLAS conventions:
 *
 *     C_i = alpha * A_i * B_i + beta * C_i        i = 0 .. batchCount-1
 *
 * All matrices column-major with leading dimensions lda, ldb, ldc, half inputs and
 * float C, like the well-known "simple tensor core GEMM" example, but batched.
 * m, n and k have to be multiples of 16.
 *
 * nvcc -o bgemm -arch=sm_70 batched_wmma_colmajor.cu
 */
#include <cuda_fp16.h>
#include <mma.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

// Define some error checking macros.
#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
      exit(1);
   }
}

// The only dimensions currently supported by WMMA for this data type combination we use
const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

#define MATRIX_M 64
#define MATRIX_N 96
#define MATRIX_K 80
#define BATCH    3

typedef long long stride_t;

__global__ void wmma_bgemm(const half *a, int lda, stride_t strideA,
                           const half *b, int ldb, stride_t strideB,
                           float *c, int ldc, stride_t strideC,
                           int M, int N, int K, float alpha, float beta) {
   // Tile using a 2D grid; the batch is grid z
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

   a += blockIdx.z * strideA;
   b += blockIdx.z * strideB;
   c += blockIdx.z * strideC;

   // Declare the fragments
   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

   wmma::fill_fragment(acc_frag, 0.0f);

   // Loop over k
   for (int i = 0; i < K; i += WMMA_K) {
      int aRow = warpM * WMMA_M;
      int aCol = i;
      int bRow = i;
      int bCol = warpN * WMMA_N;

      // Bounds checking
      if (aRow < M && aCol < K && bRow < K && bCol < N) {
         wmma::load_matrix_sync(a_frag, a + aRow + aCol * lda, lda);
         wmma::load_matrix_sync(b_frag, b + bRow + bCol * ldb, ldb);
         wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }
   }

   // Load in the current value of c, scale it, and add this our result scaled by alpha
   int cRow = warpM * WMMA_M;
   int cCol = warpN * WMMA_N;

   if (cRow < M && cCol < N) {
      wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);

#pragma unroll
      for (int i = 0; i < c_frag.num_elements; i++) {
         c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      }

      // Store the output
      wmma::store_matrix_sync(c + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
   }
}

void bgemm(int M, int N, int K, float alpha, const half *a, int lda, stride_t strideA,
           const half *b, int ldb, stride_t strideB, float beta, float *c, int ldc, stride_t strideC, int batch) {
   // blockDim.x must be a multiple of warpSize; 64x4 means we have 8 warps and
   // a block computes a 32x64 output tile
   dim3 blockDim(64, 4);
   dim3 gridDim;
   gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
   gridDim.z = batch;
   wmma_bgemm<<<gridDim, blockDim>>>(a, lda, strideA, b, ldb, strideB, c, ldc, strideC, M, N, K, alpha, beta);
   cudaErrCheck(cudaGetLastError());
}

int main(int argc, char *argv[]) {
   const float alpha = 2.0f, beta = 0.5f;
   // columns are padded by eight
   const int lda = MATRIX_M + 8, ldb = MATRIX_K + 8, ldc = MATRIX_M + 8;
   const stride_t strideA = (stride_t)lda * MATRIX_K;
   const stride_t strideB = (stride_t)ldb * MATRIX_N;
   const stride_t strideC = (stride_t)ldc * MATRIX_N;

   half *a_host = (half *)malloc(BATCH * strideA * sizeof(half));
   half *b_host = (half *)malloc(BATCH * strideB * sizeof(half));
   float *c_host = (float *)malloc(BATCH * strideC * sizeof(float));
   float *c_result = (float *)malloc(BATCH * strideC * sizeof(float));

   for (int i = 0; i < BATCH * strideA; i++) a_host[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
   for (int i = 0; i < BATCH * strideB; i++) b_host[i] = __float2half(rand() / (float)RAND_MAX - 0.5f);
   for (int i = 0; i < BATCH * strideC; i++) c_host[i] = rand() / (float)RAND_MAX;

   half *a_fp16, *b_fp16;
   float *c_wmma;
   cudaErrCheck(cudaMalloc((void **)&a_fp16, BATCH * strideA * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&b_fp16, BATCH * strideB * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&c_wmma, BATCH * strideC * sizeof(float)));
   cudaErrCheck(cudaMemcpy(a_fp16, a_host, BATCH * strideA * sizeof(half), cudaMemcpyHostToDevice));
   cudaErrCheck(cudaMemcpy(b_fp16, b_host, BATCH * strideB * sizeof(half), cudaMemcpyHostToDevice));
   cudaErrCheck(cudaMemcpy(c_wmma, c_host, BATCH * strideC * sizeof(float), cudaMemcpyHostToDevice));

   printf("\nM = %d, N = %d, K = %d, batch = %d. alpha = %f, beta = %f\n\n", MATRIX_M, MATRIX_N, MATRIX_K, BATCH,
          alpha, beta);
   printf("Running with wmma...\n");
   bgemm(MATRIX_M, MATRIX_N, MATRIX_K, alpha, a_fp16, lda, strideA, b_fp16, ldb, strideB, beta, c_wmma, ldc,
         strideC, BATCH);

   printf("Checking against the host...\n");
   cudaErrCheck(cudaMemcpy(c_result, c_wmma, BATCH * strideC * sizeof(float), cudaMemcpyDeviceToHost));
   int errors = 0;
   for (int p = 0; p < BATCH; p++) {
      for (int col = 0; col < MATRIX_N; col++) {
         for (int row = 0; row < ldc; row++) {
            stride_t at = p * strideC + (stride_t)col * ldc + row;
            double want = c_host[at];
            if (row < MATRIX_M) {
               double sum = 0;
               for (int k = 0; k < MATRIX_K; k++)
                  sum += (double)__half2float(a_host[p * strideA + (stride_t)k * lda + row]) *
                         __half2float(b_host[p * strideB + (stride_t)col * ldb + k]);
               want = alpha * sum + beta * c_host[at];
            }
            if (!(fabs(c_result[at] - want) <= 1e-3 * (1 + fabs(want)))) {
               errors++;
               if (errors < 10) printf("%d (%d, %d): %f, expected %f\n", p, row, col, c_result[at], want);
            }
         }
      }
   }
   if (errors > 0) {
      printf("WMMA does not agree with the host! %d errors: FAIL\n", errors);
   } else {
      printf("Results verified: PASS\n");
   }

   cudaErrCheck(cudaFree(a_fp16));
   cudaErrCheck(cudaFree(b_fp16));
   cudaErrCheck(cudaFree(c_wmma));
   free(a_host);
   free(b_host);
   free(c_host);
   free(c_result);
   return errors > 0;
}
