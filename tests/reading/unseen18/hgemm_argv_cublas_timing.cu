// Usage: ./hgemm [M] [N] [K] [repeat]
// Compare a shared memory WMMA kernel with cublasGemmEx.
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <curand.h>
#include <mma.h>
#include <cstdio>
#include <cstdlib>

#define CHECK_CUDA(call)                                                                      \
  do {                                                                                        \
    cudaError_t e_ = (call);                                                                  \
    if (e_ != cudaSuccess) {                                                                  \
      fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));              \
      exit(1);                                                                                \
    }                                                                                         \
  } while (0)
#define CHECK_CUBLAS(call) \
  if ((call) != CUBLAS_STATUS_SUCCESS) { fprintf(stderr, "cublas error %d\n", __LINE__); exit(1); }

using namespace nvcuda;

constexpr int kTile = 64;
constexpr int kTileK = 32;
constexpr int kPad = 8;

__global__ void float2half_kernel(half* out, const float* in, size_t n) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    out[i] = __float2half(in[i] - 0.5f);
}

__global__ void __launch_bounds__(128) hgemm_smem(const half* __restrict__ A, const half* __restrict__ B,
                                                  float* __restrict__ C, int M, int N, int K, float alpha,
                                                  float beta) {
  __shared__ half As[kTile][kTileK + kPad];
  __shared__ half Bs[kTileK][kTile + kPad];
  const int m0 = blockIdx.y * kTile, n0 = blockIdx.x * kTile;
  const int warp = threadIdx.x >> 5;
  const int wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> acc[2][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) wmma::fill_fragment(acc[i / 2][i % 2], 0.f);

  for (int k0 = 0; k0 < K; k0 += kTileK) {
    for (int v = threadIdx.x; v < kTile * kTileK / 8; v += blockDim.x) {
      const int r = v / (kTileK / 8), c = v % (kTileK / 8) * 8;
      *reinterpret_cast<int4*>(&As[r][c]) = *reinterpret_cast<const int4*>(&A[(size_t)(m0 + r) * K + k0 + c]);
    }
    for (int v = threadIdx.x; v < kTile * kTileK / 8; v += blockDim.x) {
      const int r = v / (kTile / 8), c = v % (kTile / 8) * 8;
      *reinterpret_cast<int4*>(&Bs[r][c]) = *reinterpret_cast<const int4*>(&B[(size_t)(k0 + r) * N + n0 + c]);
    }
    __syncthreads();
#pragma unroll
    for (int kk = 0; kk < kTileK; kk += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b[2];
      for (int i = 0; i < 2; ++i) wmma::load_matrix_sync(a[i], &As[wm + 16 * i][kk], kTileK + kPad);
      for (int j = 0; j < 2; ++j) wmma::load_matrix_sync(b[j], &Bs[kk][wn + 16 * j], kTile + kPad);
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::mma_sync(acc[i][j], a[i], b[j], acc[i][j]);
    }
    __syncthreads();
  }
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) {
      float* dst = C + (size_t)(m0 + wm + 16 * i) * N + n0 + wn + 16 * j;
      wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
      wmma::load_matrix_sync(c, dst, N, wmma::mem_row_major);
      for (int e = 0; e < c.num_elements; ++e) c.x[e] = alpha * acc[i][j].x[e] + beta * c.x[e];
      wmma::store_matrix_sync(dst, c, N, wmma::mem_row_major);
    }
}

int main(int argc, char** argv) {
  const int M = argc > 1 ? atoi(argv[1]) : 1024;
  const int N = argc > 2 ? atoi(argv[2]) : 1024;
  const int K = argc > 3 ? atoi(argv[3]) : 1024;
  const int repeat = argc > 4 ? atoi(argv[4]) : 10;
  if (M % kTile || N % kTile || K % kTileK) { printf("sizes must be multiples of %d %d %d\n", kTile, kTile, kTileK); return 1; }
  const float alpha = 1.5f, beta = 0.5f;

  float *fA, *fB, *C, *Cref;
  half *A, *B;
  CHECK_CUDA(cudaMalloc((void**)&fA, sizeof(float) * M * K));
  CHECK_CUDA(cudaMalloc((void**)&fB, sizeof(float) * K * N));
  CHECK_CUDA(cudaMalloc((void**)&A, sizeof(half) * M * K));
  CHECK_CUDA(cudaMalloc((void**)&B, sizeof(half) * K * N));
  CHECK_CUDA(cudaMalloc((void**)&C, sizeof(float) * M * N));
  CHECK_CUDA(cudaMalloc((void**)&Cref, sizeof(float) * M * N));
  curandGenerator_t gen;
  curandCreateGenerator(&gen, CURAND_RNG_PSEUDO_DEFAULT);
  curandSetPseudoRandomGeneratorSeed(gen, 1337ULL);
  curandGenerateUniform(gen, fA, (size_t)M * K);
  curandGenerateUniform(gen, fB, (size_t)K * N);
  curandGenerateUniform(gen, C, (size_t)M * N);
  curandDestroyGenerator(gen);
  float2half_kernel<<<256, 256>>>(A, fA, (size_t)M * K);
  float2half_kernel<<<256, 256>>>(B, fB, (size_t)K * N);
  CHECK_CUDA(cudaMemcpy(Cref, C, sizeof(float) * M * N, cudaMemcpyDeviceToDevice));

  dim3 grid(N / kTile, M / kTile);
  hgemm_smem<<<grid, 128>>>(A, B, C, M, N, K, alpha, beta);
  CHECK_CUDA(cudaGetLastError());

  cublasHandle_t handle;
  CHECK_CUBLAS(cublasCreate(&handle));
  // row-major C = A B is column-major C^T = B^T A^T
  CHECK_CUBLAS(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &alpha, B, CUDA_R_16F, N, A, CUDA_R_16F, K, &beta,
                            Cref, CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP));
  float *h = (float*)malloc(sizeof(float) * M * N), *ref = (float*)malloc(sizeof(float) * M * N);
  CHECK_CUDA(cudaMemcpy(h, C, sizeof(float) * M * N, cudaMemcpyDeviceToHost));
  CHECK_CUDA(cudaMemcpy(ref, Cref, sizeof(float) * M * N, cudaMemcpyDeviceToHost));
  int bad = 0;
  for (int i = 0; i < M * N; ++i) {
    float d = h[i] - ref[i];
    if (d < 0) d = -d;
    if (d > 1e-2f) ++bad;
  }
  printf("%s: %d mismatches\n", bad ? "FAIL" : "PASS", bad);

  cudaEvent_t t0, t1;
  cudaEventCreate(&t0);
  cudaEventCreate(&t1);
  cudaEventRecord(t0);
  for (int r = 0; r < repeat; ++r) hgemm_smem<<<grid, 128>>>(A, B, C, M, N, K, alpha, 0.f);
  cudaEventRecord(t1);
  cudaEventSynchronize(t1);
  float ms = 0.f;
  cudaEventElapsedTime(&ms, t0, t1);
  printf("%.2f TFLOP/s\n", 2e-9 * M * N * K * repeat / ms);
  return bad != 0;
}
