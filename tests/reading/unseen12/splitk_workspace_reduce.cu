// Split-K GEMM: partial products go to a workspace, a second kernel adds them up and adds the bias.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

using namespace nvcuda;

#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))

template <int BM, int BN, int WARPS>
__global__ void gemm_splitk_partial(const half* A, const half* B, float* workspace, int M, int N, int K, int k_per_split) {
  const int warp = threadIdx.x / 32;
  const int tiles_n = BN / 16;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  const int k_begin = blockIdx.z * k_per_split;
  const int k_end = min(K, k_begin + k_per_split);

  float* ws = workspace + (size_t)blockIdx.z * M * N;
  for (int t = warp; t < (BM / 16) * tiles_n; t += WARPS) {
    const int r = m0 + t / tiles_n * 16, c = n0 + t % tiles_n * 16;
    if (r >= M || c >= N) continue;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    for (int k = k_begin; k < k_end; k += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
      wmma::load_matrix_sync(a, A + (size_t)r * K + k, K);
      wmma::load_matrix_sync(b, B + (size_t)k * N + c, N);
      wmma::mma_sync(acc, a, b, acc);
    }
    wmma::store_matrix_sync(ws + (size_t)r * N + c, acc, N, wmma::mem_row_major);
  }
}

__global__ void splitk_reduce_bias(const float* workspace, const half* bias, half* C, int M, int N, int splits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= M * N) return;
  float sum = 0.0f;
  for (int s = 0; s < splits; ++s) sum += workspace[(size_t)s * M * N + i];
  if (bias != nullptr) sum += __half2float(bias[i % N]);
  C[i] = __float2half(sum);
}

// A [M, K] row major, B [K, N] row major, C [M, N] row major; M, N, K multiples of 16
void gemm_splitk(const half* A, const half* B, const half* bias, half* C, int M, int N, int K, cudaStream_t stream) {
  constexpr int BM = 32, BN = 64, WARPS = 4;
  const int splits = K >= 1024 ? 4 : K >= 256 ? 2 : 1;
  const int k_per_split = CEIL_DIV(CEIL_DIV(K, splits), 16) * 16;

  float* workspace = nullptr;
  cudaMallocAsync((void**)&workspace, sizeof(float) * M * N * splits, stream);
  dim3 grid(CEIL_DIV(N, BN), CEIL_DIV(M, BM), splits);
  gemm_splitk_partial<BM, BN, WARPS><<<grid, WARPS * 32, 0, stream>>>(A, B, workspace, M, N, K, k_per_split);
  splitk_reduce_bias<<<CEIL_DIV(M * N, 256), 256, 0, stream>>>(workspace, bias, C, M, N, splits);
  cudaFreeAsync(workspace, stream);
}
