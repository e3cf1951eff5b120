// persistent_raster_gemm.cu: one block per SM walks over output tiles, tiles in groups of rows for L2 reuse.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>
#include <iostream>
#include <memory>
#include <random>
#include <vector>

using namespace nvcuda;

struct GemmArgs {
  const __half* A;  // M x K, row major
  const __half* B;  // K x N, row major
  float* C;         // M x N, row major
  int M, N, K;
  int tiles_m, tiles_n;
};

constexpr int kTileM = 64, kTileN = 64, kTileK = 32, kGroupM = 4;
constexpr int kThreads = 128;

__device__ void tile_coords(const GemmArgs& args, int tile, int& tm, int& tn) {
  const int per_group = kGroupM * args.tiles_n;
  const int group = tile / per_group;
  const int first_m = group * kGroupM;
  const int rows = min(args.tiles_m - first_m, kGroupM);
  tm = first_m + (tile % per_group) % rows;
  tn = (tile % per_group) / rows;
}

__global__ void __launch_bounds__(kThreads) persistent_gemm(GemmArgs args) {
  extern __shared__ __align__(128) unsigned char raw[];
  __half(*As)[kTileK + 8] = reinterpret_cast<__half(*)[kTileK + 8]>(raw);
  __half(*Bs)[kTileN + 8] = reinterpret_cast<__half(*)[kTileN + 8]>(raw + kTileM * (kTileK + 8) * sizeof(__half));

  const int warp = threadIdx.x / 32;
  const int wr = (warp / 2) * 32, wc = (warp % 2) * 32;
  const int num_tiles = args.tiles_m * args.tiles_n;

  for (int tile = blockIdx.x; tile < num_tiles; tile += gridDim.x) {
    int tm, tn;
    tile_coords(args, tile, tm, tn);

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2][2];
    for (auto& row : c)
      for (auto& f : row) wmma::fill_fragment(f, 0.0f);

    for (int k = 0; k < args.K; k += kTileK) {
      for (int i = threadIdx.x; i < kTileM * kTileK / 8; i += kThreads) {
        const int r = i / (kTileK / 8), v = i % (kTileK / 8) * 8;
        *reinterpret_cast<int4*>(&As[r][v]) =
            *reinterpret_cast<const int4*>(&args.A[static_cast<size_t>(tm * kTileM + r) * args.K + k + v]);
      }
      for (int i = threadIdx.x; i < kTileK * kTileN / 8; i += kThreads) {
        const int r = i / (kTileN / 8), v = i % (kTileN / 8) * 8;
        *reinterpret_cast<int4*>(&Bs[r][v]) =
            *reinterpret_cast<const int4*>(&args.B[static_cast<size_t>(k + r) * args.N + tn * kTileN + v]);
      }
      __syncthreads();
      for (int kk = 0; kk < kTileK; kk += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> a[2];
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> b[2];
        for (int i = 0; i < 2; ++i) {
          wmma::load_matrix_sync(a[i], &As[wr + i * 16][kk], kTileK + 8);
          wmma::load_matrix_sync(b[i], &Bs[kk][wc + i * 16], kTileN + 8);
        }
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 2; ++j) wmma::mma_sync(c[i][j], a[i], b[j], c[i][j]);
      }
      __syncthreads();
    }
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        wmma::store_matrix_sync(&args.C[static_cast<size_t>(tm * kTileM + wr + i * 16) * args.N + tn * kTileN + wc + j * 16],
                                c[i][j], args.N, wmma::mem_row_major);
  }
}

class PersistentGemm {
 public:
  PersistentGemm() {
    cudaDeviceProp prop;
    cudaGetDeviceProperties(&prop, 0);
    sms_ = prop.multiProcessorCount;
  }

  cudaError_t operator()(const __half* A, const __half* B, float* C, int M, int N, int K, cudaStream_t stream = nullptr) const {
    if (M % kTileM || N % kTileN || K % kTileK) return cudaErrorInvalidValue;
    GemmArgs args{A, B, C, M, N, K, M / kTileM, N / kTileN};
    const int tiles = args.tiles_m * args.tiles_n;
    const int blocks = tiles < sms_ ? tiles : sms_;
    const size_t smem = (kTileM * (kTileK + 8) + kTileK * (kTileN + 8)) * sizeof(__half);
    persistent_gemm<<<blocks, kThreads, smem, stream>>>(args);
    return cudaGetLastError();
  }

 private:
  int sms_;
};

int main() {
  const int M = 320, N = 128, K = 64;
  std::mt19937 rng(7);
  std::uniform_real_distribution<float> dist(-1.f, 1.f);
  std::vector<__half> hA(M * K), hB(K * N);
  std::vector<float> hC(M * N);
  for (auto& v : hA) v = __float2half(dist(rng));
  for (auto& v : hB) v = __float2half(dist(rng));

  __half *dA, *dB;
  float* dC;
  cudaMalloc(reinterpret_cast<void**>(&dA), hA.size() * sizeof(__half));
  cudaMalloc(reinterpret_cast<void**>(&dB), hB.size() * sizeof(__half));
  cudaMalloc(reinterpret_cast<void**>(&dC), hC.size() * sizeof(float));
  cudaMemcpy(dA, hA.data(), hA.size() * sizeof(__half), cudaMemcpyHostToDevice);
  cudaMemcpy(dB, hB.data(), hB.size() * sizeof(__half), cudaMemcpyHostToDevice);

  PersistentGemm gemm;
  if (gemm(dA, dB, dC, M, N, K) != cudaSuccess) {
    std::cerr << "launch failed" << std::endl;
    return 1;
  }
  cudaDeviceSynchronize();
  cudaMemcpy(hC.data(), dC, hC.size() * sizeof(float), cudaMemcpyDeviceToHost);

  int bad = 0;
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      float sum = 0.f;
      for (int k = 0; k < K; ++k) sum += __half2float(hA[i * K + k]) * __half2float(hB[k * N + j]);
      if (std::abs(sum - hC[i * N + j]) > 1e-3f) ++bad;
    }
  std::cout << (bad ? "FAILED" : "PASSED") << std::endl;
  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  return bad != 0;
}
