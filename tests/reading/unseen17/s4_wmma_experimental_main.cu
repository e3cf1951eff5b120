#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;
using namespace nvcuda::wmma::experimental;

#define CUDA_CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(EXIT_FAILURE); } } while (0)

const int WMMA_M = 8, WMMA_N = 8, WMMA_K = 32;

// A: M x K signed 4-bit, row-major, eight to an int32; B: N x K likewise (column-major K x N). C: int32.
__global__ void s4_gemm(const int32_t *A, const int32_t *B, int *C, int M, int N, int K) {
  int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  int warpN = blockIdx.y * blockDim.y + threadIdx.y;
  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, precision::s4, wmma::row_major> a_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, precision::s4, wmma::col_major> b_frag;
  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, int> c_frag;
  wmma::fill_fragment(c_frag, 0);
  if (warpM * WMMA_M < M && warpN * WMMA_N < N) {
    for (int k = 0; k < K; k += WMMA_K) {
      wmma::load_matrix_sync(a_frag, A + (warpM * WMMA_M * K + k) / 8, K);
      wmma::load_matrix_sync(b_frag, B + (warpN * WMMA_N * K + k) / 8, K);
      wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    wmma::store_matrix_sync(C + warpM * WMMA_M * N + warpN * WMMA_N, c_frag, N, wmma::mem_row_major);
  }
}

static int get_s4(const int32_t *p, int i) { return (int)((uint32_t)p[i / 8] << (28 - 4 * (i % 8))) >> 28; }

int main(int argc, char **argv) {
  int M = argc > 1 ? atoi(argv[1]) : 64, N = argc > 2 ? atoi(argv[2]) : 32, K = argc > 3 ? atoi(argv[3]) : 128;
  size_t bytesA = (size_t)M * K / 2, bytesB = (size_t)N * K / 2, bytesC = (size_t)M * N * sizeof(int);
  int32_t *hA = (int32_t *)malloc(bytesA), *hB = (int32_t *)malloc(bytesB);
  int *hC = (int *)malloc(bytesC);
  for (size_t i = 0; i < bytesA / 4; i++) hA[i] = rand() ^ (rand() << 16);
  for (size_t i = 0; i < bytesB / 4; i++) hB[i] = rand() ^ (rand() << 16);
  int32_t *dA, *dB;
  int *dC;
  CUDA_CHECK(cudaMalloc(&dA, bytesA));
  CUDA_CHECK(cudaMalloc(&dB, bytesB));
  CUDA_CHECK(cudaMalloc(&dC, bytesC));
  CUDA_CHECK(cudaMemcpy(dA, hA, bytesA, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dB, hB, bytesB, cudaMemcpyHostToDevice));
  dim3 block(128, 2);
  dim3 grid((M + WMMA_M * 4 - 1) / (WMMA_M * 4), (N + WMMA_N * 2 - 1) / (WMMA_N * 2));
  s4_gemm<<<grid, block>>>(dA, dB, dC, M, N, K);
  CUDA_CHECK(cudaGetLastError());
  CUDA_CHECK(cudaMemcpy(hC, dC, bytesC, cudaMemcpyDeviceToHost));
  int errors = 0;
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      int ref = 0;
      for (int k = 0; k < K; k++) ref += get_s4(hA, m * K + k) * get_s4(hB, n * K + k);
      if (ref != hC[m * N + n] && errors++ < 5) printf("C[%d][%d] = %d, expected %d\n", m, n, hC[m * N + n], ref);
    }
  printf(errors ? "FAILED (%d errors)\n" : "PASSED\n", errors);
  CUDA_CHECK(cudaFree(dA)); CUDA_CHECK(cudaFree(dB)); CUDA_CHECK(cudaFree(dC));
  free(hA); free(hB); free(hC);
  return errors ? 1 : 0;
}
