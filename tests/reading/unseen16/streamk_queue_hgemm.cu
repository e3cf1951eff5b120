// Persistent HGEMM with a work queue: blocks draw tile numbers from an atomic counter until none is left.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

#define TM 64
#define TN 64
#define TK 32

__device__ int g_next_tile;

__global__ void __launch_bounds__(128) hgemm_queue(const half *__restrict__ A, const half *__restrict__ B, half *__restrict__ C,
                                                   int M, int N, int K, int *next_tile) {
  __shared__ half As[TM * TK];
  __shared__ half Bs[TK * TN];
  __shared__ int tile;
  const int tiles_n = N / TN, tiles = (M / TM) * tiles_n;
  const int warp = threadIdx.x / 32;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next_tile, 1);
    __syncthreads();
    const int mine = tile;
    if (mine >= tiles) break;
    const int m0 = mine / tiles_n * TM, n0 = mine % tiles_n * TN;
    wmma::fragment<wmma::accumulator, 16, 16, 16, half> acc[4];
    for (int i = 0; i < 4; i++) wmma::fill_fragment(acc[i], __float2half(0.f));
    for (int k0 = 0; k0 < K; k0 += TK) {
      for (int i = threadIdx.x * 8; i < TM * TK; i += 128 * 8)
        *(uint4 *)&As[i] = *(const uint4 *)&A[(size_t)(m0 + i / TK) * K + k0 + i % TK];
      for (int i = threadIdx.x * 8; i < TK * TN; i += 128 * 8)
        *(uint4 *)&Bs[i] = *(const uint4 *)&B[(size_t)(k0 + i / TN) * N + n0 + i % TN];
      __syncthreads();
      for (int k = 0; k < TK; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::load_matrix_sync(a, As + warp * 16 * TK + k, TK);
        for (int j = 0; j < 4; j++) {
          wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
          wmma::load_matrix_sync(b, Bs + k * TN + j * 16, TN);
          wmma::mma_sync(acc[j], a, b, acc[j]);
        }
      }
      __syncthreads();
    }
    for (int j = 0; j < 4; j++)
      wmma::store_matrix_sync(C + (size_t)(m0 + warp * 16) * N + n0 + j * 16, acc[j], N, wmma::mem_row_major);
  }
}

void hgemm(const half *A, const half *B, half *C, int M, int N, int K, int *counter, cudaStream_t stream) {
  int dev, sms;
  cudaGetDevice(&dev);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, dev);
  cudaMemsetAsync(counter, 0, sizeof(int), stream);
  hgemm_queue<<<2 * sms, 128, 0, stream>>>(A, B, C, M, N, K, counter);
}
