// nvcc -arch=sm_80 usage_main_bf16.cu -o bf16gemm && ./bf16gemm 512 512 512
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

__global__ void gemm_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int M, int N, int K) {
  const int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
  const int warpN = blockIdx.y * blockDim.y + threadIdx.y;
  if (warpM * 16 >= M || warpN * 16 >= N) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
  wmma::fill_fragment(c, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + warpM * 16 * K + k, K);
    wmma::load_matrix_sync(b, B + warpN * 16 * K + k, K);
    wmma::mma_sync(c, a, b, c);
  }
  wmma::store_matrix_sync(C + warpM * 16 * N + warpN * 16, c, N, wmma::mem_row_major);
}

int main(int argc, char** argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: %s M N K\n", argv[0]);
    return 1;
  }
  int M = atoi(argv[1]), N = atoi(argv[2]), K = atoi(argv[3]);
  if (M % 16 || N % 16 || K % 16) { fprintf(stderr, "sizes must be multiples of 16\n"); return 1; }
  size_t na = (size_t)M * K, nb = (size_t)N * K, nc = (size_t)M * N;
  __nv_bfloat16 *hA = new __nv_bfloat16[na], *hB = new __nv_bfloat16[nb];
  float* hC = new float[nc];
  for (size_t i = 0; i < na; i++) hA[i] = __float2bfloat16(((int)(i * 7 % 13) - 6) / 6.f);
  for (size_t i = 0; i < nb; i++) hB[i] = __float2bfloat16(((int)(i * 5 % 11) - 5) / 5.f);
  __nv_bfloat16 *dA, *dB; float* dC;
  cudaMalloc(&dA, na * 2); cudaMalloc(&dB, nb * 2); cudaMalloc(&dC, nc * 4);
  cudaMemcpy(dA, hA, na * 2, cudaMemcpyHostToDevice);
  cudaMemcpy(dB, hB, nb * 2, cudaMemcpyHostToDevice);
  dim3 block(128, 4), grid((M + 63) / 64, (N + 63) / 64);
  gemm_bf16<<<grid, block>>>(dA, dB, dC, M, N, K);
  cudaMemcpy(hC, dC, nc * 4, cudaMemcpyDeviceToHost);
  double worst = 0;
  for (int i = 0; i < M; i += 17) for (int j = 0; j < N; j += 13) {
    double s = 0;
    for (int k = 0; k < K; k++) s += (double)__bfloat162float(hA[(size_t)i * K + k]) * __bfloat162float(hB[(size_t)j * K + k]);
    worst = fmax(worst, fabs(s - hC[(size_t)i * N + j]));
  }
  printf("max error %g\n", worst);
  return worst < 1e-2 ? 0 : 2;
}
