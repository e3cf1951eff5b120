// Benchmark: hand-written mma.sync GEMM with XOR-swizzled shared memory against a naive kernel.
//   ./bench [M N K]
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef __nv_bfloat16 bf16;

#define CUDA_CHECK(x) do { cudaError_t e = (x); if (e != cudaSuccess) { printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

__device__ inline void ldsm_x4(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void ldsm_x4_t(uint32_t (&r)[4], uint32_t addr) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(addr));
}
__device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// column of 8 elements -> swizzled by the row
template <int COLS>
__device__ inline uint32_t swizzle(int row, int col) { return row * COLS + ((col / 8) ^ (row % (COLS / 8 < 8 ? COLS / 8 : 8))) * 8; }

template <int BM, int BN, int BK, int WM, int WN>
__global__ void __launch_bounds__((BM / WM) * (BN / WN) * 32)
bf16_gemm_swizzled(const bf16* __restrict__ A, const bf16* __restrict__ B, bf16* __restrict__ C, int M, int N, int K) {
  constexpr int THREADS = (BM / WM) * (BN / WN) * 32;
  __shared__ __align__(16) bf16 sA[2][BM * BK];
  __shared__ __align__(16) bf16 sB[2][BK * BN];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int wm = warp / (BN / WN) * WM, wn = warp % (BN / WN) * WN;
  const int bm = blockIdx.y * BM, bn = blockIdx.x * BN;

  float acc[WM / 16][WN / 8][4] = {};

  auto copy = [&](int stage, int k0) {
    for (int i = tid; i < BM * BK / 8; i += THREADS) {
      int r = i / (BK / 8), c = i % (BK / 8) * 8;
      uint32_t dst = __cvta_generic_to_shared(&sA[stage][swizzle<BK>(r, c)]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(A + (size_t)(bm + r) * K + k0 + c));
    }
    for (int i = tid; i < BK * BN / 8; i += THREADS) {
      int r = i / (BN / 8), c = i % (BN / 8) * 8;
      uint32_t dst = __cvta_generic_to_shared(&sB[stage][swizzle<BN>(r, c)]);
      asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(B + (size_t)(k0 + r) * N + bn + c));
    }
    asm volatile("cp.async.commit_group;");
  };

  copy(0, 0);
  const int steps = K / BK;
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) {
      copy((s + 1) & 1, (s + 1) * BK);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();
    const bf16 *pa = sA[s & 1], *pb = sB[s & 1];
#pragma unroll
    for (int k = 0; k < BK; k += 16) {
      uint32_t a[WM / 16][4], b[WN / 16][4];
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
        ldsm_x4(a[i], __cvta_generic_to_shared(pa + swizzle<BK>(wm + i * 16 + lane % 16, k + lane / 16 * 8)));
#pragma unroll
      for (int j = 0; j < WN / 16; ++j)
        ldsm_x4_t(b[j], __cvta_generic_to_shared(pb + swizzle<BN>(k + lane % 16, wn + j * 16 + lane / 16 * 8)));
#pragma unroll
      for (int i = 0; i < WM / 16; ++i)
#pragma unroll
        for (int j = 0; j < WN / 8; ++j) mma_bf16(acc[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < WM / 16; ++i)
#pragma unroll
    for (int j = 0; j < WN / 8; ++j) {
      int r = bm + wm + i * 16 + lane / 4, c = bn + wn + j * 8 + lane % 4 * 2;
      *reinterpret_cast<__nv_bfloat162*>(&C[(size_t)r * N + c]) = __floats2bfloat162_rn(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<__nv_bfloat162*>(&C[(size_t)(r + 8) * N + c]) = __floats2bfloat162_rn(acc[i][j][2], acc[i][j][3]);
    }
}

__global__ void naive_gemm(const bf16* A, const bf16* B, bf16* C, int M, int N, int K) {
  int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
  if (m >= M || n >= N) return;
  float s = 0;
  for (int k = 0; k < K; ++k) s += __bfloat162float(A[(size_t)m * K + k]) * __bfloat162float(B[(size_t)k * N + n]);
  C[(size_t)m * N + n] = __float2bfloat16(s);
}

int main(int argc, char** argv) {
  int M = 2048, N = 2048, K = 2048;
  if (argc == 4) { M = atoi(argv[1]); N = atoi(argv[2]); K = atoi(argv[3]); }
  const int iters = 20;
  bf16 *hA = new bf16[(size_t)M * K], *hB = new bf16[(size_t)K * N], *hC = new bf16[(size_t)M * N], *hR = new bf16[(size_t)M * N];
  for (size_t i = 0; i < (size_t)M * K; ++i) hA[i] = __float2bfloat16(rand() / (float)RAND_MAX - 0.5f);
  for (size_t i = 0; i < (size_t)K * N; ++i) hB[i] = __float2bfloat16(rand() / (float)RAND_MAX - 0.5f);
  bf16 *A, *B, *C, *R;
  CUDA_CHECK(cudaMalloc(&A, sizeof(bf16) * M * K));
  CUDA_CHECK(cudaMalloc(&B, sizeof(bf16) * K * N));
  CUDA_CHECK(cudaMalloc(&C, sizeof(bf16) * M * N));
  CUDA_CHECK(cudaMalloc(&R, sizeof(bf16) * M * N));
  CUDA_CHECK(cudaMemcpy(A, hA, sizeof(bf16) * M * K, cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(B, hB, sizeof(bf16) * K * N, cudaMemcpyHostToDevice));

  constexpr int BM = 128, BN = 64, BK = 32, WM = 32, WN = 32;
  dim3 grid(N / BN, M / BM), block((BM / WM) * (BN / WN) * 32);
  cudaEvent_t start, stop;
  CUDA_CHECK(cudaEventCreate(&start));
  CUDA_CHECK(cudaEventCreate(&stop));
  CUDA_CHECK(cudaEventRecord(start));
  for (int i = 0; i < iters; ++i) bf16_gemm_swizzled<BM, BN, BK, WM, WN><<<grid, block>>>(A, B, C, M, N, K);
  CUDA_CHECK(cudaEventRecord(stop));
  CUDA_CHECK(cudaEventSynchronize(stop));
  float ms;
  CUDA_CHECK(cudaEventElapsedTime(&ms, start, stop));
  printf("%d x %d x %d: %.3f ms, %.1f TFLOPS\n", M, N, K, ms / iters, 2.0 * M * N * K * iters / ms / 1e9);

  naive_gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, R, M, N, K);
  CUDA_CHECK(cudaMemcpy(hC, C, sizeof(bf16) * M * N, cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaMemcpy(hR, R, sizeof(bf16) * M * N, cudaMemcpyDeviceToHost));
  double worst = 0;
  for (size_t i = 0; i < (size_t)M * N; ++i) {
    double d = fabs((double)__bfloat162float(hC[i]) - (double)__bfloat162float(hR[i]));
    if (d > worst) worst = d;
  }
  printf("max abs diff %g %s\n", worst, worst < 0.1 ? "OK" : "FAIL");
  return worst < 0.1 ? 0 : 1;
}
