#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

// Persistent GEMM: as many blocks as there are SMs fetch tiles from a counter until none is left.

__device__ unsigned int g_next_tile;

__global__ void reset_counter() { g_next_tile = 0; }

template <typename T, int TILE_M, int TILE_N>
__global__ void __launch_bounds__(TILE_M / 16 * 32) persistent_gemm(const T* __restrict__ a, const T* __restrict__ b,
                                                                    float* __restrict__ c, const int m, const int n,
                                                                    const int k) {
  using namespace nvcuda;
  __shared__ unsigned int s_tile;
  const unsigned int tiles_n = n / TILE_N, tiles = (m / TILE_M) * tiles_n;
  const int warp = threadIdx.x / warpSize;
  for (;;) {
    if (threadIdx.x == 0) s_tile = atomicAdd(&g_next_tile, 1u);
    __syncthreads();
    const unsigned int tile = s_tile;
    __syncthreads();
    if (tile >= tiles) break;
    const int row = tile / tiles_n * TILE_M + warp * 16;
    const int col = tile % tiles_n * TILE_N;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[TILE_N / 16];
#pragma unroll
    for (auto& f : acc) wmma::fill_fragment(f, 0.f);
    for (int kk = 0; kk < k; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
      wmma::load_matrix_sync(fa, a + static_cast<long>(row) * k + kk, k);
#pragma unroll
      for (int j = 0; j < TILE_N / 16; ++j) {
        wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major> fb;
        wmma::load_matrix_sync(fb, b + static_cast<long>(kk) * n + col + 16 * j, n);
        wmma::mma_sync(acc[j], fa, fb, acc[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < TILE_N / 16; ++j)
      wmma::store_matrix_sync(c + static_cast<long>(row) * n + col + 16 * j, acc[j], n, wmma::mem_row_major);
  }
}

template __global__ void persistent_gemm<half, 64, 32>(const half*, const half*, float*, int, int, int);

void persistent_hgemm(const half* a, const half* b, float* c, int m, int n, int k, cudaStream_t stream = 0) {
  int device, sms;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  reset_counter<<<1, 1, 0, stream>>>();
  persistent_gemm<half, 64, 32><<<sms, 128, 0, stream>>>(a, b, c, m, n, k);
}
