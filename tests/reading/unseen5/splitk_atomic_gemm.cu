// Split-K: gridDim.z slices of K, each adds its part to C with atomicAdd. C has to be cleared first.
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include <iostream>

using namespace nvcuda;

#define gpuErrchk(ans) { gpuAssert((ans), __FILE__, __LINE__); }
inline void gpuAssert(cudaError_t code, const char *file, int line, bool abort = true)
{
   if (code != cudaSuccess)
   {
      std::cerr << "GPUassert: " << cudaGetErrorString(code) << " " << file << ":" << line << std::endl;
      if (abort) exit(code);
   }
}

const int WMMA_M = 16;
const int WMMA_N = 16;
const int WMMA_K = 16;

__global__ void wmma_splitk(half *a, half *b, float *c, int M, int N, int K, int kPerSplit)
{
   // leading dimensions, packed with no transpositions
   int lda = K;
   int ldb = N;
   int ldc = N;

   int warpM = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
   int warpN = (blockIdx.y * blockDim.y + threadIdx.y);
   int kBegin = blockIdx.z * kPerSplit;
   int kEnd = min(K, kBegin + kPerSplit);

   wmma::fragment<wmma::matrix_a, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> a_frag;
   wmma::fragment<wmma::matrix_b, WMMA_M, WMMA_N, WMMA_K, half, wmma::row_major> b_frag;
   wmma::fragment<wmma::accumulator, WMMA_M, WMMA_N, WMMA_K, float> acc_frag;
   wmma::fill_fragment(acc_frag, 0.0f);

   int row = warpM * WMMA_M;
   int col = warpN * WMMA_N;
   if (row >= M || col >= N) return;

   for (int i = kBegin; i < kEnd; i += WMMA_K)
   {
      wmma::load_matrix_sync(a_frag, a + row * lda + i, lda);
      wmma::load_matrix_sync(b_frag, b + i * ldb + col, ldb);
      wmma::mma_sync(acc_frag, a_frag, b_frag, acc_frag);
   }

   __shared__ float tile[16][WMMA_M * WMMA_N];
   int slot = threadIdx.x / warpSize + (blockDim.x / warpSize) * threadIdx.y;
   wmma::store_matrix_sync(tile[slot], acc_frag, WMMA_N, wmma::mem_row_major);
   __syncwarp();
   for (int e = threadIdx.x % warpSize; e < WMMA_M * WMMA_N; e += warpSize)
   {
      atomicAdd(&c[(row + e / WMMA_N) * ldc + col + e % WMMA_N], tile[slot][e]);
   }
}

void launch_splitk(half *a, half *b, float *c, int M, int N, int K, int splits)
{
   int kPerSplit = ((K + splits - 1) / splits + WMMA_K - 1) / WMMA_K * WMMA_K;
   dim3 blockDim;
   dim3 gridDim;
   // 4 x 4 warps: a block computes 64 x 64
   blockDim.x = 128;
   blockDim.y = 4;
   gridDim.x = (M + (WMMA_M * blockDim.x / 32 - 1)) / (WMMA_M * blockDim.x / 32);
   gridDim.y = (N + WMMA_N * blockDim.y - 1) / (WMMA_N * blockDim.y);
   gridDim.z = splits;

   gpuErrchk(cudaMemset(c, 0, M * N * sizeof(float)));
   wmma_splitk<<<gridDim, blockDim>>>(a, b, c, M, N, K, kPerSplit);
   gpuErrchk(cudaPeekAtLastError());
}
