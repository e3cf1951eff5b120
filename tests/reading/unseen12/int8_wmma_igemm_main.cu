// INT8 GEMM with WMMA: C(int32) = A(int8, row) x B(int8, col).
#include <cuda_runtime.h>
#include <mma.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

using namespace nvcuda;

constexpr int WM = 16, WN = 16, WK = 16;
constexpr int WARPS_M = 2, WARPS_N = 4;

__global__ void igemm_wmma(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int32_t* __restrict__ c, int m, int n,
                           int k) {
  int warp = threadIdx.x / 32;
  int row = (blockIdx.y * WARPS_M + warp / WARPS_N) * WM;
  int col = (blockIdx.x * WARPS_N + warp % WARPS_N) * WN;
  if (row >= m || col >= n) return;

  wmma::fragment<wmma::accumulator, WM, WN, WK, int> acc;
  wmma::fill_fragment(acc, 0);
  for (int kk = 0; kk < k; kk += WK) {
    wmma::fragment<wmma::matrix_a, WM, WN, WK, signed char, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, WM, WN, WK, signed char, wmma::col_major> fb;
    wmma::load_matrix_sync(fa, reinterpret_cast<const signed char*>(a) + row * k + kk, k);
    wmma::load_matrix_sync(fb, reinterpret_cast<const signed char*>(b) + col * k + kk, k);
    wmma::mma_sync(acc, fa, fb, acc);
  }
  wmma::store_matrix_sync(c + row * n + col, acc, n, wmma::mem_row_major);
}

static void reference(const std::vector<int8_t>& a, const std::vector<int8_t>& b, std::vector<int32_t>& c, int m, int n, int k) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      int32_t s = 0;
      for (int p = 0; p < k; p++) s += int32_t(a[i * k + p]) * int32_t(b[j * k + p]);
      c[i * n + j] = s;
    }
}

int main(int argc, char** argv) {
  int m = argc > 1 ? atoi(argv[1]) : 256;
  int n = argc > 2 ? atoi(argv[2]) : 256;
  int k = argc > 3 ? atoi(argv[3]) : 256;
  std::vector<int8_t> a(m * k), b(n * k);
  std::vector<int32_t> c(m * n), want(m * n);
  std::mt19937 gen(0);
  std::uniform_int_distribution<int> dist(-128, 127);
  for (auto& v : a) v = static_cast<int8_t>(dist(gen));
  for (auto& v : b) v = static_cast<int8_t>(dist(gen));

  int8_t *da, *db;
  int32_t* dc;
  cudaMalloc(&da, a.size());
  cudaMalloc(&db, b.size());
  cudaMalloc(&dc, c.size() * sizeof(int32_t));
  cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b.data(), b.size(), cudaMemcpyHostToDevice);

  dim3 block(32 * WARPS_M * WARPS_N);
  dim3 grid((n + WN * WARPS_N - 1) / (WN * WARPS_N), (m + WM * WARPS_M - 1) / (WM * WARPS_M));
  const int warmup = 2, iters = 5;
  for (int i = 0; i < warmup; i++) igemm_wmma<<<grid, block>>>(da, db, dc, m, n, k);
  cudaDeviceSynchronize();
  auto begin = std::chrono::high_resolution_clock::now();
  for (int i = 0; i < iters; i++) igemm_wmma<<<grid, block>>>(da, db, dc, m, n, k);
  cudaDeviceSynchronize();
  auto end = std::chrono::high_resolution_clock::now();
  double us = std::chrono::duration<double, std::micro>(end - begin).count() / iters;
  std::cout << "time " << us << " us, " << 2.0 * m * n * k / us * 1e-6 << " TOPS\n";

  cudaMemcpy(c.data(), dc, c.size() * sizeof(int32_t), cudaMemcpyDeviceToHost);
  reference(a, b, want, m, n, k);
  bool ok = c == want;
  std::cout << (ok ? "PASSED" : "FAILED") << std::endl;
  return ok ? 0 : 1;
}
