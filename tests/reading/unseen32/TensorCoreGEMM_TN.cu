/* Based on the "Programming Tensor Cores in CUDA 9" example, extended to all four
 * storage orders of A and B.  C and D are column-major like in BLAS.
 *
 *     D = alpha * op(A) * op(B) + beta * C
 *
 * nvcc -o TCGemm -arch=sm_70 -lcublas -lcurand TensorCoreGEMM_TN.cu
 */
#include <stdio.h>
#include <math.h>
#include <curand.h>
#include <cublas_v2.h>
#include <type_traits>

// Define some error checking macros.
#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
   }
}

#define cublasErrCheck(stat) { cublasErrCheck_((stat), __FILE__, __LINE__); }
void cublasErrCheck_(cublasStatus_t stat, const char *file, int line) {
   if (stat != CUBLAS_STATUS_SUCCESS) {
      fprintf(stderr, "cuBLAS Error: %d %s %d\n", stat, file, line);
   }
}

#define curandErrCheck(stat) { curandErrCheck_((stat), __FILE__, __LINE__); }
void curandErrCheck_(curandStatus_t stat, const char *file, int line) {
   if (stat != CURAND_STATUS_SUCCESS) {
      fprintf(stderr, "cuRand Error: %d %s %d\n", stat, file, line);
   }
}

#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// Must be multiples of 16 for wmma code to work
#define MATRIX_M 2048
#define MATRIX_N 1536
#define MATRIX_K 1024

// The only dimensions currently supported by WMMA
const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

// Performs an MxNxK GEMM assuming:
//  1) Matrices are packed in memory.
//  2) M, N and K are multiples of 16.
// LayoutA == col_major: A is M x K column-major (op N), row_major: stored transposed (op T); the same for B (K x N).
template <typename LayoutA, typename LayoutB>
__global__ void wmma_gemm(const half *a, const half *b, float *c, int M, int N, int K, float alpha, float beta) {
   constexpr bool aCol = std::is_same<LayoutA, wmma::col_major>::value;
   constexpr bool bCol = std::is_same<LayoutB, wmma::col_major>::value;

   // Leading dimensions. Packed.
   const int lda = aCol ? M : K;
   const int ldb = bCol ? K : N;
   const int ldc = M;

   // Tile using a 2D grid
   const int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   const int warpN = (blockIdx.y * blockDim.y + threadIdx.y);

   const int row = warpM * WMMA_M;
   const int col = warpN * WMMA_N;
   if (row >= M || col >= N) return;

   // Declare the fragments
   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, LayoutA> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, LayoutB> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

   wmma::fill_fragment(acc_frag, 0.0f);

   // Loop over k
   for (int i = 0; i < K; i += WMMA_K) {
      const half *aPtr = aCol ? a + row + (size_t)i * lda : a + (size_t)row * lda + i;
      const half *bPtr = bCol ? b + i + (size_t)col * ldb : b + (size_t)i * ldb + col;

      // Load the inputs
      wmma::load_matrix_sync(a_frag, aPtr, lda);
      wmma::load_matrix_sync(b_frag, bPtr, ldb);

      // Perform the matrix multiplication
      wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
   }

   // Load in the current value of c, scale it by beta, and add this our result scaled by alpha
   float *cPtr = c + row + (size_t)col * ldc;
   wmma::load_matrix_sync(c_frag, cPtr, ldc, wmma::mem_col_major);

#pragma unroll
   for (int i = 0; i < c_frag.num_elements; i++) {
      c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
   }

   // Store the output
   wmma::store_matrix_sync(cPtr, c_frag, ldc, wmma::mem_col_major);
}

__global__ void convertFp32ToFp16(half *out, float *in, int n) {
   int idx = blockDim.x * blockIdx.x + threadIdx.x;
   if (idx < n) {
      out[idx] = in[idx];
   }
}

template <typename LayoutA, typename LayoutB>
int runCase(const char *name, cublasHandle_t handle, const half *a, const half *b, const float *c, float *c_cublas,
            float *c_wmma, float *host_cublas, float *host_wmma) {
   const float alpha = 2.0f, beta = 0.5f;
   const bool aCol = std::is_same<LayoutA, wmma::col_major>::value;
   const bool bCol = std::is_same<LayoutB, wmma::col_major>::value;
   const size_t bytes = (size_t)MATRIX_M * MATRIX_N * sizeof(float);

   cudaErrCheck(cudaMemcpy(c_cublas, c, bytes, cudaMemcpyDeviceToDevice));
   cudaErrCheck(cudaMemcpy(c_wmma, c, bytes, cudaMemcpyDeviceToDevice));

   dim3 gridDim, blockDim;
   // blockDim.x must be a multple of warpSize
   // 128x4 means we have 16 warps and a block computes a 64x64 output tile
   blockDim.x = 128;
   blockDim.y = 4;
   gridDim.x = (MATRIX_M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (MATRIX_N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
   wmma_gemm<LayoutA, LayoutB><<<gridDim, blockDim>>>(a, b, c_wmma, MATRIX_M, MATRIX_N, MATRIX_K, alpha, beta);
   cudaErrCheck(cudaGetLastError());

   cublasErrCheck(cublasGemmEx(handle, aCol ? CUBLAS_OP_N : CUBLAS_OP_T, bCol ? CUBLAS_OP_N : CUBLAS_OP_T,
                               MATRIX_M, MATRIX_N, MATRIX_K, &alpha,
                               a, CUDA_R_16F, aCol ? MATRIX_M : MATRIX_K,
                               b, CUDA_R_16F, bCol ? MATRIX_K : MATRIX_N, &beta,
                               c_cublas, CUDA_R_32F, MATRIX_M, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));

   cudaErrCheck(cudaMemcpy(host_wmma, c_wmma, bytes, cudaMemcpyDeviceToHost));
   cudaErrCheck(cudaMemcpy(host_cublas, c_cublas, bytes, cudaMemcpyDeviceToHost));

   // 0.01% relative tolerance. 1e-5 absolute tolerance.
   int errors = 0;
   for (int i = 0; i < MATRIX_M * MATRIX_N; i++) {
      float v1 = host_wmma[i];
      float v2 = host_cublas[i];
      float diff = fabs(v1 - v2);
      float relative_err = diff / v2;
      if (relative_err >= 1e-4 && diff >= 1e-5) {
         errors++;
         if (errors < 10) printf("%f %f\n", v1, v2);
      }
   }
   printf("%s: %s (%d errors)\n", name, errors ? "WMMA does not agree with cuBLAS!" : "verified", errors);
   return errors;
}

int main(int argc, char *argv[]) {
   float *a_fp32, *b_fp32, *c, *c_cublas, *c_wmma;
   half *a_fp16, *b_fp16;

   curandGenerator_t gen;
   cublasHandle_t cublasHandle;
   cublasErrCheck(cublasCreate(&cublasHandle));
   cublasErrCheck(cublasSetMathMode(cublasHandle, CUBLAS_DEFAULT_MATH));

   cudaErrCheck(cudaMalloc((void **)&a_fp32, MATRIX_M * MATRIX_K * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&b_fp32, MATRIX_K * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&a_fp16, MATRIX_M * MATRIX_K * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&b_fp16, MATRIX_K * MATRIX_N * sizeof(half)));
   cudaErrCheck(cudaMalloc((void **)&c, MATRIX_M * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&c_cublas, MATRIX_M * MATRIX_N * sizeof(float)));
   cudaErrCheck(cudaMalloc((void **)&c_wmma, MATRIX_M * MATRIX_N * sizeof(float)));

   float *host_wmma = (float *)malloc(MATRIX_M * MATRIX_N * sizeof(float));
   float *host_cublas = (float *)malloc(MATRIX_M * MATRIX_N * sizeof(float));

   curandErrCheck(curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_DEFAULT));
   curandErrCheck(curandSetPseudoRandomGeneratorSeed(gen, 1337ULL));
   curandErrCheck(curandGenerateUniform(gen, a_fp32, MATRIX_M * MATRIX_K));
   curandErrCheck(curandGenerateUniform(gen, b_fp32, MATRIX_K * MATRIX_N));
   curandErrCheck(curandGenerateUniform(gen, c, MATRIX_M * MATRIX_N));

   // curand doesn't currently support fp16 so we generate in fp32 and convert to fp16.
   convertFp32ToFp16<<<(MATRIX_M * MATRIX_K + 255) / 256, 256>>>(a_fp16, a_fp32, MATRIX_M * MATRIX_K);
   convertFp32ToFp16<<<(MATRIX_K * MATRIX_N + 255) / 256, 256>>>(b_fp16, b_fp32, MATRIX_K * MATRIX_N);

   printf("\nM = %d, N = %d, K = %d\n\n", MATRIX_M, MATRIX_N, MATRIX_K);
   int bad = 0;
#define RUN(LA, LB) bad += runCase<wmma::LA, wmma::LB>(#LA " x " #LB, cublasHandle, a_fp16, b_fp16, c, c_cublas, c_wmma, host_cublas, host_wmma)
   RUN(col_major, col_major);
   RUN(col_major, row_major);
   RUN(row_major, col_major);
   RUN(row_major, row_major);
#undef RUN

   curandErrCheck(curandDestroyGenerator(gen));
   cublasErrCheck(cublasDestroy(cublasHandle));
   cudaErrCheck(cudaFree(a_fp32)); cudaErrCheck(cudaFree(b_fp32));
   cudaErrCheck(cudaFree(a_fp16)); cudaErrCheck(cudaFree(b_fp16));
   cudaErrCheck(cudaFree(c)); cudaErrCheck(cudaFree(c_cublas)); cudaErrCheck(cudaFree(c_wmma));
   free(host_wmma);
   free(host_cublas);
   cudaErrCheck(cudaDeviceReset());
   return bad != 0;
}
