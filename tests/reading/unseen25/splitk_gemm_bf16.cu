// Split-K GEMM (bf16, Tensor Core) + 縮約カーネルで bias と GELU を適用
//
//   Y = GELU(X * W^T + bias)
//   X : [M, K] 行優先   W : [N, K] 行優先 (PyTorch の Linear と同じ)   Y : [M, N]
//
// デコード時のように M, N が小さく K が大きいとブロック数が足りないので、K を分割して
// 部分和を workspace [splits, M, N] に書き、2 番目のカーネルで足し合わせる。
// M, N は任意、K は 8 の倍数。
//
// nvcc -arch=sm_80 -o splitk splitk_gemm_bf16.cu
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace nvcuda;
using bf16 = __nv_bfloat16;

#define CHECK_CUDA(func)                                                                  \
  {                                                                                       \
    cudaError_t status = (func);                                                          \
    if (status != cudaSuccess) {                                                          \
      printf("CUDA API failed at line %d with error: %s (%d)\n", __LINE__,                \
             cudaGetErrorString(status), status);                                         \
      return EXIT_FAILURE;                                                                \
    }                                                                                     \
  }

static constexpr int kTileM = 32;
static constexpr int kTileN = 64;
static constexpr int kTileK = 32;
static constexpr int kLd = kTileK + 8;
static constexpr int kThreads = 128;

// blockIdx.z が K の担当区間を決める
__global__ void SplitKGemmKernel(const bf16* __restrict__ x, const bf16* __restrict__ w, float* __restrict__ workspace,
                                 int M, int N, int K, int k_per_split) {
  __shared__ __align__(32) bf16 xs[kTileM][kLd];
  __shared__ __align__(32) bf16 ws[kTileN][kLd];
  __shared__ __align__(32) float out[kTileM][kTileN];

  const int m_base = blockIdx.y * kTileM;
  const int n_base = blockIdx.x * kTileN;
  const int k_begin = blockIdx.z * k_per_split;
  const int k_end = min(K, k_begin + k_per_split);
  const int warp = threadIdx.x >> 5;  // 各ワープは 32 x 16

  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2];
  wmma::fill_fragment(acc[0], 0.0f);
  wmma::fill_fragment(acc[1], 0.0f);

  const uint4 zero = make_uint4(0, 0, 0, 0);
  for (int k = k_begin; k < k_end; k += kTileK) {
    // 範囲外はゼロ埋め
    for (int i = threadIdx.x; i < kTileM * (kTileK / 8); i += kThreads) {
      int r = i >> 2, c = (i & 3) << 3;
      bool valid = (m_base + r < M) && (k + c < k_end);
      *reinterpret_cast<uint4*>(&xs[r][c]) =
          valid ? *reinterpret_cast<const uint4*>(x + (size_t)(m_base + r) * K + k + c) : zero;
    }
    for (int i = threadIdx.x; i < kTileN * (kTileK / 8); i += kThreads) {
      int r = i >> 2, c = (i & 3) << 3;
      bool valid = (n_base + r < N) && (k + c < k_end);
      *reinterpret_cast<uint4*>(&ws[r][c]) =
          valid ? *reinterpret_cast<const uint4*>(w + (size_t)(n_base + r) * K + k + c) : zero;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::col_major> bfrag;
      wmma::load_matrix_sync(bfrag, &ws[warp * 16][kk], kLd);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> afrag;
        wmma::load_matrix_sync(afrag, &xs[i * 16][kk], kLd);
        wmma::mma_sync(acc[i], afrag, bfrag, acc[i]);
      }
    }
    __syncthreads();
  }

  for (int i = 0; i < 2; ++i) wmma::store_matrix_sync(&out[i * 16][warp * 16], acc[i], kTileN, wmma::mem_row_major);
  __syncthreads();

  float* dst = workspace + (size_t)blockIdx.z * M * N;
  for (int i = threadIdx.x; i < kTileM * kTileN; i += kThreads) {
    int m = m_base + i / kTileN, n = n_base + i % kTileN;
    if (m < M && n < N) dst[(size_t)m * N + n] = out[i / kTileN][i % kTileN];
  }
}

__device__ __forceinline__ float Gelu(float x) {
  // tanh 近似
  return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

// 部分和を足してから bias と活性化
__global__ void SplitKReduceKernel(const float* __restrict__ workspace, const float* __restrict__ bias,
                                   bf16* __restrict__ y, int M, int N, int splits) {
  int idx = blockIdx.x * blockDim.x + threadIdx.x;
  if (idx >= M * N) return;
  float sum = 0.0f;
  for (int s = 0; s < splits; ++s) sum += workspace[(size_t)s * M * N + idx];
  y[idx] = __float2bfloat16(Gelu(sum + bias[idx % N]));
}

cudaError_t LinearGeluSplitK(const bf16* x, const bf16* w, const float* bias, bf16* y, float* workspace, int M, int N,
                             int K, int splits, cudaStream_t stream) {
  // 区間は kTileK の倍数に切り上げる
  int k_per_split = ((K + splits - 1) / splits + kTileK - 1) / kTileK * kTileK;
  dim3 grid((N + kTileN - 1) / kTileN, (M + kTileM - 1) / kTileM, splits);
  SplitKGemmKernel<<<grid, kThreads, 0, stream>>>(x, w, workspace, M, N, K, k_per_split);
  int total = M * N;
  SplitKReduceKernel<<<(total + 255) / 256, 256, 0, stream>>>(workspace, bias, y, M, N, splits);
  return cudaGetLastError();
}

int main(int argc, char** argv) {
  int M = argc > 1 ? atoi(argv[1]) : 20;
  int N = argc > 2 ? atoi(argv[2]) : 100;
  int K = argc > 3 ? atoi(argv[3]) : 456;
  int splits = argc > 4 ? atoi(argv[4]) : 4;

  std::vector<bf16> h_x((size_t)M * K), h_w((size_t)N * K), h_y((size_t)M * N);
  std::vector<float> h_bias(N);
  srand(2024);
  auto rnd = []() { return (float)(rand() % 2001 - 1000) / 1000.0f; };
  for (auto& v : h_x) v = __float2bfloat16(rnd());
  for (auto& v : h_w) v = __float2bfloat16(rnd() * 0.15f);
  for (auto& v : h_bias) v = rnd();

  bf16 *d_x, *d_w, *d_y;
  float *d_bias, *d_ws;
  CHECK_CUDA(cudaMalloc(&d_x, sizeof(bf16) * M * K));
  CHECK_CUDA(cudaMalloc(&d_w, sizeof(bf16) * N * K));
  CHECK_CUDA(cudaMalloc(&d_y, sizeof(bf16) * M * N));
  CHECK_CUDA(cudaMalloc(&d_bias, sizeof(float) * N));
  CHECK_CUDA(cudaMalloc(&d_ws, sizeof(float) * splits * M * N));
  CHECK_CUDA(cudaMemcpy(d_x, h_x.data(), sizeof(bf16) * M * K, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(d_w, h_w.data(), sizeof(bf16) * N * K, cudaMemcpyHostToDevice));
  CHECK_CUDA(cudaMemcpy(d_bias, h_bias.data(), sizeof(float) * N, cudaMemcpyHostToDevice));

  CHECK_CUDA(LinearGeluSplitK(d_x, d_w, d_bias, d_y, d_ws, M, N, K, splits, 0));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK_CUDA(cudaMemcpy(h_y.data(), d_y, sizeof(bf16) * M * N, cudaMemcpyDeviceToHost));

  // CPU で検証
  int errors = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      double acc = h_bias[n];
      for (int k = 0; k < K; ++k)
        acc += (double)__bfloat162float(h_x[(size_t)m * K + k]) * __bfloat162float(h_w[(size_t)n * K + k]);
      double ref = 0.5 * acc * (1.0 + tanh(0.7978845608028654 * (acc + 0.044715 * acc * acc * acc)));
      double got = __bfloat162float(h_y[(size_t)m * N + n]);
      if (!(fabs(got - ref) <= 1e-3 + 5e-3 * fabs(ref))) {
        if (errors++ < 5) printf("y[%d][%d] = %f, 期待値 %f\n", m, n, got, ref);
      }
    }
  }
  printf("splits=%d: %s\n", splits, errors == 0 ? "PASS" : "FAIL");

  cudaFree(d_x);
  cudaFree(d_w);
  cudaFree(d_y);
  cudaFree(d_bias);
  cudaFree(d_ws);
  return errors != 0;
}
