// hgemm_silu_mma.cu
//
// Companion code for the post "Tensor cores without CUTLASS, part 3: fusing the epilogue".
//
//     C = silu(A * B + bias)
//
// A [M, K], B [K, N], C [M, N] are row-major fp16, bias [N] is fp32, accumulation is fp32.
// Three-stage cp.async pipeline, XOR-swizzled shared memory, ldmatrix + mma.m16n8k16.
//
//   nvcc -O3 -std=c++17 -arch=sm_80 hgemm_silu_mma.cu -o hgemm_silu && ./hgemm_silu
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CUDA_CHECK(x)                                                                        \
  do {                                                                                       \
    cudaError_t e_ = (x);                                                                    \
    if (e_ != cudaSuccess) {                                                                 \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(e_));                \
      std::exit(1);                                                                          \
    }                                                                                        \
  } while (0)

constexpr int BM = 64;
constexpr int BN = 64;
constexpr int BK = 32;
constexpr int STAGES = 3;
constexpr int THREADS = 128;  // 2 x 2 warps, each one owns a 32 x 32 piece of C

// 16-byte chunks. A rows hold 4 of them, B rows hold 8.
// The swizzle makes the eight rows read by one ldmatrix phase land in different banks.
__device__ __forceinline__ int swizzle_a(int row, int chunk) { return row * BK + ((chunk ^ ((row >> 1) & 3)) << 3); }
__device__ __forceinline__ int swizzle_b(int row, int chunk) { return row * BN + ((chunk ^ (row & 7)) << 3); }

__device__ __forceinline__ uint32_t smem_addr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async_16(half* dst, const half* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(smem_addr(dst)), "l"(src));
}

__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }

template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_addr(p)));
}

__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const half* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_addr(p)));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__global__ void __launch_bounds__(THREADS)
    hgemm_silu_kernel(const half* __restrict__ A, const half* __restrict__ B, const float* __restrict__ bias,
                      half* __restrict__ C, int M, int N, int K) {
  __shared__ __align__(128) half sA[STAGES][BM * BK];
  __shared__ __align__(128) half sB[STAGES][BK * BN];

  const int tid = threadIdx.x;
  const int lane = tid % 32;
  const int warp_m = (tid / 32) / 2 * 32;
  const int warp_n = (tid / 32) % 2 * 32;
  const int block_m = blockIdx.y * BM;
  const int block_n = blockIdx.x * BN;
  const int k_tiles = K / BK;

  auto load_tile = [&](int stage, int kt) {
    // A: 64 rows x 4 chunks, B: 32 rows x 8 chunks, i.e. 256 chunks each, two per thread.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int id = tid + i * THREADS;
      const int ar = id / 4, ac = id % 4;
      cp_async_16(&sA[stage][swizzle_a(ar, ac)], A + (size_t)(block_m + ar) * K + kt * BK + ac * 8);
      const int br = id / 8, bc = id % 8;
      cp_async_16(&sB[stage][swizzle_b(br, bc)], B + (size_t)(kt * BK + br) * N + block_n + bc * 8);
    }
  };

  float acc[2][4][4] = {};

#pragma unroll
  for (int s = 0; s < STAGES - 1; ++s) {
    if (s < k_tiles) load_tile(s, s);
    cp_async_commit();
  }

  for (int kt = 0; kt < k_tiles; ++kt) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();  // tile kt has landed, and everybody is done with tile kt - 1

    const int next = kt + STAGES - 1;
    if (next < k_tiles) load_tile(next % STAGES, next);
    cp_async_commit();  // an empty group at the tail keeps the count right

    const half* a_tile = sA[kt % STAGES];
    const half* b_tile = sB[kt % STAGES];
#pragma unroll
    for (int ks = 0; ks < BK / 16; ++ks) {
      uint32_t af[2][4], bf[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        ldmatrix_x4(af[i], a_tile + swizzle_a(warp_m + i * 16 + lane % 16, ks * 2 + lane / 16));
#pragma unroll
      for (int j = 0; j < 2; ++j)
        ldmatrix_x4_trans(bf[j], b_tile + swizzle_b(ks * 16 + lane % 16, warp_n / 8 + j * 2 + lane / 16));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma_16816(acc[i][j], af[i], bf[j / 2][j % 2 * 2], bf[j / 2][j % 2 * 2 + 1]);
    }
  }

  // Epilogue, straight from the registers.
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = block_m + warp_m + i * 16 + lane / 4;
      const int col = block_n + warp_n + j * 8 + lane % 4 * 2;
      const float2 b = *reinterpret_cast<const float2*>(bias + col);
      *reinterpret_cast<half2*>(C + (size_t)row * N + col) =
          __floats2half2_rn(silu(acc[i][j][0] + b.x), silu(acc[i][j][1] + b.y));
      *reinterpret_cast<half2*>(C + (size_t)(row + 8) * N + col) =
          __floats2half2_rn(silu(acc[i][j][2] + b.x), silu(acc[i][j][3] + b.y));
    }
  }
}

int main() {
  const int M = 512, N = 768, K = 1024;
  static_assert(M % BM == 0 && N % BN == 0 && K % BK == 0, "whole tiles only");

  std::vector<half> hA((size_t)M * K), hB((size_t)K * N), hC((size_t)M * N);
  std::vector<float> hBias(N);
  srand(42);
  auto rnd = [] { return (float)rand() / RAND_MAX - 0.5f; };
  for (auto& v : hA) v = __float2half(rnd());
  for (auto& v : hB) v = __float2half(rnd() * 0.25f);
  for (auto& v : hBias) v = rnd();

  half *dA, *dB, *dC;
  float* dBias;
  CUDA_CHECK(cudaMalloc(&dA, hA.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dB, hB.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dC, hC.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dBias, N * sizeof(float)));
  CUDA_CHECK(cudaMemcpy(dA, hA.data(), hA.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dB, hB.data(), hB.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(dBias, hBias.data(), N * sizeof(float), cudaMemcpyHostToDevice));

  const dim3 grid(N / BN, M / BM);
  hgemm_silu_kernel<<<grid, THREADS>>>(dA, dB, dBias, dC, M, N, K);  // warm-up
  CUDA_CHECK(cudaGetLastError());

  cudaEvent_t t0, t1;
  CUDA_CHECK(cudaEventCreate(&t0));
  CUDA_CHECK(cudaEventCreate(&t1));
  const int reps = 20;
  CUDA_CHECK(cudaEventRecord(t0));
  for (int i = 0; i < reps; ++i) hgemm_silu_kernel<<<grid, THREADS>>>(dA, dB, dBias, dC, M, N, K);
  CUDA_CHECK(cudaEventRecord(t1));
  CUDA_CHECK(cudaEventSynchronize(t1));
  float ms = 0;
  CUDA_CHECK(cudaEventElapsedTime(&ms, t0, t1));
  std::printf("%.2f us, %.1f TFLOP/s\n", ms / reps * 1e3, 2.0 * M * N * K * reps / (ms * 1e9));

  CUDA_CHECK(cudaMemcpy(hC.data(), dC, hC.size() * sizeof(half), cudaMemcpyDeviceToHost));
  double worst = 0;
  for (int m = 0; m < M; m += 7) {  // a sample of the rows, the full check is slow on a laptop
    for (int n = 0; n < N; ++n) {
      float s = hBias[n];
      for (int k = 0; k < K; ++k) s += __half2float(hA[(size_t)m * K + k]) * __half2float(hB[(size_t)k * N + n]);
      const float want = s / (1.0f + std::exp(-s));
      worst = std::fmax(worst, std::fabs(want - __half2float(hC[(size_t)m * N + n])));
    }
  }
  std::printf("max abs error %.2e: %s\n", worst, worst < 1e-2 ? "PASS" : "FAIL");

  cudaFree(dA);
  cudaFree(dB);
  cudaFree(dC);
  cudaFree(dBias);
  return worst < 1e-2 ? 0 : 1;
}
