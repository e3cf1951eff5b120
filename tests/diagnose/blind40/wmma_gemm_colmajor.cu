/*
 * Assignment 4, part 3: GEMM with tensor cores (WMMA API)
 *
 *      D = alpha * A * B + beta * C
 *
 * All matrices are column major as in cuBLAS, A and B in half, C and D in float.
 * Based on the simple WMMA example of the "Programming Tensor Cores in CUDA 9" blog post (one warp = one 16x16 tile of D),
 * extended by
 *   - shared memory: a block of 8 warps works on a 64 x 32 tile of D, and A and B go through shared memory
 *   - double buffering: the next tiles are fetched while the current ones are multiplied
 *   - any M, N, K (the original assumed multiples of 16)
 */
#include <stdio.h>
#include <curand.h>
#include <cublas_v2.h>
#include <mma.h>
using namespace nvcuda;

#define cudaErrCheck(stat) { cudaErrCheck_((stat), __FILE__, __LINE__); }
void cudaErrCheck_(cudaError_t stat, const char *file, int line) {
   if (stat != cudaSuccess) {
      fprintf(stderr, "CUDA Error: %s %s %d\n", cudaGetErrorString(stat), file, line);
   }
}

// The only dimensions currently supported by WMMA
const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

const int WARPS_X = 4;                      // warps of a block along M (threadIdx.x / 32)
const int WARPS_Y = 2;                      // ... and along N (threadIdx.y)
const int BLOCK_THREADS = WARPS_X * WARPS_Y * 32;
const int TILE_M = WARPS_X * WMMA_M;        // 64
const int TILE_N = WARPS_Y * WMMA_N;        // 32
const int TILE_K = 32;
const int PAD = 8;                          // against bank conflicts; load_matrix_sync wants multiples of 8
const int LDAS = TILE_M + PAD;
const int LDBS = TILE_K + PAD;

// columns of A are contiguous: As[kk][mm]
__device__ void loadTileA(half *As, const half *a, int row0, int k0, int M, int K, int lda, int tid) {
   for (int i = tid; i < TILE_M * TILE_K; i += BLOCK_THREADS) {
      int mm = i % TILE_M;
      int kk = i / TILE_M;
      half val = __float2half(0.0f);
      if (row0 + mm < M && k0 + kk < K) {
         val = a[row0 + mm + (k0 + kk) * lda];
      }
      As[kk * LDAS + mm] = val;
   }
}

// columns of B are contiguous: Bs[nn][kk]
__device__ void loadTileB(half *Bs, const half *b, int k0, int col0, int K, int N, int ldb, int tid) {
   for (int i = tid; i < TILE_K * TILE_N; i += BLOCK_THREADS) {
      int kk = i % TILE_K;
      int nn = i / TILE_K;
      half val = __float2half(0.0f);
      if (k0 + kk < K && col0 + nn < N) {
         val = b[k0 + kk + (col0 + nn) * ldb];
      }
      Bs[nn * LDBS + kk] = val;
   }
}

__global__ void wmma_gemm_shared(half *a, half *b, float *c, float *d, int M, int N, int K, float alpha, float beta) {
   __shared__ __align__(32) half As[2][TILE_K * LDAS];
   __shared__ __align__(32) half Bs[2][TILE_N * LDBS];
   __shared__ __align__(32) float Cs[WARPS_X * WARPS_Y][WMMA_M * WMMA_N];   // tiles at the border only

   // Leading dimensions. Packed with no transpositions.
   int lda = M;
   int ldb = K;
   int ldc = M;

   int tid = threadIdx.y * blockDim.x + threadIdx.x;
   int lane = threadIdx.x % warpSize;
   int warpM = threadIdx.x / warpSize;
   int warpN = threadIdx.y;
   int row0 = blockIdx.x * TILE_M;
   int col0 = blockIdx.y * TILE_N;

   // Declare the fragments
   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::col_major> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> c_frag;

   wmma::fill_fragment(acc_frag, 0.0f);

   int buf = 0;
   loadTileA(As[buf], a, row0, 0, M, K, lda, tid);
   loadTileB(Bs[buf], b, 0, col0, K, N, ldb, tid);
   __syncthreads();

   // Loop over k
   for (int k0 = 0; k0 < K; k0 += TILE_K) {
      if (k0 + TILE_K < K) {
         loadTileA(As[buf ^ 1], a, row0, k0 + TILE_K, M, K, lda, tid);
         loadTileB(Bs[buf ^ 1], b, k0 + TILE_K, col0, K, N, ldb, tid);
      }

      for (int kk = 0; kk < TILE_K; kk += WMMA_K) {
         // Load the inputs
         wmma::load_matrix_sync(a_frag, &As[buf][kk * LDAS + warpM * WMMA_M], LDAS);
         wmma::load_matrix_sync(b_frag, &Bs[buf][warpN * WMMA_N * LDBS + kk], LDBS);

         // Perform the matrix multiplication
         wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
      }

      __syncthreads();
      buf ^= 1;
   }

   // Load in the current value of c, scale it by beta, and add this our result scaled by alpha
   int cRow = row0 + warpM * WMMA_M;
   int cCol = col0 + warpN * WMMA_N;

   if (cRow + WMMA_M <= M && cCol + WMMA_N <= N && ldc % 8 == 0) {
      wmma::load_matrix_sync(c_frag, c + cRow + cCol * ldc, ldc, wmma::mem_col_major);

      for (int i = 0; i < c_frag.num_elements; i++) {
         c_frag.x[i] = alpha * acc_frag.x[i] + beta * c_frag.x[i];
      }

      // Store the output
      wmma::store_matrix_sync(d + cRow + cCol * ldc, c_frag, ldc, wmma::mem_col_major);
   } else {
      // a tile at the border (or columns that are not aligned): element by element
      float *Cw = Cs[warpN * WARPS_X + warpM];
      wmma::store_matrix_sync(Cw, acc_frag, WMMA_M, wmma::mem_col_major);
      __syncwarp();
      for (int i = lane; i < WMMA_M * WMMA_N; i += warpSize) {
         int row = cRow + i % WMMA_M;
         int col = cCol + i / WMMA_M;
         if (row < M && col < N) {
            d[row + col * ldc] = alpha * Cw[i] + beta * c[row + col * ldc];
         }
      }
   }
}

float run_wmma(half *a_fp16, half *b_fp16, float *c, float *d, int M, int N, int K, float alpha, float beta) {
   cudaEvent_t startWMMA, stopWMMA;
   cudaErrCheck(cudaEventCreate(&startWMMA));
   cudaErrCheck(cudaEventCreate(&stopWMMA));

   dim3 gridDim;
   dim3 blockDim;

   // 128x2 means we have 8 warps and a block computes a 64x32 output tile
   blockDim.x = WARPS_X * 32;
   blockDim.y = WARPS_Y;
   gridDim.x = (M + TILE_M - 1) / TILE_M;
   gridDim.y = (N + TILE_N - 1) / TILE_N;

   cudaErrCheck(cudaEventRecord(startWMMA));
   wmma_gemm_shared <<< gridDim, blockDim >>> (a_fp16, b_fp16, c, d, M, N, K, alpha, beta);
   cudaErrCheck(cudaEventRecord(stopWMMA));
   cudaErrCheck(cudaEventSynchronize(stopWMMA));

   float ms = 0.0f;
   cudaErrCheck(cudaEventElapsedTime(&ms, startWMMA, stopWMMA));
   return ms;
}
