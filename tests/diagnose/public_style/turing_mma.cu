// y = x * W^T + b for Turing: mma.m16n8k8, fp16 in, fp32 sums. x [M][K], W [N][K] (as torch.nn.Linear keeps it).
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <stdexcept>

namespace turing {

constexpr int kBlockM = 64;
constexpr int kBlockN = 64;
constexpr int kBlockK = 32;
constexpr int kPad = 8;                       // halves, against bank conflicts
constexpr int kLd = kBlockK + kPad;
constexpr int kThreads = 128;

#define DIV_UP(a, b) (((a) + (b) - 1) / (b))

struct alignas(16) Half8 { half v[8]; };

__device__ __forceinline__ void mma_1688(float* d, uint32_t a0, uint32_t a1, uint32_t b) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(b));
}

__device__ __forceinline__ uint32_t ld_pair(const half* p) { return *reinterpret_cast<const uint32_t*>(p); }

struct Fetch {
  Half8 x[2];
  Half8 w[2];

  __device__ void load(const half* __restrict__ gx, const half* __restrict__ gw, int M, int N, int K, int k0, int tid) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = tid + i * kThreads;
      const int row = c / (kBlockK / 8);
      const int col = c % (kBlockK / 8) * 8;
      const int m = blockIdx.y * kBlockM + row;
      const int n = blockIdx.x * kBlockN + row;
      x[i] = m < M ? *reinterpret_cast<const Half8*>(gx + (size_t)m * K + k0 + col) : Half8{};
      w[i] = n < N ? *reinterpret_cast<const Half8*>(gw + (size_t)n * K + k0 + col) : Half8{};
    }
  }
  __device__ void store(half* sx, half* sw, int tid) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int c = tid + i * kThreads;
      const int row = c / (kBlockK / 8);
      const int col = c % (kBlockK / 8) * 8;
      *reinterpret_cast<Half8*>(sx + row * kLd + col) = x[i];
      *reinterpret_cast<Half8*>(sw + row * kLd + col) = w[i];
    }
  }
};

__global__ void __launch_bounds__(kThreads)
linear_forward(const half* __restrict__ x, const half* __restrict__ weight, const float* __restrict__ bias,
               half* __restrict__ y, int M, int N, int K) {
  __shared__ alignas(16) half smem_x[kBlockM * kLd];
  __shared__ alignas(16) half smem_w[kBlockN * kLd];

  const int tid = threadIdx.x;
  const int lane = tid & 31;
  const int wid = tid >> 5;
  const int g = lane >> 2;          // "groupID" of the PTX manual
  const int t = lane & 3;           // "threadID_in_group"
  const int warp_m = (wid & 1) * 32;
  const int warp_n = (wid >> 1) * 32;

  float acc[2][4][4];
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[i][j][e] = 0.f;

  Fetch next;
  next.load(x, weight, M, N, K, 0, tid);
  next.store(smem_x, smem_w, tid);
  __syncthreads();

  for (int k0 = 0; k0 < K; k0 += kBlockK) {
    const bool more = k0 + kBlockK < K;
    if (more) next.load(x, weight, M, N, K, k0 + kBlockK, tid);

#pragma unroll
    for (int kk = 0; kk < kBlockK; kk += 8) {
      uint32_t a[2][2], b[4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const half* p = smem_x + (warp_m + i * 16 + g) * kLd + kk + t * 2;
        a[i][0] = ld_pair(p);
        a[i][1] = ld_pair(p + 8 * kLd);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) b[j] = ld_pair(smem_w + (warp_n + j * 8 + g) * kLd + kk + t * 2);
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) mma_1688(acc[i][j], a[i][0], a[i][1], b[j]);
    }
    __syncthreads();
    if (more) {
      next.store(smem_x, smem_w, tid);
      __syncthreads();
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; e += 2) {
        const int m = blockIdx.y * kBlockM + warp_m + i * 16 + g + e / 2 * 8;
        const int n = blockIdx.x * kBlockN + warp_n + j * 8 + t * 2;
        if (m < M && n < N) {
          const float v0 = acc[i][j][e] + bias[n];
          const float v1 = acc[i][j][e + 1] + bias[n + 1];
          *reinterpret_cast<half2*>(y + (size_t)m * N + n) = __floats2half2_rn(v0, v1);
        }
      }
}

}  // namespace turing

void linear(const half* x, const half* w, const float* b, half* y, int M, int N, int K, cudaStream_t stream) {
  using namespace turing;
  if (K % kBlockK || N % 2) throw std::invalid_argument("linear: K must be a multiple of 32 and N even");
  dim3 grid(DIV_UP(N, kBlockN), DIV_UP(M, kBlockM));
  linear_forward<<<grid, kThreads, 0, stream>>>(x, w, b, y, M, N, K);
}
