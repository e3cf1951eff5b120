/* Half precision GEMM on tensor cores, D = alpha * A * B + beta * C.
 * A is row major, B is column major, C and D are row major.
 * Eight warps per CTA compute a 128x128 tile of D. */
#include <assert.h>
#include <cuda.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>
#include <math.h>

#define WARP_SIZE 32
#define M 16
#define N 16
#define K 16

#define M_TILES 16
#define N_TILES 16
#define K_TILES 8

#define M_GLOBAL (M * M_TILES)
#define N_GLOBAL (N * N_TILES)
#define K_GLOBAL (K * K_TILES)

#define C_LAYOUT wmma::mem_row_major

#define WARPS_PER_BLOCK 8
#define THREADS_PER_BLOCK (WARP_SIZE * WARPS_PER_BLOCK)
#define CHUNK_K 4
#define CHUNK_LINE_BYTES (CHUNK_K * K * sizeof(half))
#define WARP_COPY_BYTES (WARP_SIZE * sizeof(int4))
#define CHUNK_COPY_LINES_PER_WARP (WARP_COPY_BYTES / CHUNK_LINE_BYTES)
#define CHUNK_COPY_LINE_LANES (WARP_SIZE / CHUNK_COPY_LINES_PER_WARP)

#define BLOCK_ROW_WARPS 2
#define BLOCK_COL_WARPS 4
#define WARP_ROW_TILES 4
#define WARP_COL_TILES 2
#define BLOCK_ROW_TILES (WARP_ROW_TILES * BLOCK_ROW_WARPS)
#define BLOCK_COL_TILES (WARP_COL_TILES * BLOCK_COL_WARPS)

#define GLOBAL_MEM_STRIDE N_GLOBAL
#define SHMEM_STRIDE (N * BLOCK_ROW_TILES)
#define SHMEM_OFFSET (N * WARP_ROW_TILES)
#define SKEW_HALF 16

#define checkCuda(call)                                                                   \
  do {                                                                                    \
    cudaError_t err__ = (call);                                                           \
    if (err__ != cudaSuccess) {                                                           \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(err__));      \
      exit(EXIT_FAILURE);                                                                 \
    }                                                                                     \
  } while (0)

using namespace nvcuda;

__host__ void init_host_matrices(half *a, half *b, float *c) {
  for (int i = 0; i < M_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) a[i * K_GLOBAL + j] = (half)(rand() % 3);
  for (int i = 0; i < N_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) b[i * K_GLOBAL + j] = (half)(rand() % 3);
  for (int t = 0; t < M_GLOBAL * N_GLOBAL; t++) c[t] = (float)(rand() % 3);
}

__global__ void compute_gemm(const half *A, const half *B, const float *C, float *D, float alpha, float beta) {
  extern __shared__ half shmem[][CHUNK_K * K + SKEW_HALF];

  const unsigned int warpId = threadIdx.x / WARP_SIZE;
  const unsigned int laneId = threadIdx.x % WARP_SIZE;
  const size_t shmem_idx_b_off = BLOCK_COL_TILES * M;

  float *shmem_warp_tile_ptr =
      (float *)&shmem[0][0] + (warpId / 2) * SHMEM_STRIDE * K * 2 + (warpId % 2) * SHMEM_OFFSET;
  float *shmem_warp_stream_ptr = (float *)&shmem[0][0] + warpId * SHMEM_STRIDE * K;

  beta /= alpha;

  for (unsigned int block_pos = blockIdx.x;; block_pos += gridDim.x) {
    const unsigned int block_tile_i = ((block_pos * BLOCK_ROW_TILES) / N_TILES) * (BLOCK_COL_TILES);
    const unsigned int block_tile_j = (block_pos * BLOCK_COL_TILES) % N_TILES;
    if (block_tile_i >= M_TILES) break;

    const size_t gmem_idx = (block_tile_i + warpId) * M * GLOBAL_MEM_STRIDE + block_tile_j * N;
    const float *src_gmem_warp_stream_ptr = &C[gmem_idx];
#pragma unroll
    for (int i = 0; i < K; i++) {
      typedef int4 copy_t;
      *((copy_t *)(shmem_warp_stream_ptr + SHMEM_STRIDE * i) + laneId) =
          *((copy_t *)(src_gmem_warp_stream_ptr + GLOBAL_MEM_STRIDE * i) + laneId);
    }
    __syncthreads();

    wmma::fragment<wmma::accumulator, M, N, K, float> c[WARP_COL_TILES][WARP_ROW_TILES];
#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
        const float *tile_ptr = shmem_warp_tile_ptr + i * SHMEM_STRIDE * K + j * N;
        wmma::load_matrix_sync(c[i][j], tile_ptr, SHMEM_STRIDE, C_LAYOUT);
      }
    }
    __syncthreads();

#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++)
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++)
#pragma unroll
        for (int t = 0; t < c[i][j].num_elements; t++) c[i][j].x[t] *= beta;

    const half *warp_ptr = (warpId < 4) ? (&A[block_tile_i * M * K_GLOBAL] + M * K_GLOBAL * (warpId % 4) * 2)
                                        : (&B[block_tile_j * N * K_GLOBAL] + N * K_GLOBAL * (warpId % 4) * 2);

#pragma unroll
    for (int tile_k = 0; tile_k < K_TILES; tile_k += CHUNK_K) {
      size_t shmem_idx = warpId < (WARPS_PER_BLOCK / 2) ? (M * (warpId % (WARPS_PER_BLOCK / 2)) * 2)
                                                        : (N * (warpId % (WARPS_PER_BLOCK / 2)) * 2 + shmem_idx_b_off);
      int4 *lane_ptr = (int4 *)(warp_ptr + tile_k * K + (laneId / CHUNK_COPY_LINE_LANES) * K_GLOBAL) +
                       (laneId % CHUNK_COPY_LINE_LANES);
      shmem_idx += laneId / CHUNK_COPY_LINE_LANES;

#pragma unroll
      for (int i = 0; i < ((WARP_SIZE / 2) / CHUNK_COPY_LINES_PER_WARP) * 2; i++) {
        *((int4 *)&shmem[shmem_idx][0] + (laneId % CHUNK_COPY_LINE_LANES)) = *lane_ptr;
        lane_ptr = (int4 *)((half *)lane_ptr + K_GLOBAL * CHUNK_COPY_LINES_PER_WARP);
        shmem_idx += CHUNK_COPY_LINES_PER_WARP;
      }
      __syncthreads();

#pragma unroll
      for (int k_step = 0; k_step < CHUNK_K; k_step++) {
        wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> a[WARP_COL_TILES];
        wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::col_major> b[WARP_ROW_TILES];
#pragma unroll
        for (int i = 0; i < WARP_COL_TILES; i++) {
          size_t shmem_idx_a = (warpId / 2) * M * 2 + (i * M);
          wmma::load_matrix_sync(a[i], &shmem[shmem_idx_a][k_step * K], K * CHUNK_K + SKEW_HALF);
#pragma unroll
          for (int j = 0; j < WARP_ROW_TILES; j++) {
            if (i == 0) {
              size_t shmem_idx_b = shmem_idx_b_off + (WARP_ROW_TILES * N) * (warpId % 2) + (j * N);
              wmma::load_matrix_sync(b[j], &shmem[shmem_idx_b][k_step * K], K * CHUNK_K + SKEW_HALF);
            }
            wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
          }
        }
      }
      __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < WARP_COL_TILES; i++) {
#pragma unroll
      for (int j = 0; j < WARP_ROW_TILES; j++) {
#pragma unroll
        for (int t = 0; t < c[i][j].num_elements; t++) c[i][j].x[t] *= alpha;
        wmma::store_matrix_sync(shmem_warp_tile_ptr + i * SHMEM_STRIDE * K + j * N, c[i][j], SHMEM_STRIDE, C_LAYOUT);
      }
    }
    __syncthreads();

    float *dst_gmem_warp_stream_ptr = &D[gmem_idx];
#pragma unroll
    for (int i = 0; i < K; i++) {
      *((int4 *)(dst_gmem_warp_stream_ptr + GLOBAL_MEM_STRIDE * i) + laneId) =
          *((int4 *)(shmem_warp_stream_ptr + SHMEM_STRIDE * i) + laneId);
    }
    __syncthreads();
  }
}

__host__ void matMultiplyOnHost(half *A, half *B, float *C, float alpha, float beta, int numARows, int numAColumns,
                                int numBRows, int numBColumns, int numCRows, int numCColumns) {
  for (int i = 0; i < numCRows; i++) {
    for (int j = 0; j < numCColumns; j++) {
      float temp = 0.0;
      for (int k = 0; k < numAColumns; k++) temp += (float)A[i * numAColumns + k] * (float)B[j * numBRows + k];
      C[i * numCColumns + j] = temp * alpha + beta * C[i * numCColumns + j];
    }
  }
}

int main(int argc, char **argv) {
  printf("Initializing...\n");
  cudaDeviceProp deviceProp;
  checkCuda(cudaGetDeviceProperties(&deviceProp, 0));
  if (deviceProp.major < 7) {
    printf("SM 7.0 or higher is required for tensor cores. Exiting...\n");
    exit(EXIT_SUCCESS);
  }
  printf("M: %d (%d x %d)\n", M_GLOBAL, M, M_TILES);

  half *A_h = (half *)malloc(sizeof(half) * M_GLOBAL * K_GLOBAL);
  half *B_h = (half *)malloc(sizeof(half) * K_GLOBAL * N_GLOBAL);
  float *C_h = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);
  float *result_hD = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);
  float *result_host = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);

  half *A = NULL, *B = NULL;
  float *C = NULL, *D = NULL;
  checkCuda(cudaMalloc((void **)&A, sizeof(half) * M_GLOBAL * K_GLOBAL));
  checkCuda(cudaMalloc((void **)&B, sizeof(half) * N_GLOBAL * K_GLOBAL));
  checkCuda(cudaMalloc((void **)&C, sizeof(float) * M_GLOBAL * N_GLOBAL));
  checkCuda(cudaMalloc((void **)&D, sizeof(float) * M_GLOBAL * N_GLOBAL));
  assert(((unsigned long long)A) % 128 == 0);
  assert(((unsigned long long)D) % 128 == 0);

  init_host_matrices(A_h, B_h, C_h);
  checkCuda(cudaMemcpy(A, A_h, sizeof(half) * M_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(B, B_h, sizeof(half) * N_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice));
  checkCuda(cudaMemcpy(C, C_h, sizeof(float) * M_GLOBAL * N_GLOBAL, cudaMemcpyHostToDevice));
  checkCuda(cudaMemset(D, 0, sizeof(float) * M_GLOBAL * N_GLOBAL));

  enum {
    SHMEM_SZ = (sizeof(half) * (BLOCK_COL_TILES * M) * (CHUNK_K * K + SKEW_HALF) * 2) >
                       (M * (BLOCK_ROW_WARPS * WARP_ROW_TILES) * N * (BLOCK_COL_WARPS * WARP_COL_TILES) * sizeof(float))
                   ? (sizeof(half) * (BLOCK_COL_TILES * M) * (CHUNK_K * K + SKEW_HALF) * 2)
                   : (M * (BLOCK_ROW_WARPS * WARP_ROW_TILES) * N * (BLOCK_COL_WARPS * WARP_COL_TILES) * sizeof(float))
  };
  printf("Required shared memory size: %lu Kb\n", (unsigned long)SHMEM_SZ / 1024UL);

  const float alpha = 1.1f;
  const float beta = 1.2f;
  cudaEvent_t start, stop;
  checkCuda(cudaEventCreate(&start));
  checkCuda(cudaEventCreate(&stop));
  checkCuda(cudaEventRecord(start));
  if (deviceProp.sharedMemPerMultiprocessor >= SHMEM_SZ) {
    checkCuda(cudaFuncSetAttribute(compute_gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, SHMEM_SZ));
    compute_gemm<<<deviceProp.multiProcessorCount, THREADS_PER_BLOCK, SHMEM_SZ>>>(A, B, C, D, alpha, beta);
    checkCuda(cudaGetLastError());
  }
  checkCuda(cudaEventRecord(stop));
  checkCuda(cudaEventSynchronize(stop));
  checkCuda(cudaMemcpy(result_hD, D, sizeof(float) * M_GLOBAL * N_GLOBAL, cudaMemcpyDeviceToHost));

  printf("Verifying correctness of the computations...\n");
  memcpy(result_host, C_h, sizeof(float) * M_GLOBAL * N_GLOBAL);
  matMultiplyOnHost(A_h, B_h, result_host, alpha, beta, M_GLOBAL, K_GLOBAL, K_GLOBAL, N_GLOBAL, M_GLOBAL, N_GLOBAL);
  int mismatches = 0;
  for (int i = 0; i < N_GLOBAL * M_GLOBAL; i++) {
    if (fabs(result_hD[i] - result_host[i]) > 0.1f) {
      if (mismatches < 10) printf("mismatch i=%d result_hD=%f result_host=%f\n", i, result_hD[i], result_host[i]);
      mismatches++;
    }
  }
  float milliseconds = 0;
  checkCuda(cudaEventElapsedTime(&milliseconds, start, stop));
  printf("Time: %f ms\n", milliseconds);
  printf("TFLOPS: %.2f\n", (((double)M_GLOBAL * N_GLOBAL * K_GLOBAL * 2) / (milliseconds / 1000.)) / 1e12);
  free(A_h); free(B_h); free(C_h); free(result_hD); free(result_host);
  checkCuda(cudaFree(A)); checkCuda(cudaFree(B)); checkCuda(cudaFree(C)); checkCuda(cudaFree(D));
  return mismatches ? EXIT_FAILURE : EXIT_SUCCESS;
}
