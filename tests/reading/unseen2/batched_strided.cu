#include <cuda_fp16.h>
#include <mma.h>
#include <cstdint>

namespace wm = nvcuda::wmma;

template <typename T>
struct Acc { using type = float; };

template <typename T, int WARPS_M = 2, int WARPS_N = 2>
__global__ void batched_gemm_kernel(int m, int n, int k, const T* __restrict__ A, int lda, int64_t strideA,
                                    const T* __restrict__ B, int ldb, int64_t strideB, T* __restrict__ C, int ldc,
                                    int64_t strideC) {
  const T* a_ptr = A + blockIdx.z * strideA;
  const T* b_ptr = B + blockIdx.z * strideB;
  T* c_ptr = C + blockIdx.z * strideC;
  __shared__ float scratch[WARPS_M * WARPS_N][256];
  const int wid = threadIdx.x >> 5;
  const int tm = (blockIdx.y * WARPS_M + wid / WARPS_N) * 16;
  const int tn = (blockIdx.x * WARPS_N + wid % WARPS_N) * 16;
  if (tm < m && tn < n) {
    wm::fragment<wm::accumulator, 16, 16, 16, typename Acc<T>::type> acc;
    wm::fill_fragment(acc, 0.0f);
    for (int p = 0; p < k; p += 16) {
      wm::fragment<wm::matrix_a, 16, 16, 16, T, wm::row_major> fa;
      wm::fragment<wm::matrix_b, 16, 16, 16, T, wm::row_major> fb;
      wm::load_matrix_sync(fa, a_ptr + tm * lda + p, lda);
      wm::load_matrix_sync(fb, b_ptr + p * ldb + tn, ldb);
      wm::mma_sync(acc, fa, fb, acc);
    }
    wm::store_matrix_sync(scratch[wid], acc, 16, wm::mem_row_major);
    __syncwarp();
    for (int e = threadIdx.x & 31; e < 256; e += 32)
      c_ptr[(tm + e / 16) * ldc + tn + e % 16] = static_cast<T>(scratch[wid][e]);
  }
}

extern "C" int batched_hgemm(cudaStream_t stream, int batch_count, int m, int n, int k, const __half* A,
                             const __half* B, __half* C) {
  constexpr int TM = 32, TN = 32;
  dim3 grid((n + TN - 1) / TN, (m + TM - 1) / TM, batch_count);
  batched_gemm_kernel<__half><<<grid, 128, 0, stream>>>(m, n, k, A, k, (int64_t)m * k, B, n, (int64_t)k * n, C, n,
                                                         (int64_t)m * n);
  return static_cast<int>(cudaGetLastError());
}
