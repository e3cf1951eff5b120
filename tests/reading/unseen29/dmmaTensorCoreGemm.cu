/* Copyright (c) 2021, All rights reserved.
 *
 * CUDA sample demonstrating a double precision GEMM computation using the Warp
 * Matrix Multiply and Accumulate API introduced for compute capability 8.0.
 *
 * The sample computes
 *
 *        D = alpha * A * B + beta * C
 *
 * where A is M_GLOBAL x K_GLOBAL row major, B is K_GLOBAL x N_GLOBAL column major and
 * C and D are M_GLOBAL x N_GLOBAL row major.
 *
 * Each CTA computes one 64 x 64 tile of D. It has 8 warps; each of them computes
 * eight 8 x 8 subtiles, organized in a 2 x 4 array:
 *
 *       warp 0   warp 1
 *       warp 2   warp 3
 *       warp 4   warp 5
 *       warp 6   warp 7
 *
 * The A and B tiles are copied to shared memory CHUNK_K wmma tiles at a time.
 */

#include <assert.h>
#include <mma.h>
#include <stdio.h>

// helper functions and utilities to work with CUDA
#include <helper_cuda.h>
#include <helper_functions.h>

// GPU configuration.
#define WARP_SIZE 32

// MMA matrix tile dimensions.
#define M 8
#define N 8
#define K 4

// GEMM configuration.
#define M_TILES 64
#define N_TILES 48
#define K_TILES 160

#define M_GLOBAL (M * M_TILES)
#define N_GLOBAL (N * N_TILES)
#define K_GLOBAL (K * K_TILES)

#define BLOCK_ROW_WARPS 2
#define BLOCK_COL_WARPS 4
#define WARP_ROW_TILES 4
#define WARP_COL_TILES 2

#define WARPS_PER_BLOCK (BLOCK_ROW_WARPS * BLOCK_COL_WARPS)
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)

#define BLOCK_ROWS (BLOCK_COL_WARPS * WARP_COL_TILES * M)
#define BLOCK_COLS (BLOCK_ROW_WARPS * WARP_ROW_TILES * N)

#define CHUNK_K 4

// Shift the rows of the shared memory tiles by 4 doubles (32 bytes) so that the
// fragment loads start in different banks; also keeps every row 32-byte aligned.
#define SKEW_DOUBLE 4
#define SHMEM_LD (CHUNK_K * K + SKEW_DOUBLE)

using namespace nvcuda;

__host__ void init_host_matrices(double *a, double *b, double *c) {
  for (int i = 0; i < M_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) a[i * K_GLOBAL + j] = (double)(rand() % 3);
  for (int i = 0; i < N_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) b[i * K_GLOBAL + j] = (double)(rand() % 3);
  for (int t = 0; t < M_GLOBAL * N_GLOBAL; t++) c[t] = (double)(rand() % 3);
}

__global__ void compute_dgemm(const double *A, const double *B, const double *C, double *D, double alpha,
                              double beta) {
  __shared__ __align__(32) double shmem_a[BLOCK_ROWS * SHMEM_LD];
  __shared__ __align__(32) double shmem_b[BLOCK_COLS * SHMEM_LD];

  const unsigned int warpId = threadIdx.x / WARP_SIZE;
  const unsigned int warp_row = (warpId / BLOCK_ROW_WARPS) * WARP_COL_TILES * M;
  const unsigned int warp_col = (warpId % BLOCK_ROW_WARPS) * WARP_ROW_TILES * N;

  // Each CTA slides along the tiles of D until there is none left.
  const unsigned int tiles_n = N_GLOBAL / BLOCK_COLS;
  const unsigned int tiles = tiles_n * (M_GLOBAL / BLOCK_ROWS);
  for (unsigned int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const size_t block_i = (tile / tiles_n) * BLOCK_ROWS;
    const size_t block_j = (tile % tiles_n) * BLOCK_COLS;

    wmma::fragment<wmma::accumulator, M, N, K, double> acc[WARP_COL_TILES][WARP_ROW_TILES];

    // Load C and scale it by beta / alpha, so that the result only has to be multiplied by alpha.
    const size_t tile_offset = (block_i + warp_row) * N_GLOBAL + block_j + warp_col;
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
        wmma::load_matrix_sync(acc[i][j], C + tile_offset + i * M * N_GLOBAL + j * N, N_GLOBAL,
                               wmma::mem_row_major);
#pragma unroll
        for (int t = 0; t < acc[i][j].num_elements; t++) acc[i][j].x[t] *= beta / alpha;
      }
    }

    for (int tile_k = 0; tile_k < K_TILES; tile_k += CHUNK_K) {
      // Copy a 64 x 16 slice of A and of B^T, two doubles (16 bytes) at a time.
      for (int idx = threadIdx.x; idx < BLOCK_ROWS * CHUNK_K * K / 2; idx += THREADS_PER_BLOCK) {
        const int row = idx / (CHUNK_K * K / 2);
        const int col = (idx % (CHUNK_K * K / 2)) * 2;
        *(double2 *)(shmem_a + row * SHMEM_LD + col) =
            *(const double2 *)(A + (block_i + row) * K_GLOBAL + tile_k * K + col);
      }
      for (int idx = threadIdx.x; idx < BLOCK_COLS * CHUNK_K * K / 2; idx += THREADS_PER_BLOCK) {
        const int row = idx / (CHUNK_K * K / 2);
        const int col = (idx % (CHUNK_K * K / 2)) * 2;
        *(double2 *)(shmem_b + row * SHMEM_LD + col) =
            *(const double2 *)(B + (block_j + row) * K_GLOBAL + tile_k * K + col);
      }
      __syncthreads();

      // Compute a grid of C matrix tiles in each warp.
#pragma unroll
      for (int k_step = 0; k_step < CHUNK_K; k_step++) {
        wmma::fragment<wmma::matrix_a, M, N, K, double, wmma::row_major> a[WARP_COL_TILES];
        wmma::fragment<wmma::matrix_b, M, N, K, double, wmma::col_major> b[WARP_ROW_TILES];

#pragma unroll
        for (int j = 0; j < WARP_ROW_TILES; j++)
          wmma::load_matrix_sync(b[j], shmem_b + (warp_col + j * N) * SHMEM_LD + k_step * K, SHMEM_LD);
#pragma unroll
        for (int i = 0; i < WARP_COL_TILES; i++) {
          wmma::load_matrix_sync(a[i], shmem_a + (warp_row + i * M) * SHMEM_LD + k_step * K, SHMEM_LD);
#pragma unroll
          for (int j = 0; j < WARP_ROW_TILES; j++) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
        }
      }
      __syncthreads();
    }

    // Scale by alpha and store the D fragments.
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
#pragma unroll
        for (int t = 0; t < acc[i][j].num_elements; t++) acc[i][j].x[t] *= alpha;
        wmma::store_matrix_sync(D + tile_offset + i * M * N_GLOBAL + j * N, acc[i][j], N_GLOBAL,
                                wmma::mem_row_major);
      }
    }
  }
}

__host__ void matMultiplyOnHost(const double *A, const double *B, double *C, double alpha, double beta) {
  for (int i = 0; i < M_GLOBAL; i++) {
    for (int j = 0; j < N_GLOBAL; j++) {
      double temp = 0.0;
      for (int k = 0; k < K_GLOBAL; k++) temp += A[i * K_GLOBAL + k] * B[j * K_GLOBAL + k];
      C[i * N_GLOBAL + j] = temp * alpha + beta * C[i * N_GLOBAL + j];
    }
  }
}

int main(int argc, char **argv) {
  printf("Initializing...\n");
  int dev = findCudaDevice(argc, (const char **)argv);
  cudaDeviceProp deviceProp;
  checkCudaErrors(cudaGetDeviceProperties(&deviceProp, dev));
  if (deviceProp.major < 8) {
    printf("dmmaTensorCoreGemm requires SM 8.0 or higher to use Tensor Cores. Exiting...\n");
    exit(EXIT_WAIVED);
  }
  printf("M: %d\nN: %d\nK: %d\n", M_GLOBAL, N_GLOBAL, K_GLOBAL);

  double *A_h = (double *)malloc(sizeof(double) * M_GLOBAL * K_GLOBAL);
  double *B_h = (double *)malloc(sizeof(double) * K_GLOBAL * N_GLOBAL);
  double *C_h = (double *)malloc(sizeof(double) * M_GLOBAL * N_GLOBAL);
  double *result_hD = (double *)malloc(sizeof(double) * M_GLOBAL * N_GLOBAL);
  double *A = NULL, *B = NULL, *C = NULL, *D = NULL;
  checkCudaErrors(cudaMalloc((void **)&A, sizeof(double) * M_GLOBAL * K_GLOBAL));
  checkCudaErrors(cudaMalloc((void **)&B, sizeof(double) * N_GLOBAL * K_GLOBAL));
  checkCudaErrors(cudaMalloc((void **)&C, sizeof(double) * M_GLOBAL * N_GLOBAL));
  checkCudaErrors(cudaMalloc((void **)&D, sizeof(double) * M_GLOBAL * N_GLOBAL));
  init_host_matrices(A_h, B_h, C_h);
  checkCudaErrors(cudaMemcpy(A, A_h, sizeof(double) * M_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemcpy(B, B_h, sizeof(double) * N_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemcpy(C, C_h, sizeof(double) * M_GLOBAL * N_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemset(D, 0, sizeof(double) * M_GLOBAL * N_GLOBAL));

  const double alpha = 1.1;
  const double beta = 1.2;
  cudaEvent_t start, stop;
  checkCudaErrors(cudaEventCreate(&start));
  checkCudaErrors(cudaEventCreate(&stop));
  checkCudaErrors(cudaEventRecord(start));
  compute_dgemm<<<deviceProp.multiProcessorCount, THREADS_PER_BLOCK>>>(A, B, C, D, alpha, beta);
  checkCudaErrors(cudaGetLastError());
  checkCudaErrors(cudaEventRecord(stop));
  checkCudaErrors(cudaEventSynchronize(stop));
  checkCudaErrors(cudaMemcpy(result_hD, D, sizeof(double) * M_GLOBAL * N_GLOBAL, cudaMemcpyDeviceToHost));

  matMultiplyOnHost(A_h, B_h, C_h, alpha, beta);
  size_t number_of_matches = 0;
  for (int i = 0; i < N_GLOBAL * M_GLOBAL; i++) {
    if (fabs(result_hD[i] - C_h[i]) > 1e-9 * fabs(C_h[i]) + 1e-9) {
      printf("mismatch i=%d result_hD=%f result_host=%f\n", i, result_hD[i], C_h[i]);
      break;
    }
    number_of_matches++;
  }
  printf("number_of_matches = %zu out of = %d\n", number_of_matches, N_GLOBAL * M_GLOBAL);

  float milliseconds = 0;
  checkCudaErrors(cudaEventElapsedTime(&milliseconds, start, stop));
  printf("Time: %f ms\n", milliseconds);
  printf("FP64 TFLOPS: %.2f\n", (((double)M_GLOBAL * N_GLOBAL * K_GLOBAL * 2) / (milliseconds / 1000.)) / 1e12);

  free(A_h); free(B_h); free(C_h); free(result_hD);
  cudaFree(A); cudaFree(B); cudaFree(C); cudaFree(D);
  return 0;
}
