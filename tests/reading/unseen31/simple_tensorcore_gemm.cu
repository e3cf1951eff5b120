/*
 * Simple Tensor Core GEMM, after the "Programming Tensor Cores in CUDA 9" post.
 *
 *   D = alpha * A * B + beta * C
 *
 * All matrices are packed column major, exactly what cuBLAS wants, so the two results
 * can be compared element by element.  Two WMMA kernels are in here:
 *
 *   wmma_example      one 16x16 tile of the output for each warp
 *   wmma_example_2x2  a 32x32 patch (2x2 tiles) for each warp, every fragment used twice
 *
 * M, N and K have to be multiples of 16, nothing else is assumed about them.
 *
 * nvcc -O3 -arch=sm_70 -o TCGemm simple_tensorcore_gemm.cu -lcublas -lcurand
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#include <cuda_fp16.h>
#include <mma.h>
#include <curand.h>
#include <cublas_v2.h>

// Define some error checking macros.
#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
      exit(1);
   }
}

#define cublasErrCheck(stat) { cublasErrCheck_((stat), __FILE__, __LINE__); }
void cublasErrCheck_(cublasStatus_t stat, const char *file, int line) {
   if (stat != CUBLAS_STATUS_SUCCESS) {
      fprintf(stderr, "cuBLAS Error: %d %s %d\n", stat, file, line);
      exit(1);
   }
}

#define curandErrCheck(stat) { curandErrCheck_((stat), __FILE__, __LINE__); }
void curandErrCheck_(curandStatus_t stat, const char *file, int line) {
   if (stat != CURAND_STATUS_SUCCESS) {
      fprintf(stderr, "cuRand Error: %d %s %d\n", stat, file, line);
      exit(1);
   }
}

using namespace nvcuda;

// Must be multiples of 16 for wmma code to work
#define MATRIX_M 2064
#define MATRIX_N 1040
#define MATRIX_K 1024

// The only dimensions currently supported by WMMA
const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// Performs an MxNxK GEMM (C=alpha*A*B + beta*C), one warp per output tile.
//  blockDim.x must be a multiple of warpSize.
__global__ void wmma_example(half *a, half *b, float *c, int M, int N, int K, float alpha, float beta) {
   // Leading dimensions. Packed with no transpositions.
   int lda = M;
   int ldb = K;
   int ldc = M;

   // Tile using a 2D grid
   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

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
         // Load the inputs
         wmma::load_matrix_sync(a_frag, a + aRow + aCol * lda, lda);
         wmma::load_matrix_sync(b_frag, b + bRow + bCol * ldb, ldb);

         // Perform the matrix multiplication
         wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }
   }

   // Load in the current value of c, scale it by beta, and add this our result scaled by alpha
   int cRow = warpM * WMMA_M;
   int cCol = warpN * WMMA_N;

   if (cRow < M && cCol < N) {
      wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);

      for (int i = 0; i < c_frag.num_elements; i++) {
         c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      }

      // Store the output
      wmma::store_matrix_sync(c + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
   }
}

// The same with 2x2 tiles per warp.  The tiles on the far edges may be outside of the
// matrix when M or N is an odd number of tiles; those are neither loaded nor stored.
__global__ void wmma_example_2x2(const half *a, const half *b, float *c,
                                 int M, int N, int K, float alpha, float beta) {
   int lda = M;
   int ldb = K;
   int ldc = M;

   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

   int row0 = warpM * (2 * WMMA_M);
   int col0 = warpN * (2 * WMMA_N);

   if (row0 >= M || col0 >= N) return;

   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag[2];
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag[2];
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag[2][2];

   for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++)
         wmma::fill_fragment(acc_frag[i][j], 0.0f);

   const bool rowOk = row0 + WMMA_M < M;   // is the second row of tiles there?
   const bool colOk = col0 + WMMA_N < N;

   for (int k = 0; k < K; k += WMMA_K) {
      wmma::load_matrix_sync(a_frag[0], a + row0 + k * lda, lda);
      wmma::load_matrix_sync(b_frag[0], b + k + col0 * ldb, ldb);
      if (rowOk) wmma::load_matrix_sync(a_frag[1], a + row0 + WMMA_M + k * lda, lda);
      if (colOk) wmma::load_matrix_sync(b_frag[1], b + k + (col0 + WMMA_N) * ldb, ldb);

      wmma::mma_sync(acc_frag[0][0], a_frag[0], b_frag[0], acc_frag[0][0]);
      if (colOk) wmma::mma_sync(acc_frag[0][1], a_frag[0], b_frag[1], acc_frag[0][1]);
      if (rowOk) wmma::mma_sync(acc_frag[1][0], a_frag[1], b_frag[0], acc_frag[1][0]);
      if (rowOk && colOk) wmma::mma_sync(acc_frag[1][1], a_frag[1], b_frag[1], acc_frag[1][1]);
   }

   for (int i = 0; i < 2; i++) {
      for (int j = 0; j < 2; j++) {
         int cRow = row0 + i * WMMA_M;
         int cCol = col0 + j * WMMA_N;
         if (cRow >= M || cCol >= N) continue;

         wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;
         float *cTile = c + cRow + cCol * ldc;
         wmma::load_matrix_sync(c_frag, cTile, ldc, wmma::mem_col_major);
         for (int t = 0; t < c_frag.num_elements; t++) {
            c_frag.x[t] = alpha * acc_frag[i][j].x[t] + beta * c_frag.x[t];
         }
         wmma::store_matrix_sync(cTile, c_frag, ldc, wmma::mem_col_major);
      }
   }
}

__global__ void convertFp32ToFp16(half *out, float *in, int n) {
   int idx = blockDim.x * blockIdx.x + threadIdx.x;
   if (idx < n) {
      out[idx] = in[idx];
   }
}

// Use tolerance for numerical differences.  Returns the number of mismatches.
static int compare(const char *name, const float *got, const float *want, size_t n) {
   int errors = 0;
   for (size_t i = 0; i < n; i++) {
      float v1 = got[i];
      float v2 = want[i];
      float diff = fabsf(v1 - v2);
      float relative_err = diff / fabsf(v2);
      if (!(relative_err < 1e-3f || diff < 1e-4f)) {
         if (errors < 10) printf("%s: %zu  %f %f\n", name, i, v1, v2);
         errors++;
      }
   }
   if (errors > 0) printf("%s does not agree with cuBLAS! %d errors!\n", name, errors);
   else            printf("%s: results verified.\n", name);
   return errors;
}

int main(int argc, char *argv[]) {
   float *a_fp32, *b_fp32;
   half *a_fp16, *b_fp16;
   float *c, *c_cublas, *c_wmma, *c_wmma2;

   const size_t nA = (size_t)MATRIX_M * MATRIX_K;
   const size_t nB = (size_t)MATRIX_K * MATRIX_N;
   const size_t nC = (size_t)MATRIX_M * MATRIX_N;

   curandGenerator_t gen;
   cublasHandle_t cublasHandle;
   cudaEvent_t start, stop;

   cudaErrCheck(cudaEventCreate(&start));
   cudaErrCheck(cudaEventCreate(&stop));
   cublasErrCheck(cublasCreate(&cublasHandle));

   cudaErrCheck(cudaMalloc((void**)&a_fp32, nA * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&b_fp32, nB * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&a_fp16, nA * sizeof(half)));
   cudaErrCheck(cudaMalloc((void**)&b_fp16, nB * sizeof(half)));
   cudaErrCheck(cudaMalloc((void**)&c, nC * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&c_cublas, nC * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&c_wmma, nC * sizeof(float)));
   cudaErrCheck(cudaMalloc((void**)&c_wmma2, nC * sizeof(float)));

   float *h_cublas = (float*)malloc(nC * sizeof(float));
   float *h_wmma = (float*)malloc(nC * sizeof(float));

   curandErrCheck(curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_DEFAULT));
   curandErrCheck(curandSetPseudoRandomGeneratorSeed(gen, 1337ULL));
   curandErrCheck(curandGenerateUniform(gen, a_fp32, nA));
   curandErrCheck(curandGenerateUniform(gen, b_fp32, nB));
   curandErrCheck(curandGenerateUniform(gen, c, nC));
   curandErrCheck(curandDestroyGenerator(gen));

   // curand doesn't currently support fp16 so we generate in fp32 and convert to fp16.
   convertFp32ToFp16 <<< (nA + 255) / 256, 256 >>> (a_fp16, a_fp32, nA);
   convertFp32ToFp16 <<< (nB + 255) / 256, 256 >>> (b_fp16, b_fp32, nB);

   cudaErrCheck(cudaMemcpy(c_cublas, c, nC * sizeof(float), cudaMemcpyDeviceToDevice));
   cudaErrCheck(cudaMemcpy(c_wmma, c, nC * sizeof(float), cudaMemcpyDeviceToDevice));
   cudaErrCheck(cudaMemcpy(c_wmma2, c, nC * sizeof(float), cudaMemcpyDeviceToDevice));

   float alpha = 2.0f;
   float beta = 2.0f;
   printf("\nM = %d, N = %d, K = %d. alpha = %f, beta = %f\n\n", MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);

   // blockDim.x must be a multiple of warpSize
   // 128x4 means we have 16 warps and a block computes a 64x64 output tile
   dim3 gridDim;
   dim3 blockDim;
   float ms;

   blockDim.x = 128;
   blockDim.y = 4;

   gridDim.x = (MATRIX_M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (MATRIX_N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);

   cudaErrCheck(cudaEventRecord(start));
   wmma_example <<< gridDim, blockDim >>> (a_fp16, b_fp16, c_wmma, MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);
   cudaErrCheck(cudaEventRecord(stop));
   cudaErrCheck(cudaEventSynchronize(stop));
   cudaErrCheck(cudaEventElapsedTime(&ms, start, stop));
   printf("wmma 1x1 took %fms\n", ms);

   // here the block computes 128x128
   gridDim.x = (MATRIX_M + (2 * WMMA_M * blockDim.x / 32 - 1)) / (2 * WMMA_M * blockDim.x / 32);
   gridDim.y = (MATRIX_N + 2 * WMMA_N * blockDim.y - 1) / (2 * WMMA_N * blockDim.y);

   cudaErrCheck(cudaEventRecord(start));
   wmma_example_2x2 <<< gridDim, blockDim >>> (a_fp16, b_fp16, c_wmma2, MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);
   cudaErrCheck(cudaEventRecord(stop));
   cudaErrCheck(cudaEventSynchronize(stop));
   cudaErrCheck(cudaEventElapsedTime(&ms, start, stop));
   printf("wmma 2x2 took %fms\n", ms);

   cudaErrCheck(cudaEventRecord(start));
   cublasErrCheck(cublasGemmEx(cublasHandle, CUBLAS_OP_N, CUBLAS_OP_N,
                MATRIX_M, MATRIX_N, MATRIX_K,
                &alpha,
                a_fp16, CUDA_R_16F, MATRIX_M,
                b_fp16, CUDA_R_16F, MATRIX_K,
                &beta,
                c_cublas, CUDA_R_32F, MATRIX_M,
                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
   cudaErrCheck(cudaEventRecord(stop));
   cudaErrCheck(cudaEventSynchronize(stop));
   cudaErrCheck(cudaEventElapsedTime(&ms, start, stop));
   printf("cublas   took %fms\n\n", ms);

   // Error checking
   int errors = 0;
   cudaErrCheck(cudaMemcpy(h_cublas, c_cublas, nC * sizeof(float), cudaMemcpyDeviceToHost));
   cudaErrCheck(cudaMemcpy(h_wmma, c_wmma, nC * sizeof(float), cudaMemcpyDeviceToHost));
   errors += compare("wmma 1x1", h_wmma, h_cublas, nC);
   cudaErrCheck(cudaMemcpy(h_wmma, c_wmma2, nC * sizeof(float), cudaMemcpyDeviceToHost));
   errors += compare("wmma 2x2", h_wmma, h_cublas, nC);

   cudaErrCheck(cudaEventDestroy(start));
   cudaErrCheck(cudaEventDestroy(stop));
   cublasErrCheck(cublasDestroy(cublasHandle));

   cudaErrCheck(cudaFree(a_fp32));
   cudaErrCheck(cudaFree(b_fp32));
   cudaErrCheck(cudaFree(a_fp16));
   cudaErrCheck(cudaFree(b_fp16));
   cudaErrCheck(cudaFree(c));
   cudaErrCheck(cudaFree(c_cublas));
   cudaErrCheck(cudaFree(c_wmma));
   cudaErrCheck(cudaFree(c_wmma2));
   free(h_cublas);
   free(h_wmma);

   cudaErrCheck(cudaDeviceReset());
   return errors != 0;
}
