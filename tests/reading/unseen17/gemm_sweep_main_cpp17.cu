// Tensor core GEMM with compile-time tiles, tested over a few shapes. nvcc -std=c++17 -arch=sm_80
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

template <typename T>
struct DeviceDeleter {
  void operator()(T* p) const { cudaFree(p); }
};
template <typename T>
using device_ptr = std::unique_ptr<T, DeviceDeleter<T>>;

template <typename T>
device_ptr<T> device_alloc(std::size_t n) {
  T* p = nullptr;
  if (cudaMalloc(&p, n * sizeof(T)) != cudaSuccess) throw std::bad_alloc();
  return device_ptr<T>(p);
}

template <typename T>
device_ptr<T> to_device(const std::vector<T>& host) {
  auto d = device_alloc<T>(host.size());
  cudaMemcpy(d.get(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return d;
}

template <int BM, int BN, int WM, int WN, bool TransB>
__global__ void wmma_gemm(const half* A, const half* B, float* C, int M, int N, int K, float alpha) {
  using namespace nvcuda;
  constexpr int FM = WM / 16, FN = WN / 16;
  static_assert(BM % WM == 0 && BN % WN == 0);
  const int warp = threadIdx.x / 32;
  const int m0 = blockIdx.y * BM + warp / (BN / WN) * WM;
  const int n0 = blockIdx.x * BN + warp % (BN / WN) * WN;
  if (m0 >= M || n0 >= N) return;
  using LayoutB = std::conditional_t<TransB, wmma::col_major, wmma::row_major>;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[FM][FN];
  for (auto& row : acc)
    for (auto& f : row) wmma::fill_fragment(f, 0.0f);
  for (int k = 0; k < K; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[FM];
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, LayoutB> b[FN];
    for (int i = 0; i < FM; ++i) wmma::load_matrix_sync(a[i], A + (m0 + i * 16) * K + k, K);
    for (int j = 0; j < FN; ++j) {
      if constexpr (TransB)
        wmma::load_matrix_sync(b[j], B + (n0 + j * 16) * K + k, K);
      else
        wmma::load_matrix_sync(b[j], B + k * N + n0 + j * 16, N);
    }
    for (int i = 0; i < FM; ++i)
      for (int j = 0; j < FN; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
  }
  for (int i = 0; i < FM; ++i)
    for (int j = 0; j < FN; ++j) {
      for (auto& v : acc[i][j].x) v *= alpha;
      wmma::store_matrix_sync(C + (m0 + i * 16) * N + n0 + j * 16, acc[i][j], N, wmma::mem_row_major);
    }
}

template <int BM, int BN, int WM, int WN, bool TransB>
double run(int M, int N, int K, std::mt19937& rng) {
  std::uniform_real_distribution<float> dist(-1.0f, 1.0f);
  std::vector<half> a(M * K), b(K * N);
  std::generate(a.begin(), a.end(), [&] { return __float2half(dist(rng)); });
  std::generate(b.begin(), b.end(), [&] { return __float2half(dist(rng)); });
  auto dA = to_device(a), dB = to_device(b);
  auto dC = device_alloc<float>(M * N);
  constexpr int threads = BM / WM * (BN / WN) * 32;
  const dim3 grid((N + BN - 1) / BN, (M + BM - 1) / BM);
  const auto start = std::chrono::high_resolution_clock::now();
  wmma_gemm<BM, BN, WM, WN, TransB><<<grid, threads>>>(dA.get(), dB.get(), dC.get(), M, N, K, 0.5f);
  cudaDeviceSynchronize();
  const std::chrono::duration<double, std::milli> ms = std::chrono::high_resolution_clock::now() - start;
  std::vector<float> c(M * N);
  cudaMemcpy(c.data(), dC.get(), c.size() * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0.0;
  for (int m = 0; m < M; ++m)
    for (int n = 0; n < N; ++n) {
      double ref = 0.0;
      for (int k = 0; k < K; ++k)
        ref += (double)__half2float(a[m * K + k]) * __half2float(TransB ? b[n * K + k] : b[k * N + n]);
      worst = std::max(worst, std::abs(0.5 * ref - c[m * N + n]));
    }
  std::cout << std::setw(6) << M << std::setw(6) << N << std::setw(6) << K << (TransB ? "  NT" : "  NN")
            << "  max error " << worst << "  " << ms.count() << " ms\n";
  return worst;
}

int main() {
  std::mt19937 rng(42);
  const std::array<std::tuple<int, int, int>, 3> shapes{{{64, 64, 64}, {128, 64, 96}, {96, 160, 48}}};
  double worst = 0.0;
  for (const auto& [m, n, k] : shapes) {
    worst = std::max(worst, run<64, 64, 32, 32, false>(m, n, k, rng));
    worst = std::max(worst, run<64, 64, 32, 32, true>(m, n, k, rng));
  }
  if (worst > 1e-3) {
    std::cerr << "verification failed\n";
    return EXIT_FAILURE;
  }
  std::cout << "all good\n";
}
