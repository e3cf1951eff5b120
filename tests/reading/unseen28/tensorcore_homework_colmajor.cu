/* CS 5234 - Homework 3: using Tensor Cores
 *
 * Computes D = alpha * A * B + beta * C for column-major matrices, like cublasGemmEx.
 * Started from the "simple Tensor Core GEMM" example of the NVIDIA developer blog.
 */
#include <stdio.h>
#include <stdlib.h>
#include <math.h>
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
      exit(1);
   }
}

// Must be multiples of 16 for the wmma code to work
#define MATRIX_M 192
#define MATRIX_N 160
#define MATRIX_K 96

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// Performs an MxNxK GEMM (C=alpha*A*B + beta*C) assuming:
//  1) Matrices are packed in memory.
//  2) M, N and K are multiples of 16.
//  3) Neither A nor B are transposed.
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

__global__ void convertFp32ToFp16(half *out, float *in, int n) {
   int idx = blockDim.x * blockIdx.x + threadIdx.x;
   if (idx < n) {
      out[idx] = __float2half(in[idx]);
   }
}

// CPU check, column major
float host_element(float *a, float *b, float *c, int row, int col, float alpha, float beta) {
   float sum = 0.0f;
   for (int k = 0; k < MATRIX_K; k++) {
      float x = __half2float(__float2half(a[row + k * MATRIX_M]));
      float y = __half2float(__float2half(b[k + col * MATRIX_K]));
      sum += x * y;
   }
   return alpha * sum + beta * c[row + col * MATRIX_M];
}

float *random_matrix(int n) {
   float *p = (float *)malloc(n * sizeof(float));
   for (int i = 0; i < n; i++) p[i] = (float)rand() / RAND_MAX - 0.5f;
   return p;
}

int main(int argc, char *argv[]) {
   float *a_fp32, *b_fp32, *c_wmma;
   half *a_fp16, *b_fp16;
   float alpha = 2.0f;
   float beta = 3.0f;

   srand(1337);
   float *a_host = random_matrix(MATRIX_M * MATRIX_K);
   float *b_host = random_matrix(MATRIX_K * MATRIX_N);
   float *c_host = random_matrix(MATRIX_M * MATRIX_N);
   float *c_host_wmma = (float *)malloc(MATRIX_M * MATRIX_N * sizeof(float));

   cudaErrCheck(cudaMalloc((void **)&a_fp32, MATRIX_M * MATRIX_K * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&b_fp32, MATRIX_K * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&a_fp16, MATRIX_M * MATRIX_K * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&b_fp16, MATRIX_K * MATRIX_N * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&c_wmma, MATRIX_M * MATRIX_N * sizeof(float)));

   cudaErrCheck(cudaMemcpy(a_fp32, a_host, MATRIX_M * MATRIX_K * sizeof(float), cudaMemcpyHostToDevice));
   cudaErrCheck(cudaMemcpy(b_fp32, b_host, MATRIX_K * MATRIX_N * sizeof(float), cudaMemcpyHostToDevice));
   cudaErrCheck(cudaMemcpy(c_wmma, c_host, MATRIX_M * MATRIX_N * sizeof(float), cudaMemcpyHostToDevice));

   convertFp32ToFp16<<<(MATRIX_M * MATRIX_K + 255) / 256, 256>>>(a_fp16, a_fp32, MATRIX_M * MATRIX_K);
   convertFp32ToFp16<<<(MATRIX_K * MATRIX_N + 255) / 256, 256>>>(b_fp16, b_fp32, MATRIX_K * MATRIX_N);

   printf("\nM = %d, N = %d, K = %d. alpha = %f, beta = %f\n\n", MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);

   // First: using WMMA
   dim3 gridDim;
   dim3 blockDim;

   // blockDim.x must be a multiple of warpSize
   // 128x4 means we have 16 warps and a block computes a 64x64 output tile
   blockDim.x = 128;
   blockDim.y = 4;

   gridDim.x = (MATRIX_M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (MATRIX_N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);

   wmma_example<<<gridDim, blockDim>>>(a_fp16, b_fp16, c_wmma, MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);
   cudaErrCheck(cudaGetLastError());
   cudaErrCheck(cudaMemcpy(c_host_wmma, c_wmma, MATRIX_M * MATRIX_N * sizeof(float), cudaMemcpyDeviceToHost));

   int errors = 0;
   for (int col = 0; col < MATRIX_N; col++) {
      for (int row = 0; row < MATRIX_M; row++) {
         float expected = host_element(a_host, b_host, c_host, row, col, alpha, beta);
         float got = c_host_wmma[row + col * MATRIX_M];
         if (fabsf(expected - got) > 1e-3f * fmaxf(1.0f, fabsf(expected))) {
            errors++;
            if (errors < 10) printf("(%d, %d): expected %f got %f\n", row, col, expected, got);
         }
      }
   }
   printf(errors ? "WMMA does not agree with the CPU!\n" : "Results verified.\n");

   free(a_host); free(b_host); free(c_host); free(c_host_wmma);
   cudaFree(a_fp32); cudaFree(b_fp32); cudaFree(a_fp16); cudaFree(b_fp16); cudaFree(c_wmma);
   return errors != 0;
}
