// Tensor core GEMM sample: D = alpha * A * B + beta * C
//
// A is M x K row major, B is K x N column major, C and D are M x N row major.
// Every block of eight warps works on a 128 x 128 tile of D; the slices of A and B go through shared memory with a
// skew that keeps bank conflicts away.

#include <assert.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>

#define checkCudaErrors(val) check((val), #val, __FILE__, __LINE__)
static void check(cudaError_t result, char const *const func, const char *const file, int const line) {
  if (result) {
    fprintf(stderr, "CUDA error at %s:%d code=%d(%s) \"%s\" \n", file, line, static_cast<unsigned int>(result),
            cudaGetErrorName(result), func);
    exit(EXIT_FAILURE);
  }
}

// MMA matrix tile dimensions.
#define M 16
#define N 16
#define K 16

// GEMM configuration, in tiles.
#define M_TILES 16
#define N_TILES 8
#define K_TILES 8

#define M_GLOBAL (M * M_TILES)
#define N_GLOBAL (N * N_TILES)
#define K_GLOBAL (K * K_TILES)

#define WARP_SIZE 32
#define WARPS_PER_BLOCK 8
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)

#define CHUNK_K 4
#define BLOCK_ROW_TILES 8
#define BLOCK_COL_TILES 8
#define SKEW_HALF 16
#define SHMEM_LD (CHUNK_K * K + SKEW_HALF)

using namespace nvcuda;

__host__ void init_host_matrices(half *a, half *b, float *c) {
  for (int i = 0; i < M_GLOBAL; i++) {
    for (int j = 0; j < K_GLOBAL; j++) {
      a[i * K_GLOBAL + j] = (half)(float)(rand() % 3);
    }
  }
  for (int i = 0; i < N_GLOBAL; i++) {
    for (int j = 0; j < K_GLOBAL; j++) {
      b[i * K_GLOBAL + j] = (half)(float)(rand() % 3);
    }
  }
  for (int t = 0; t < M_GLOBAL * N_GLOBAL; t++) {
    c[t] = static_cast<float>(rand() % 3);
  }
}

__global__ void compute_gemm(const half *A, const half *B, const float *C, float *D, float alpha, float beta) {
  extern __shared__ half shmem[];
  half(*shA)[SHMEM_LD] = reinterpret_cast<half(*)[SHMEM_LD]>(shmem);
  half(*shB)[SHMEM_LD] = shA + BLOCK_ROW_TILES * M;

  const unsigned int warpId = threadIdx.x / WARP_SIZE;
  const unsigned int blocksPerRow = N_TILES / BLOCK_COL_TILES;

  for (unsigned int block_pos = blockIdx.x;; block_pos += gridDim.x) {
    const unsigned int block_tile_i = (block_pos / blocksPerRow) * BLOCK_ROW_TILES;
    const unsigned int block_tile_j = (block_pos % blocksPerRow) * BLOCK_COL_TILES;
    // Stop when there are no more D matrix tiles to compute.
    if (block_tile_i >= M_TILES) {
      break;
    }

    wmma::fragment<wmma::accumulator, M, N, K, float> c[BLOCK_COL_TILES];
#pragma unroll
    for (int j = 0; j < BLOCK_COL_TILES; j++) {
      const float *tile_ptr = C + (block_tile_i + warpId) * M * N_GLOBAL + (block_tile_j + j) * N;
      wmma::load_matrix_sync(c[j], tile_ptr, N_GLOBAL, wmma::mem_row_major);
      for (int t = 0; t < c[j].num_elements; t++) {
        c[j].x[t] *= beta / alpha;
      }
    }

#pragma unroll 1
    for (int tile_k = 0; tile_k < K_TILES; tile_k += CHUNK_K) {
      // 128 rows of 64 halves each, 8 vectors of 16 bytes to the row
      for (int v = threadIdx.x; v < 128 * 8; v += THREADS_PER_BLOCK) {
        int r = v / 8, piece = v % 8;
        *((int4 *)&shA[r][piece * 8]) =
            *((const int4 *)&A[(block_tile_i * M + r) * K_GLOBAL + tile_k * K + piece * 8]);
        *((int4 *)&shB[r][piece * 8]) =
            *((const int4 *)&B[(block_tile_j * N + r) * K_GLOBAL + tile_k * K + piece * 8]);
      }
      __syncthreads();

#pragma unroll
      for (int k_step = 0; k_step < CHUNK_K; k_step++) {
        wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, &shA[warpId * M][k_step * K], SHMEM_LD);
#pragma unroll
        for (int j = 0; j < BLOCK_COL_TILES; j++) {
          wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::col_major> b;
          wmma::load_matrix_sync(b, &shB[j * N][k_step * K], SHMEM_LD);
          wmma::mma_sync(c[j], a, b, c[j]);
        }
      }
      __syncthreads();
    }

#pragma unroll
    for (int j = 0; j < BLOCK_COL_TILES; j++) {
      for (int t = 0; t < c[j].num_elements; t++) {
        c[j].x[t] *= alpha;
      }
      float *tile_ptr = D + (block_tile_i + warpId) * M * N_GLOBAL + (block_tile_j + j) * N;
      wmma::store_matrix_sync(tile_ptr, c[j], N_GLOBAL, wmma::mem_row_major);
    }
  }
}

__host__ void matMultiplyOnHost(half *A, half *B, float *C, float alpha, float beta, int numARows, int numAColumns,
                                int numBColumns) {
  for (int i = 0; i < numARows; i++) {
    for (int j = 0; j < numBColumns; j++) {
      float temp = 0.0;
      for (int k = 0; k < numAColumns; k++) {
        temp += (float)A[i * numAColumns + k] * (float)B[j * numAColumns + k];
      }
      C[i * numBColumns + j] = temp * alpha + beta * C[i * numBColumns + j];
    }
  }
}

int main(int argc, char **argv) {
  printf("Initializing...\n");

  half *A_h = (half *)malloc(sizeof(half) * M_GLOBAL * K_GLOBAL);
  half *B_h = (half *)malloc(sizeof(half) * K_GLOBAL * N_GLOBAL);
  float *C_h = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);
  float *result_hD = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);
  float *result_host = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);

  half *A = NULL, *B = NULL;
  float *C = NULL, *D = NULL;
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&A), sizeof(half) * M_GLOBAL * K_GLOBAL));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&B), sizeof(half) * N_GLOBAL * K_GLOBAL));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&C), sizeof(float) * M_GLOBAL * N_GLOBAL));
  checkCudaErrors(cudaMalloc(reinterpret_cast<void **>(&D), sizeof(float) * M_GLOBAL * N_GLOBAL));

  init_host_matrices(A_h, B_h, C_h);
  checkCudaErrors(cudaMemcpy(A, A_h, sizeof(half) * M_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemcpy(B, B_h, sizeof(half) * N_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemcpy(C, C_h, sizeof(float) * M_GLOBAL * N_GLOBAL, cudaMemcpyHostToDevice));
  checkCudaErrors(cudaMemset(D, 0, sizeof(float) * M_GLOBAL * N_GLOBAL));

  const float alpha = 1.1f;
  const float beta = 1.2f;
  const size_t SHMEM_SZ = sizeof(half) * (BLOCK_ROW_TILES * M + BLOCK_COL_TILES * N) * SHMEM_LD;
  printf("Required shared memory size: %lu Kb\n", SHMEM_SZ / 1024UL);

  checkCudaErrors(cudaFuncSetAttribute(compute_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SHMEM_SZ));
  cudaDeviceProp deviceProp;
  checkCudaErrors(cudaGetDeviceProperties(&deviceProp, 0));
  compute_gemm<<<deviceProp.multiProcessorCount, THREADS_PER_BLOCK, SHMEM_SZ>>>(A, B, C, D, alpha, beta);
  checkCudaErrors(cudaGetLastError());
  checkCudaErrors(cudaMemcpy(result_hD, D, sizeof(float) * M_GLOBAL * N_GLOBAL, cudaMemcpyDeviceToHost));

  memcpy(result_host, C_h, sizeof(float) * M_GLOBAL * N_GLOBAL);
  matMultiplyOnHost(A_h, B_h, result_host, alpha, beta, M_GLOBAL, K_GLOBAL, N_GLOBAL);
  int bad = 0;
  for (int i = 0; i < N_GLOBAL * M_GLOBAL; i++) {
    if (fabs(result_hD[i] - result_host[i]) > 0.1f) {
      bad++;
    }
  }
  printf("%s\n", bad ? "FAILED" : "PASSED");

  free(A_h); free(B_h); free(C_h); free(result_hD); free(result_host);
  cudaFree(A); cudaFree(B); cudaFree(C); cudaFree(D);
  return bad != 0;
}
