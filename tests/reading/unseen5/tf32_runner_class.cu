#include <cuda_runtime.h>
#include <mma.h>
#include <stdexcept>

// TF32 GEMM. Column-major like cuBLAS: C = A * B, A is m x k (lda = m), B is k x n (ldb = k), C is m x n (ldc = m).

namespace kernels {
using namespace nvcuda;

template <int kWarpsM, int kWarpsN>
__global__ void tf32GemmColMajor(int m, int n, int k, const float* __restrict__ A, int lda,
                                 const float* __restrict__ B, int ldb, float* __restrict__ C, int ldc) {
  int warp = threadIdx.x / 32;
  int row = (blockIdx.x * kWarpsM + warp % kWarpsM) * 16;
  int col = (blockIdx.y * kWarpsN + warp / kWarpsM) * 16;
  if (row >= m || col >= n) return;

  wmma::fragment<wmma::accumulator, 16, 16, 8, float> sum;
  wmma::fill_fragment(sum, 0.0f);

  for (int p = 0; p < k; p += 8) {
    wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, A + row + p * lda, lda);
    wmma::load_matrix_sync(fb, B + p + col * ldb, ldb);
#pragma unroll
    for (int t = 0; t < fa.num_elements; t++) fa.x[t] = wmma::__float_to_tf32(fa.x[t]);
#pragma unroll
    for (int t = 0; t < fb.num_elements; t++) fb.x[t] = wmma::__float_to_tf32(fb.x[t]);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  wmma::store_matrix_sync(C + row + col * ldc, sum, ldc, wmma::mem_col_major);
}
}  // namespace kernels

class GemmRunner {
 public:
  virtual ~GemmRunner() = default;
  virtual void operator()(const float* A, const float* B, float* C, int m, int n, int k) = 0;
};

class Tf32Runner final : public GemmRunner {
 public:
  explicit Tf32Runner(cudaStream_t s = nullptr) : stream(s) {}

  void operator()(const float* A, const float* B, float* C, int m, int n, int k) override {
    if ((m | n) & 15 || k & 7) throw std::runtime_error("unsupported size");
    constexpr int wm = 2, wn = 4;
    dim3 grid = {static_cast<unsigned>((m + 16 * wm - 1) / (16 * wm)),
                 static_cast<unsigned>((n + 16 * wn - 1) / (16 * wn)), 1};
    auto kernel = &kernels::tf32GemmColMajor<wm, wn>;
    kernel<<<grid, wm * wn * 32, 0, stream>>>(m, n, k, A, m, B, k, C, m);
  }

 private:
  cudaStream_t stream;
};
