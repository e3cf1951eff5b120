#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <stdio.h>
#include <stdlib.h>

using namespace nvcuda;

#define WARP_SIZE 32
#define WMMA_M 16
#define WMMA_N 16
#define WMMA_K 16

#define div_ceil(a, b) (((a) + (b)-1) / (b))
#define INT4(value) (reinterpret_cast<int4 *>(&(value))[0])

// V1: one warp computes one 16x16 tile of C, fragments straight from gmem
// A: MxK row major, B: KxN row major, C: MxN row major
// only for M, N, K multiples of 16
__global__ void hgemm_wmma_m16n16k16_naive_kernel(half *A, half *B, half *C,
                                                  int M, int N, int K) {
  const int NUM_K_TILES = div_ceil(K, WMMA_K);
  const int load_gmem_a_m = blockIdx.y * WMMA_M;
  const int load_gmem_b_n = blockIdx.x * WMMA_N;
  if (load_gmem_a_m >= M || load_gmem_b_n >= N)
    return;

  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, half> C_frag;
  wmma::fill_fragment(C_frag, 0.0);

  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> A_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> B_frag;

#pragma unroll
  for (int k = 0; k < NUM_K_TILES; ++k) {
    wmma::load_matrix_sync(A_frag, A + load_gmem_a_m * K + k * WMMA_K, K);
    wmma::load_matrix_sync(B_frag, B + (k * WMMA_K) * N + load_gmem_b_n, N);
    wmma::mma_sync(C_frag, A_frag, B_frag, C_frag);
  }
  wmma::store_matrix_sync(C + load_gmem_a_m * N + load_gmem_b_n, C_frag, N,
                          wmma::mem_row_major);
}

// V2: block tile 64x64 (4x2 warps, each 16x32), A and B tiles shared in smem
template <const int WMMA_TILE_M = 4, const int WMMA_TILE_N = 2, const int WARP_TILE_N = 2>
__global__ void hgemm_wmma_m16n16k16_mma4x2_kernel(half *A, half *B, half *C,
                                                   int M, int N, int K) {
  constexpr int BM = WMMA_M * WMMA_TILE_M;               // 64
  constexpr int BN = WMMA_N * WMMA_TILE_N * WARP_TILE_N; // 64
  constexpr int BK = 32;
  __shared__ __align__(32) half s_a[BM][BK + 8];
  __shared__ __align__(32) half s_b[BK][BN + 8];

  const int tid = threadIdx.x;
  const int warp_id = tid / WARP_SIZE;
  const int warp_m = warp_id / WMMA_TILE_N;
  const int warp_n = warp_id % WMMA_TILE_N;

  // 256 threads: s_a is 64x32 halfs -> 8 halfs a thread, s_b is 32x64 the same
  const int load_smem_a_m = tid / 4;
  const int load_smem_a_k = (tid % 4) * 8;
  const int load_smem_b_k = tid / 8;
  const int load_smem_b_n = (tid % 8) * 8;
  const int load_gmem_a_m = blockIdx.y * BM + load_smem_a_m;
  const int load_gmem_b_n = blockIdx.x * BN + load_smem_b_n;

  wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, half> C_frag[WARP_TILE_N];
#pragma unroll
  for (int j = 0; j < WARP_TILE_N; ++j)
    wmma::fill_fragment(C_frag[j], 0.0);

  wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> A_frag;
  wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> B_frag;

  for (int k = 0; k < K / BK; ++k) {
    INT4(s_a[load_smem_a_m][load_smem_a_k]) = INT4(A[load_gmem_a_m * K + k * BK + load_smem_a_k]);
    INT4(s_b[load_smem_b_k][load_smem_b_n]) = INT4(B[(k * BK + load_smem_b_k) * N + load_gmem_b_n]);
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += WMMA_K) {
      wmma::load_matrix_sync(A_frag, &s_a[warp_m * WMMA_M][kk], BK + 8);
#pragma unroll
      for (int j = 0; j < WARP_TILE_N; ++j) {
        wmma::load_matrix_sync(B_frag, &s_b[kk][(warp_n * WARP_TILE_N + j) * WMMA_N], BN + 8);
        wmma::mma_sync(C_frag[j], A_frag, B_frag, C_frag[j]);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < WARP_TILE_N; ++j) {
    const int store_gmem_c_m = blockIdx.y * BM + warp_m * WMMA_M;
    const int store_gmem_c_n = blockIdx.x * BN + (warp_n * WARP_TILE_N + j) * WMMA_N;
    wmma::store_matrix_sync(C + store_gmem_c_m * N + store_gmem_c_n, C_frag[j], N,
                            wmma::mem_row_major);
  }
}

void hgemm_wmma_m16n16k16_naive(half *A, half *B, half *C, int M, int N, int K) {
  dim3 block(WARP_SIZE);
  dim3 grid(div_ceil(N, WMMA_N), div_ceil(M, WMMA_M));
  hgemm_wmma_m16n16k16_naive_kernel<<<grid, block>>>(A, B, C, M, N, K);
}

void hgemm_wmma_m16n16k16_mma4x2(half *A, half *B, half *C, int M, int N, int K) {
  if (M % 64 || N % 64 || K % 32) {
    fprintf(stderr, "hgemm_wmma_m16n16k16_mma4x2: M, N must be multiples of 64, K of 32\n");
    exit(EXIT_FAILURE);
  }
  dim3 block(256);
  dim3 grid(N / 64, M / 64);
  hgemm_wmma_m16n16k16_mma4x2_kernel<4, 2, 2><<<grid, block>>>(A, B, C, M, N, K);
}
