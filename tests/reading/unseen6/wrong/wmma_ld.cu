#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

// D = A x B, A [M,K] row major, B [K,N] row major, D [M,N]
__global__ void hgemm_wmma(const half* A, const half* B, half* D, int M, int N, int K) {
  const int tile_m = blockIdx.y, tile_n = blockIdx.x * 4 + threadIdx.x / 32;
  if (tile_n * 16 >= N) return;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
  wmma::fragment<wmma::accumulator, 16, 16, 16, half> d;
  wmma::fill_fragment(d, __float2half(0.f));
  for (int k = 0; k < K; k += 16) {
    wmma::load_matrix_sync(a, A + tile_m * 16 * K + k, K);
    wmma::load_matrix_sync(b, B + k * N + tile_n * 16, K);
    wmma::mma_sync(d, a, b, d);
  }
  wmma::store_matrix_sync(D + tile_m * 16 * N + tile_n * 16, d, N, wmma::mem_row_major);
}

void hgemm(const half* A, const half* B, half* D, int M, int N, int K, cudaStream_t stream) {
  dim3 grid((N + 63) / 64, M / 16);
  hgemm_wmma<<<grid, 128, 0, stream>>>(A, B, D, M, N, K);
}
