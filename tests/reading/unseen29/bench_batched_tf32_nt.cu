// bench_batched_tf32_nt: strided batched GEMM, C[b] = A[b] * B[b]^T, fp32 data on tf32 tensor cores
//
//   ./bench_batched_tf32_nt [--csv] [--iters n] [--warmup n]
//
// A: batch x M x K, B: batch x N x K, C: batch x M x N
// hand written kernel only, the cuBLAS numbers are in results/

#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <vector>
#include <algorithm>

#define CUDA_CHECK(e)                                                                  \
  if (cudaError_t err__ = (e); err__ != cudaSuccess) {                                 \
    fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(err__));      \
    std::abort();                                                                      \
  }

namespace kern {

constexpr int TM = 64, TN = 64, TK = 32;
constexpr int PITCH = TK + 4;  // 36 : (4 * row + col) % 32 all different for the fragments
constexpr int STAGE = (TM + TN) * PITCH;

__device__ __forceinline__ uint32_t to_tf32(float x) {
  uint32_t r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

__device__ __forceinline__ void async_copy16(float* dst, const float* src) {
  unsigned s = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(s), "l"(src));
}

__device__ __forceinline__ void mma_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// 64 + 64 rows of 8 vectors
__device__ __forceinline__ void fetch(float* stage, const float* A, const float* B, int K, int k0) {
#pragma unroll
  for (int it = 0; it < 4; ++it) {
    const int v = threadIdx.x + it * 128;
    const int r = v >> 3, c = (v & 7) << 2;
    async_copy16(stage + r * PITCH + c, A + (size_t)r * K + k0 + c);
    async_copy16(stage + (TM + r) * PITCH + c, B + (size_t)r * K + k0 + c);
  }
  asm volatile("cp.async.commit_group;");
}

__global__ void __launch_bounds__(128) batched_tf32_nt(const float* __restrict__ A, const float* __restrict__ B,
                                                       float* __restrict__ C, int M, int N, int K, int64_t strideA,
                                                       int64_t strideB, int64_t strideC, float alpha) {
  __shared__ __align__(16) float smem[2 * STAGE];

  A += blockIdx.z * strideA + (size_t)blockIdx.y * TM * K;
  B += blockIdx.z * strideB + (size_t)blockIdx.x * TN * K;
  C += blockIdx.z * strideC;

  const int lane = threadIdx.x & 31;
  const int gid = lane >> 2, tig = lane & 3;
  const int wm = (threadIdx.x >> 6) * 32;
  const int wn = ((threadIdx.x >> 5) & 1) * 32;

  float acc[2][4][4] = {};

  const int steps = K / TK;
  fetch(smem, A, B, K, 0);
  for (int s = 0; s < steps; ++s) {
    if (s + 1 < steps) {
      fetch(smem + ((s + 1) & 1) * STAGE, A, B, K, (s + 1) * TK);
      asm volatile("cp.async.wait_group 1;");
    } else {
      asm volatile("cp.async.wait_group 0;");
    }
    __syncthreads();

    const float* sa = smem + (s & 1) * STAGE;
    const float* sb = sa + TM * PITCH;
#pragma unroll
    for (int kk = 0; kk < TK; kk += 8) {
      uint32_t a[2][4], b[4][2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float* p = sa + (wm + i * 16 + gid) * PITCH + kk + tig;
        a[i][0] = to_tf32(p[0]);
        a[i][1] = to_tf32(p[8 * PITCH]);
        a[i][2] = to_tf32(p[4]);
        a[i][3] = to_tf32(p[8 * PITCH + 4]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float* p = sb + (wn + j * 8 + gid) * PITCH + kk + tig;
        b[j][0] = to_tf32(p[0]);
        b[j][1] = to_tf32(p[4]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma_tf32(acc[i][j], a[i], b[j]);
    }
    __syncthreads();
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = blockIdx.y * TM + wm + i * 16 + gid;
      const int c = blockIdx.x * TN + wn + j * 8 + tig * 2;
      *(float2*)(C + (size_t)r * N + c) = make_float2(alpha * acc[i][j][0], alpha * acc[i][j][1]);
      *(float2*)(C + (size_t)(r + 8) * N + c) = make_float2(alpha * acc[i][j][2], alpha * acc[i][j][3]);
    }
}

}  // namespace kern

struct Case { int batch, m, n, k; };

static const Case cases[] = {
    {64, 64, 64, 64}, {96, 128, 128, 64}, {96, 512, 512, 64}, {32, 256, 192, 320}, {16, 1024, 1024, 128}, {4, 2048, 2048, 2048},
};

static double check(const Case& c, const std::vector<float>& a, const std::vector<float>& b,
                    const std::vector<float>& out, float alpha) {
  double worst = 0;
  for (int t = 0; t < 500; ++t) {
    const int z = rand() % c.batch, i = rand() % c.m, j = rand() % c.n;
    double s = 0;
    for (int k = 0; k < c.k; ++k)
      s += (double)a[((size_t)z * c.m + i) * c.k + k] * b[((size_t)z * c.n + j) * c.k + k];
    worst = std::max(worst, std::fabs(alpha * s - out[((size_t)z * c.m + i) * c.n + j]) / std::sqrt((double)c.k));
  }
  return worst;
}

int main(int argc, char** argv) {
  bool csv = false;
  int iters = 20, warmup = 3;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "--csv")) csv = true;
    else if (!strcmp(argv[i], "--iters") && i + 1 < argc) iters = atoi(argv[++i]);
    else if (!strcmp(argv[i], "--warmup") && i + 1 < argc) warmup = atoi(argv[++i]);
  }
  printf(csv ? "batch,m,n,k,ms,tflops,err\n" : "%6s %6s %6s %6s %10s %8s %10s\n", "batch", "m", "n", "k", "ms", "TFLOPS", "err");

  int bad = 0;
  for (const Case& c : cases) {
    const size_t na = (size_t)c.batch * c.m * c.k, nb = (size_t)c.batch * c.n * c.k, nc = (size_t)c.batch * c.m * c.n;
    std::vector<float> ha(na), hb(nb), hc(nc);
    for (auto& x : ha) x = rand() / (float)RAND_MAX - 0.5f;
    for (auto& x : hb) x = rand() / (float)RAND_MAX - 0.5f;
    float *a, *b, *d;
    CUDA_CHECK(cudaMalloc(&a, na * 4));
    CUDA_CHECK(cudaMalloc(&b, nb * 4));
    CUDA_CHECK(cudaMalloc(&d, nc * 4));
    CUDA_CHECK(cudaMemcpy(a, ha.data(), na * 4, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(b, hb.data(), nb * 4, cudaMemcpyHostToDevice));

    const float alpha = 0.125f;
    const dim3 grid(c.n / kern::TN, c.m / kern::TM, c.batch);
    auto launch = [&] {
      kern::batched_tf32_nt<<<grid, 128>>>(a, b, d, c.m, c.n, c.k, (int64_t)c.m * c.k, (int64_t)c.n * c.k,
                                           (int64_t)c.m * c.n, alpha);
    };
    cudaEvent_t t0, t1;
    CUDA_CHECK(cudaEventCreate(&t0));
    CUDA_CHECK(cudaEventCreate(&t1));
    for (int i = 0; i < warmup; ++i) launch();
    CUDA_CHECK(cudaEventRecord(t0));
    for (int i = 0; i < iters; ++i) launch();
    CUDA_CHECK(cudaEventRecord(t1));
    CUDA_CHECK(cudaEventSynchronize(t1));
    float ms;
    CUDA_CHECK(cudaEventElapsedTime(&ms, t0, t1));
    ms /= iters;
    CUDA_CHECK(cudaMemcpy(hc.data(), d, nc * 4, cudaMemcpyDeviceToHost));
    const double err = check(c, ha, hb, hc, alpha);
    bad += err > 1e-3;
    printf(csv ? "%d,%d,%d,%d,%g,%g,%g\n" : "%6d %6d %6d %6d %10.4f %8.2f %10.2e\n", c.batch, c.m, c.n, c.k, ms,
           2e-9 * c.batch * c.m * c.n * c.k / ms, err);
    cudaFree(a); cudaFree(b); cudaFree(d);
    cudaEventDestroy(t0); cudaEventDestroy(t1);
  }
  return bad;
}
