// hgemm_batched.cu
//
// Pointer-array batched HGEMM. The calling convention follows cublasGemmBatchedEx so that it can be dropped in
// where cuBLAS is slow (many tiny problems), but everything is ROW MAJOR:
//
//     C[i] = alpha * A[i] * B[i] + beta * C[i]        i = 0 .. batch_count-1
//
// A[i] is m x k (lda), B[i] is k x n (ldb), C[i] is m x n (ldc).
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

namespace smallblas {

#define SB_CUDA_TRY(expr)                                                                     \
  do {                                                                                        \
    cudaError_t _e = (expr);                                                                  \
    if (_e != cudaSuccess)                                                                    \
      throw std::runtime_error(std::string(#expr " failed: ") + cudaGetErrorString(_e));      \
  } while (0)

template <int BM_, int BN_, int BK_, int WM_, int WN_>
struct TileShape {
  static constexpr int BM = BM_, BN = BN_, BK = BK_;
  static constexpr int WM = WM_, WN = WN_;
  static constexpr int kWarpsM = BM / WM;
  static constexpr int kWarpsN = BN / WN;
  static constexpr int kThreads = kWarpsM * kWarpsN * 32;
  static constexpr int kPad = 8;
  static constexpr int kLdA = BK + kPad;
  static constexpr int kLdB = BN + kPad;
  static constexpr int kLdC = BN + 4;
  static constexpr size_t kStageBytes = (BM * kLdA + BK * kLdB) * sizeof(__half);
  static constexpr size_t kEpiBytes = BM * kLdC * sizeof(float);
  static constexpr size_t kSmem = kStageBytes > kEpiBytes ? kStageBytes : kEpiBytes;
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
hgemm_batched_kernel(int m, int n, int k, float alpha,
                     const __half* const* __restrict__ Aarray, int lda,
                     const __half* const* __restrict__ Barray, int ldb,
                     float beta, __half* const* __restrict__ Carray, int ldc) {
  using namespace nvcuda;
  extern __shared__ __align__(16) unsigned char smem_raw[];
  __half* sA = reinterpret_cast<__half*>(smem_raw);
  __half* sB = sA + Shape::BM * Shape::kLdA;
  float* sC = reinterpret_cast<float*>(smem_raw);

  const __half* __restrict__ A = Aarray[blockIdx.z];
  const __half* __restrict__ B = Barray[blockIdx.z];
  __half* __restrict__ C = Carray[blockIdx.z];

  const int m0 = blockIdx.y * Shape::BM;
  const int n0 = blockIdx.x * Shape::BN;
  const int warp = threadIdx.x >> 5;
  const int wm = (warp / Shape::kWarpsN) * Shape::WM;
  const int wn = (warp % Shape::kWarpsN) * Shape::WN;

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[Shape::WM / 16][Shape::WN / 16];
#pragma unroll
  for (auto& row : acc)
#pragma unroll
    for (auto& f : row) wmma::fill_fragment(f, 0.f);

  for (int kk = 0; kk < k; kk += Shape::BK) {
    for (int idx = threadIdx.x; idx < Shape::BM * Shape::BK; idx += Shape::kThreads) {
      const int r = idx / Shape::BK, c = idx % Shape::BK;
      const bool ok = (m0 + r < m) && (kk + c < k);
      sA[r * Shape::kLdA + c] = ok ? A[size_t(m0 + r) * lda + kk + c] : __half(0.f);
    }
    for (int idx = threadIdx.x; idx < Shape::BK * Shape::BN; idx += Shape::kThreads) {
      const int r = idx / Shape::BN, c = idx % Shape::BN;
      const bool ok = (kk + r < k) && (n0 + c < n);
      sB[r * Shape::kLdB + c] = ok ? B[size_t(kk + r) * ldb + n0 + c] : __half(0.f);
    }
    __syncthreads();
#pragma unroll
    for (int ks = 0; ks < Shape::BK; ks += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa[Shape::WM / 16];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb[Shape::WN / 16];
#pragma unroll
      for (int i = 0; i < Shape::WM / 16; ++i)
        wmma::load_matrix_sync(fa[i], sA + (wm + i * 16) * Shape::kLdA + ks, Shape::kLdA);
#pragma unroll
      for (int j = 0; j < Shape::WN / 16; ++j)
        wmma::load_matrix_sync(fb[j], sB + ks * Shape::kLdB + wn + j * 16, Shape::kLdB);
#pragma unroll
      for (int i = 0; i < Shape::WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < Shape::WN / 16; ++j) wmma::mma_sync(acc[i][j], fa[i], fb[j], acc[i][j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < Shape::WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < Shape::WN / 16; ++j)
      wmma::store_matrix_sync(sC + (wm + i * 16) * Shape::kLdC + wn + j * 16, acc[i][j], Shape::kLdC,
                              wmma::mem_row_major);
  __syncthreads();

  for (int idx = threadIdx.x; idx < Shape::BM * Shape::BN; idx += Shape::kThreads) {
    const int r = idx / Shape::BN, c = idx % Shape::BN;
    if (m0 + r >= m || n0 + c >= n) continue;
    __half* dst = C + size_t(m0 + r) * ldc + n0 + c;
    float v = alpha * sC[r * Shape::kLdC + c];
    if (beta != 0.f) v += beta * __half2float(*dst);
    *dst = __float2half(v);
  }
}

void hgemm_batched(cudaStream_t stream, int m, int n, int k, float alpha,
                   const __half* const* d_Aarray, int lda,
                   const __half* const* d_Barray, int ldb,
                   float beta, __half* const* d_Carray, int ldc, int batch_count) {
  if (m <= 0 || n <= 0 || batch_count <= 0) return;
  if (lda < k || ldb < n || ldc < n) throw std::invalid_argument("hgemm_batched: leading dimension too small");
  using Shape = TileShape<64, 64, 32, 32, 32>;
  const dim3 grid((n + Shape::BN - 1) / Shape::BN, (m + Shape::BM - 1) / Shape::BM, batch_count);
  hgemm_batched_kernel<Shape><<<grid, Shape::kThreads, Shape::kSmem, stream>>>(
      m, n, k, alpha, d_Aarray, lda, d_Barray, ldb, beta, d_Carray, ldc);
  SB_CUDA_TRY(cudaGetLastError());
}

// Convenience overload: host-side vectors of device pointers.
void hgemm_batched(cudaStream_t stream, int m, int n, int k, float alpha,
                   const std::vector<const __half*>& A, const std::vector<const __half*>& B, float beta,
                   const std::vector<__half*>& C) {
  const size_t bytes = A.size() * sizeof(void*);
  void** table = nullptr;
  SB_CUDA_TRY(cudaMalloc(&table, 3 * bytes));
  SB_CUDA_TRY(cudaMemcpyAsync(table, A.data(), bytes, cudaMemcpyHostToDevice, stream));
  SB_CUDA_TRY(cudaMemcpyAsync(table + A.size(), B.data(), bytes, cudaMemcpyHostToDevice, stream));
  SB_CUDA_TRY(cudaMemcpyAsync(table + 2 * A.size(), C.data(), bytes, cudaMemcpyHostToDevice, stream));
  hgemm_batched(stream, m, n, k, alpha, reinterpret_cast<const __half* const*>(table), k,
                reinterpret_cast<const __half* const*>(table + A.size()), n, beta,
                reinterpret_cast<__half* const*>(table + 2 * A.size()), n, static_cast<int>(A.size()));
  SB_CUDA_TRY(cudaStreamSynchronize(stream));
  cudaFree(table);
}

}  // namespace smallblas
