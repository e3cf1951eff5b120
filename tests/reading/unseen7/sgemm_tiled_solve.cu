#include <cuda_runtime.h>
#define TILE_SIZE 16

__global__ void matrix_multiplication_kernel(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[TILE_SIZE][TILE_SIZE];
  __shared__ float Bs[TILE_SIZE][TILE_SIZE];
  int row = blockIdx.y * TILE_SIZE + threadIdx.y;
  int col = blockIdx.x * TILE_SIZE + threadIdx.x;
  float acc = 0.0f;
  for (int t = 0; t < (N + TILE_SIZE - 1) / TILE_SIZE; t++) {
    As[threadIdx.y][threadIdx.x] = (row < M && t * TILE_SIZE + threadIdx.x < N) ? A[row * N + t * TILE_SIZE + threadIdx.x] : 0.0f;
    Bs[threadIdx.y][threadIdx.x] = (t * TILE_SIZE + threadIdx.y < N && col < K) ? B[(t * TILE_SIZE + threadIdx.y) * K + col] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE_SIZE; i++) acc += As[threadIdx.y][i] * Bs[i][threadIdx.x];
    __syncthreads();
  }
  if (row < M && col < K) C[row * K + col] = acc;
}

// A is M x N, B is N x K, C is M x K
extern "C" void solve(const float* A, const float* B, float* C, int M, int N, int K) {
  dim3 threads(TILE_SIZE, TILE_SIZE);
  dim3 blocks((K + TILE_SIZE - 1) / TILE_SIZE, (M + TILE_SIZE - 1) / TILE_SIZE);
  matrix_multiplication_kernel<<<blocks, threads>>>(A, B, C, M, N, K);
  cudaDeviceSynchronize();
}
