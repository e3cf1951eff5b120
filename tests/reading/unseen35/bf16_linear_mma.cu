// Companion code for the post "Writing a bf16 linear layer with mma.sync, part 3".
//
//   Y[M, N] = X[M, K] * W[N, K]^T          (bf16 in, bf16 out, fp32 accumulate)
//
// Part 1 was the naive kernel, part 2 introduced ldmatrix. This part adds
//   * an XOR swizzle instead of padding, so that cp.async and ldmatrix are both
//     free of bank conflicts
//   * a three stage cp.async pipeline with a single __syncthreads per k step
//   * ragged M / N / K through the zero fill form of cp.async
//
// K and N must be multiples of 8 (16 byte rows). M can be anything.
//
// nvcc -std=c++17 -O3 -arch=sm_80 bf16_linear_mma.cu -o bf16_linear && ./bf16_linear

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#define CHECK(x)                                                              \
  if (cudaError_t e = (x); e != cudaSuccess) {                                \
    std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__,                    \
                 cudaGetErrorString(e));                                      \
    std::exit(1);                                                             \
  }

using bf16 = __nv_bfloat16;

namespace cfg {
constexpr int kBlockM = 128;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kStages = 3;
constexpr int kThreads = 128;  // 2 x 2 warps
constexpr int kWarpM = 64;
constexpr int kWarpN = 32;
constexpr int kMt = kWarpM / 16;  // 4
constexpr int kNt = kWarpN / 8;   // 4
}  // namespace cfg

// A row of a tile is 32 bf16 = 64 bytes = four 16 byte chunks. Two rows make up
// the 128 bytes of all banks, so the chunk index is xored with (row / 2) % 4.
__device__ __forceinline__ int swizzle(int row, int chunk) {
  return row * cfg::kBlockK + ((chunk ^ ((row >> 1) & 3)) << 3);
}

__device__ __forceinline__ uint32_t smem_ptr(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Copies 16 bytes, or writes 16 zero bytes when pred is false.
__device__ __forceinline__ void cp_async_zfill(void* dst, const void* src, bool pred) {
  int bytes = pred ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(smem_ptr(dst)),
               "l"(src), "r"(bytes));
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(smem_ptr(p)));
}

__device__ __forceinline__ void ldmatrix_x2(uint32_t (&r)[2], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];\n"
               : "=r"(r[0]), "=r"(r[1])
               : "r"(smem_ptr(p)));
}

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4],
                                          const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__global__ void __launch_bounds__(cfg::kThreads)
bf16_linear_kernel(const bf16* __restrict__ X, const bf16* __restrict__ W,
                   bf16* __restrict__ Y, int M, int N, int K) {
  using namespace cfg;
  __shared__ __align__(128) bf16 sX[kStages][kBlockM * kBlockK];
  __shared__ __align__(128) bf16 sW[kStages][kBlockN * kBlockK];

  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int warp = tid >> 5;
  const int warp_m = (warp >> 1) * kWarpM;
  const int warp_n = (warp & 1) * kWarpN;
  const int m0 = blockIdx.y * kBlockM;
  const int n0 = blockIdx.x * kBlockN;
  const int k_tiles = (K + kBlockK - 1) / kBlockK;

  auto load_stage = [&](int stage, int kt) {
    const int chunk = tid & 3;
    const int k = kt * kBlockK + chunk * 8;
#pragma unroll
    for (int r = tid >> 2; r < kBlockM; r += kThreads / 4) {
      const bool in = (m0 + r < M) && (k < K);
      const bf16* src = in ? X + size_t(m0 + r) * K + k : X;
      cp_async_zfill(&sX[stage][swizzle(r, chunk)], src, in);
    }
#pragma unroll
    for (int r = tid >> 2; r < kBlockN; r += kThreads / 4) {
      const bool in = (n0 + r < N) && (k < K);
      const bf16* src = in ? W + size_t(n0 + r) * K + k : W;
      cp_async_zfill(&sW[stage][swizzle(r, chunk)], src, in);
    }
  };

  float acc[kMt][kNt][4] = {};

#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) {
    if (s < k_tiles) load_stage(s, s);
    asm volatile("cp.async.commit_group;\n");
  }

  for (int kt = 0; kt < k_tiles; ++kt) {
    // All but the newest kStages - 2 groups have landed -> tile kt is there.
    asm volatile("cp.async.wait_group %0;\n" ::"n"(kStages - 2));
    __syncthreads();

    // Refill the stage that was consumed in the previous iteration. The commit is
    // unconditional so that the group count stays right at the tail.
    const int next = kt + kStages - 1;
    if (next < k_tiles) load_stage(next % kStages, next);
    asm volatile("cp.async.commit_group;\n");

    const bf16* tX = sX[kt % kStages];
    const bf16* tW = sW[kt % kStages];
#pragma unroll
    for (int ks = 0; ks < kBlockK / 16; ++ks) {
      uint32_t a[kMt][4];
      uint32_t b[kNt][2];
#pragma unroll
      for (int i = 0; i < kMt; ++i) {
        const int row = warp_m + i * 16 + (lane & 15);
        ldmatrix_x4(a[i], &tX[swizzle(row, ks * 2 + (lane >> 4))]);
      }
#pragma unroll
      for (int j = 0; j < kNt; ++j) {
        // only the addresses of lanes 0..15 count for .x2
        const int row = warp_n + j * 8 + (lane & 7);
        ldmatrix_x2(b[j], &tW[swizzle(row, ks * 2 + ((lane >> 3) & 1))]);
      }
#pragma unroll
      for (int i = 0; i < kMt; ++i)
#pragma unroll
        for (int j = 0; j < kNt; ++j) mma_16816(acc[i][j], a[i], b[j]);
    }
  }

  // c0,c1 -> row lane/4, columns 2*(lane%4) + {0,1};  c2,c3 -> eight rows below
#pragma unroll
  for (int i = 0; i < kMt; ++i) {
#pragma unroll
    for (int j = 0; j < kNt; ++j) {
      const int row = m0 + warp_m + i * 16 + (lane >> 2);
      const int col = n0 + warp_n + j * 8 + (lane & 3) * 2;
      if (col >= N) continue;
      if (row < M)
        *reinterpret_cast<__nv_bfloat162*>(&Y[size_t(row) * N + col]) =
            __floats2bfloat162_rn(acc[i][j][0], acc[i][j][1]);
      if (row + 8 < M)
        *reinterpret_cast<__nv_bfloat162*>(&Y[size_t(row + 8) * N + col]) =
            __floats2bfloat162_rn(acc[i][j][2], acc[i][j][3]);
    }
  }
}

static bool test(int M, int N, int K) {
  std::mt19937 rng(42);
  std::normal_distribution<float> dist(0.f, 1.f);
  std::vector<bf16> x(size_t(M) * K), w(size_t(N) * K), y(size_t(M) * N);
  for (auto& v : x) v = __float2bfloat16(dist(rng));
  for (auto& v : w) v = __float2bfloat16(dist(rng) / std::sqrt(float(K)));

  bf16 *dx, *dw, *dy;
  CHECK(cudaMalloc(&dx, x.size() * sizeof(bf16)));
  CHECK(cudaMalloc(&dw, w.size() * sizeof(bf16)));
  CHECK(cudaMalloc(&dy, y.size() * sizeof(bf16)));
  CHECK(cudaMemcpy(dx, x.data(), x.size() * sizeof(bf16), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(dw, w.data(), w.size() * sizeof(bf16), cudaMemcpyHostToDevice));

  dim3 grid((N + cfg::kBlockN - 1) / cfg::kBlockN, (M + cfg::kBlockM - 1) / cfg::kBlockM);
  bf16_linear_kernel<<<grid, cfg::kThreads>>>(dx, dw, dy, M, N, K);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(y.data(), dy, y.size() * sizeof(bf16), cudaMemcpyDeviceToHost));

  double worst = 0;
  for (int m = 0; m < M; ++m) {
    for (int n = 0; n < N; ++n) {
      float ref = 0.f;
      for (int k = 0; k < K; ++k)
        ref += __bfloat162float(x[size_t(m) * K + k]) * __bfloat162float(w[size_t(n) * K + k]);
      // bf16 keeps 8 bits, so 1/128 relative plus a little for cancellation
      double err = std::fabs(__bfloat162float(y[size_t(m) * N + n]) - ref);
      worst = std::max(worst, err / (1.0 + std::fabs(ref)));
    }
  }
  bool ok = worst < 1e-2;
  std::printf("M=%5d N=%5d K=%5d   worst scaled error %.2e   %s\n", M, N, K, worst,
              ok ? "ok" : "MISMATCH");
  CHECK(cudaFree(dx));
  CHECK(cudaFree(dw));
  CHECK(cudaFree(dy));
  return ok;
}

int main() {
  bool ok = true;
  ok &= test(128, 64, 32);
  ok &= test(256, 256, 512);
  ok &= test(1, 512, 256);
  ok &= test(77, 200, 136);
  ok &= test(300, 72, 1000);
  return ok ? 0 : 1;
}
