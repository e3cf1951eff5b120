// 100 days of CUDA - Day 37: TF32 tensor cores
//
// Yesterday I did the fp16 version. Today: plain float inputs, tensor cores anyway.
// tf32 = 8 exponent bits + 10 mantissa bits, so the range of float with the
// precision of half. The fragment shape is 16x16x8 (only this one for tf32!).
//
// What I learned:
//  - you have to round every fragment element with __float_to_tf32 yourself,
//    otherwise the hardware just chops the lower bits off
//  - loading through shared memory lets me handle sizes that are not multiples of 16
//
//   nvcc -arch=sm_80 -o day37 day37_tf32_wmma.cu && ./day37

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define WM 16
#define WN 16
#define WK 8

#define CHECK_CUDA(e)                                                  \
  {                                                                    \
    cudaError_t _e = (e);                                              \
    if (_e != cudaSuccess) {                                           \
      printf("CUDA failure %s:%d: '%s'\n", __FILE__, __LINE__,         \
             cudaGetErrorString(_e));                                  \
      exit(1);                                                         \
    }                                                                  \
  }

// C[m x n] = A[m x k] * B[k x n], row-major, 256 threads = 8 warps
// warps are arranged 4 x 2, every warp computes 16 x 32 of the 64 x 64 tile
__global__ void matmul_tf32(const float* A, const float* B, float* C, int m, int n, int k) {
  __shared__ __align__(32) float As[TILE_M][TILE_K + 8];
  __shared__ __align__(32) float Bs[TILE_K][TILE_N + 8];
  __shared__ __align__(32) float Cs[TILE_M][TILE_N + 8];

  int tid = threadIdx.x;
  int warpId = tid / 32;
  int warpRow = warpId / 2;
  int warpCol = warpId % 2;
  int rowBase = blockIdx.y * TILE_M;
  int colBase = blockIdx.x * TILE_N;

  wmma::fragment<wmma::matrix_a, WM, WN, WK, wmma::precision::tf32, wmma::row_major> aFrag;
  wmma::fragment<wmma::matrix_b, WM, WN, WK, wmma::precision::tf32, wmma::row_major> bFrag;
  wmma::fragment<wmma::accumulator, WM, WN, WK, float> cFrag[2];
  for (int j = 0; j < 2; j++) wmma::fill_fragment(cFrag[j], 0.0f);

  for (int k0 = 0; k0 < k; k0 += TILE_K) {
    // 64 x 16 floats of A, 4 per thread. Out of range -> 0
    for (int i = tid; i < TILE_M * TILE_K; i += blockDim.x) {
      int r = i / TILE_K, c = i % TILE_K;
      int gr = rowBase + r, gc = k0 + c;
      As[r][c] = (gr < m && gc < k) ? A[gr * k + gc] : 0.0f;
    }
    // 16 x 64 floats of B
    for (int i = tid; i < TILE_K * TILE_N; i += blockDim.x) {
      int r = i / TILE_N, c = i % TILE_N;
      int gr = k0 + r, gc = colBase + c;
      Bs[r][c] = (gr < k && gc < n) ? B[gr * n + gc] : 0.0f;
    }
    __syncthreads();

    for (int kk = 0; kk < TILE_K; kk += WK) {
      wmma::load_matrix_sync(aFrag, &As[warpRow * WM][kk], TILE_K + 8);
      for (int t = 0; t < aFrag.num_elements; t++) aFrag.x[t] = wmma::__float_to_tf32(aFrag.x[t]);
      for (int j = 0; j < 2; j++) {
        wmma::load_matrix_sync(bFrag, &Bs[kk][warpCol * 32 + j * WN], TILE_N + 8);
        for (int t = 0; t < bFrag.num_elements; t++) bFrag.x[t] = wmma::__float_to_tf32(bFrag.x[t]);
        wmma::mma_sync(cFrag[j], aFrag, bFrag, cFrag[j]);
      }
    }
    __syncthreads();
  }

  // go through shared memory so that the edges can be cut off
  for (int j = 0; j < 2; j++)
    wmma::store_matrix_sync(&Cs[warpRow * WM][warpCol * 32 + j * WN], cFrag[j], TILE_N + 8,
                            wmma::mem_row_major);
  __syncthreads();
  for (int i = tid; i < TILE_M * TILE_N; i += blockDim.x) {
    int r = i / TILE_N, c = i % TILE_N;
    if (rowBase + r < m && colBase + c < n) C[(rowBase + r) * n + colBase + c] = Cs[r][c];
  }
}

void matmul_cpu(const float* A, const float* B, float* C, int m, int n, int k) {
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < n; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += (double)A[i * k + l] * B[l * n + j];
      C[i * n + j] = (float)sum;
    }
  }
}

int main() {
  const int m = 250, n = 190, k = 300;  // ugly sizes on purpose
  float *A = new float[m * k], *B = new float[k * n], *C = new float[m * n], *R = new float[m * n];
  for (int i = 0; i < m * k; i++) A[i] = rand() / (float)RAND_MAX - 0.5f;
  for (int i = 0; i < k * n; i++) B[i] = rand() / (float)RAND_MAX - 0.5f;

  float *dA, *dB, *dC;
  CHECK_CUDA(cudaMalloc(&dA, m * k * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&dB, k * n * sizeof(float)));
  CHECK_CUDA(cudaMalloc(&dC, m * n * sizeof(float)));
  CHECK_CUDA(cudaMemcpy(dA, A, m * k * sizeof(float), cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(dB, B, k * n * sizeof(float), cudaMemcpyHostToDevice));

  dim3 threads(256);
  dim3 blocks((n + TILE_N - 1) / TILE_N, (m + TILE_M - 1) / TILE_M);

  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaEventRecord(start);
  matmul_tf32<<<blocks, threads>>>(dA, dB, dC, m, n, k);
  cudaEventRecord(stop);
  CHECK_CUDA(cudaGetLastError());
  CHECK_CUDA(cudaEventSynchronize(stop));
  float ms;
  cudaEventElapsedTime(&ms, start, stop);

  CHECK_CUDA(cudaMemcpy(C, dC, m * n * sizeof(float), cudaMemcpyDeviceToHost));
  matmul_cpu(A, B, R, m, n, k);

  float maxErr = 0.0f;
  for (int i = 0; i < m * n; i++) maxErr = fmaxf(maxErr, fabsf(C[i] - R[i]));
  printf("%d x %d x %d: %.3f ms, max abs error %g\n", m, n, k, ms, maxErr);
  printf(maxErr < 2e-2f ? "Result correct!\n" : "Result WRONG!\n");

  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  delete[] A;
  delete[] B;
  delete[] C;
  delete[] R;
  return 0;
}
