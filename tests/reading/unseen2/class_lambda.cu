#include <cuda_runtime.h>
#include <cuda_bf16.h>
#include <mma.h>
#include <functional>
#include <memory>
#include <vector>
#include <string>
#include <map>

template <typename T, typename TAcc, int TM, int TN, int TK>
__global__ void simple_wmma(T const *a, T const *b, TAcc *c, unsigned m, unsigned n, unsigned k) {
  using namespace nvcuda;
  unsigned const warpM = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  unsigned const warpN = blockIdx.y * blockDim.y + threadIdx.y;
  if (warpM * TM >= m || warpN * TN >= n) return;
  wmma::fragment<wmma::accumulator, TM, TN, TK, TAcc> acc;
  wmma::fill_fragment(acc, TAcc(0));
  for (unsigned kk = 0; kk < k; kk += TK) {
    wmma::fragment<wmma::matrix_a, TM, TN, TK, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, TM, TN, TK, T, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, a + warpM * TM * k + kk, k);
    wmma::load_matrix_sync(fb, b + warpN * TN * k + kk, k);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(c + warpM * TM * n + warpN * TN, acc, n, wmma::mem_row_major);
}

class GemmRunner {
 public:
  GemmRunner(size_t m, size_t n, size_t k) : m_(m), n_(n), k_(k) {
    cudaMalloc(&a_, m_ * k_ * sizeof(__nv_bfloat16));
    cudaMalloc(&b_, n_ * k_ * sizeof(__nv_bfloat16));
    cudaMalloc(&c_, m_ * n_ * sizeof(float));
    kernels_["wmma"] = [this](cudaStream_t s) {
      dim3 const block(4 * 32, 4);
      dim3 const grid((m_ + 64 - 1) / 64, (n_ + 64 - 1) / 64);
      simple_wmma<__nv_bfloat16, float, 16, 16, 16><<<grid, block, 0, s>>>(
          a_, b_, c_, static_cast<unsigned>(m_), static_cast<unsigned>(n_), static_cast<unsigned>(k_));
    };
  }
  ~GemmRunner() { cudaFree(a_); cudaFree(b_); cudaFree(c_); }
  float measure(std::string const &name, int repeats = 10) {
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    for (int i = 0; i < repeats; ++i) kernels_.at(name)(nullptr);
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float ms{};
    cudaEventElapsedTime(&ms, start, stop);
    return ms / repeats;
  }

 private:
  size_t m_, n_, k_;
  __nv_bfloat16 *a_{}, *b_{};
  float *c_{};
  std::map<std::string, std::function<void(cudaStream_t)>> kernels_;
};

int main() {
  auto runner = std::make_unique<GemmRunner>(1024, 1024, 1024);
  runner->measure("wmma");
}
