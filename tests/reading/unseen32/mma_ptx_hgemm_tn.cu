// PTX mma.m16n8k16 + ldmatrix + XOR swizzle + 3-stage cp.async
// C[M,N] (half) = A[M,K] (half, row-major) * B[N,K]^T (half, row-major, "TN")
// M % 128 == 0, N % 128 == 0, K % 32 == 0
//
// 128x128x32 のブロックタイル、8 ワープ (2x4)、1 ワープは 64x32 を担当する。
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CUDA_CHECK(expr)                                                                              \
  do {                                                                                                \
    cudaError_t _e = (expr);                                                                          \
    if (_e != cudaSuccess) {                                                                          \
      std::printf("%s failed at %s:%d: %s\n", #expr, __FILE__, __LINE__, cudaGetErrorString(_e));     \
      std::abort();                                                                                   \
    }                                                                                                 \
  } while (0)

static constexpr int kBM = 128;
static constexpr int kBN = 128;
static constexpr int kBK = 32;
static constexpr int kStages = 3;
static constexpr int kThreads = 256;

// 1 行 = 32 half = 16 バイトのチャンク 4 個。バンク衝突を避けるためチャンク番号を XOR する。
__device__ __forceinline__ int swz(int row, int chunk) { return row * kBK + ((chunk ^ ((row >> 1) & 3)) << 3); }

__device__ __forceinline__ uint32_t smem_u32(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void cp_async16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(smem_u32(dst)), "l"(src));
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int N>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_u32(p)));
}
__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(smem_u32(p)));
}
__device__ __forceinline__ void mma16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(kThreads)
hgemm_tn_mma(const half* __restrict__ A, const half* __restrict__ B, half* __restrict__ C, int M, int N, int K) {
  __shared__ __align__(128) half smem_a[kStages][kBM * kBK];
  __shared__ __align__(128) half smem_b[kStages][kBN * kBK];

  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int warp = tid >> 5;
  const int warp_m = (warp & 1) * 64;
  const int warp_n = (warp >> 1) * 32;
  const int block_m = blockIdx.y * kBM;
  const int block_n = blockIdx.x * kBN;

  auto load_tile = [&](int stage, int kt) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int id = tid + i * kThreads;  // 0 .. 511
      const int row = id >> 2;
      const int chunk = id & 3;
      cp_async16(&smem_a[stage][swz(row, chunk)], A + (size_t)(block_m + row) * K + kt * kBK + chunk * 8);
      cp_async16(&smem_b[stage][swz(row, chunk)], B + (size_t)(block_n + row) * K + kt * kBK + chunk * 8);
    }
  };

  float acc[4][4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int r = 0; r < 4; ++r) acc[i][j][r] = 0.f;

  const int num_k = K / kBK;
  // プロローグ：グループ数を揃えるため、空でも commit する
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < num_k) load_tile(s, s);
    cp_async_commit();
  }

  for (int kt = 0; kt < num_k; ++kt) {
    cp_async_wait<kStages - 2>();
    __syncthreads();

    const int next = kt + kStages - 1;
    if (next < num_k) load_tile(next % kStages, next);
    cp_async_commit();

    const half* sa = smem_a[kt % kStages];
    const half* sb = smem_b[kt % kStages];
#pragma unroll
    for (int ks = 0; ks < kBK / 16; ++ks) {
      uint32_t fa[4][4], fb[4][2];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ldmatrix_x4(fa[i], sa + swz(warp_m + i * 16 + (lane & 15), ks * 2 + (lane >> 4)));
#pragma unroll
      for (int j = 0; j < 4; ++j)
        ldmatrix_x2(fb[j], sb + swz(warp_n + j * 8 + (lane & 7), ks * 2 + ((lane >> 3) & 1)));
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma16816(acc[i][j], fa[i], fb[j]);
    }
  }

  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = block_m + warp_m + i * 16 + g;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int col = block_n + warp_n + j * 8 + t * 2;
      *reinterpret_cast<half2*>(C + (size_t)row * N + col) = __floats2half2_rn(acc[i][j][0], acc[i][j][1]);
      *reinterpret_cast<half2*>(C + (size_t)(row + 8) * N + col) = __floats2half2_rn(acc[i][j][2], acc[i][j][3]);
    }
  }
}

int main(int argc, char** argv) {
  const int M = argc > 1 ? std::atoi(argv[1]) : 512;
  const int N = argc > 2 ? std::atoi(argv[2]) : 384;
  const int K = argc > 3 ? std::atoi(argv[3]) : 256;
  if (M % kBM || N % kBN || K % kBK) {
    std::printf("unsupported size\n");
    return 1;
  }

  std::mt19937 gen(0);
  std::uniform_real_distribution<float> dist(-1.f, 1.f);
  std::vector<half> a((size_t)M * K), b((size_t)N * K), c((size_t)M * N);
  for (auto& v : a) v = __float2half(dist(gen));
  for (auto& v : b) v = __float2half(dist(gen));

  half *da, *db, *dc;
  CUDA_CHECK(cudaMalloc(&da, a.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&db, b.size() * sizeof(half)));
  CUDA_CHECK(cudaMalloc(&dc, c.size() * sizeof(half)));
  CUDA_CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
  CUDA_CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));

  const dim3 grid(N / kBN, M / kBM);
  hgemm_tn_mma<<<grid, kThreads>>>(da, db, dc, M, N, K);
  CUDA_CHECK(cudaDeviceSynchronize());

  const auto t0 = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) hgemm_tn_mma<<<grid, kThreads>>>(da, db, dc, M, N, K);
  CUDA_CHECK(cudaDeviceSynchronize());
  const double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() / 100;
  CUDA_CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(half), cudaMemcpyDeviceToHost));

  // ランダムに 2000 点だけ検証
  double worst = 0;
  for (int s = 0; s < 2000; ++s) {
    const int m = gen() % M, n = gen() % N;
    double ref = 0;
    for (int k = 0; k < K; ++k) ref += (double)__half2float(a[(size_t)m * K + k]) * __half2float(b[(size_t)n * K + k]);
    worst = std::max(worst, std::fabs(ref - __half2float(c[(size_t)m * N + n])) / (1.0 + std::fabs(ref)));
  }
  std::printf("%.3f TFLOPS, max rel err %.5f\n", 2.0 * M * N * K / sec * 1e-12, worst);
  CUDA_CHECK(cudaFree(da));
  CUDA_CHECK(cudaFree(db));
  CUDA_CHECK(cudaFree(dc));
  return worst < 2e-3 ? 0 : 1;
}
