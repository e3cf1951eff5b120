#include <assert.h>
#include <cuda.h>
#include <mma.h>
#include <stdio.h>
#define M 16
#define N 16
#define K 16
#define M_TILES 16
#define N_TILES 16
#define K_TILES 16
#define M_GLOBAL (M * M_TILES)
#define N_GLOBAL (N * N_TILES)
#define K_GLOBAL (K * K_TILES)
#define WARPS_PER_BLOCK 8
#define THREADS_PER_BLOCK (WARPS_PER_BLOCK * 32)
using namespace nvcuda;

// D = alpha * A x B + beta * C ; B is column-major
__global__ void compute_gemm(const half *A, const half *B, const float *C, float *D, float alpha, float beta) {
  const unsigned int warpId = threadIdx.x / 32;
  for (unsigned int tile = blockIdx.x * WARPS_PER_BLOCK + warpId; tile < M_TILES * N_TILES;
       tile += gridDim.x * WARPS_PER_BLOCK) {
    const unsigned int ti = tile / N_TILES, tj = tile % N_TILES;
    wmma::fragment<wmma::accumulator, M, N, K, float> c;
    wmma::load_matrix_sync(c, C + ti * M * N_GLOBAL + tj * N, N_GLOBAL, wmma::mem_row_major);
#pragma unroll
    for (int t = 0; t < c.num_elements; t++) c.x[t] *= beta / alpha;
    for (int tk = 0; tk < K_TILES; tk++) {
      wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::col_major> b;
      wmma::load_matrix_sync(a, A + ti * M * K_GLOBAL + tk * K, K_GLOBAL);
      wmma::load_matrix_sync(b, B + tj * N * K_GLOBAL + tk * K, K_GLOBAL);
      wmma::mma_sync(c, a, b, c);
    }
#pragma unroll
    for (int t = 0; t < c.num_elements; t++) c.x[t] *= alpha;
    wmma::store_matrix_sync(D + ti * M * N_GLOBAL + tj * N, c, N_GLOBAL, wmma::mem_row_major);
  }
}

__host__ void init_host_matrices(half *a, half *b, float *c) {
  for (int i = 0; i < M_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) a[i * K_GLOBAL + j] = (half)(rand() % 3);
  for (int i = 0; i < N_GLOBAL; i++)
    for (int j = 0; j < K_GLOBAL; j++) b[i * K_GLOBAL + j] = (half)(rand() % 3);
  for (int t = 0; t < M_GLOBAL * N_GLOBAL; t++) c[t] = static_cast<float>(rand() % 3);
}

int main(int argc, char **argv) {
  cudaDeviceProp deviceProp;
  cudaGetDeviceProperties(&deviceProp, 0);
  half *A_h = (half *)malloc(sizeof(half) * M_GLOBAL * K_GLOBAL);
  half *B_h = (half *)malloc(sizeof(half) * K_GLOBAL * N_GLOBAL);
  float *C_h = (float *)malloc(sizeof(float) * M_GLOBAL * N_GLOBAL);
  half *A = NULL; half *B = NULL; float *C = NULL; float *D = NULL;
  cudaMalloc((void **)&A, sizeof(half) * M_GLOBAL * K_GLOBAL);
  cudaMalloc((void **)&B, sizeof(half) * N_GLOBAL * K_GLOBAL);
  cudaMalloc((void **)&C, sizeof(float) * M_GLOBAL * N_GLOBAL);
  cudaMalloc((void **)&D, sizeof(float) * M_GLOBAL * N_GLOBAL);
  assert(((unsigned long long)A) % 128 == 0);
  init_host_matrices(A_h, B_h, C_h);
  cudaMemcpy(A, A_h, sizeof(half) * M_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice);
  cudaMemcpy(B, B_h, sizeof(half) * N_GLOBAL * K_GLOBAL, cudaMemcpyHostToDevice);
  cudaMemcpy(C, C_h, sizeof(float) * M_GLOBAL * N_GLOBAL, cudaMemcpyHostToDevice);
  cudaMemset(D, 0, sizeof(float) * M_GLOBAL * N_GLOBAL);
  const float alpha = 1.1f;
  const float beta = 1.2f;
  compute_gemm<<<deviceProp.multiProcessorCount, THREADS_PER_BLOCK>>>(A, B, C, D, alpha, beta);
  cudaDeviceSynchronize();
  return 0;
}
