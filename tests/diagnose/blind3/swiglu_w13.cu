// out = silu(x W1^T) * (x W3^T): the first half of a gated MLP, w1 and w3 stacked in one [2 * N, K] weight.
//
// setup.py builds it as a torch extension; bf16 only, sm_80 and newer.

#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) \
  CHECK_CUDA(x);       \
  CHECK_CONTIGUOUS(x)

namespace {

using bf16 = __nv_bfloat16;
using bf162 = __nv_bfloat162;

template <typename T>
__host__ __device__ constexpr T cdiv(T a, T b) {
  return (a + b - 1) / b;
}

__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ __forceinline__ void mma_16816(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ uint32_t pair(const bf16* p) { return *reinterpret_cast<const uint32_t*>(p); }

template <int BM, int BN, int BK>
struct Config {
  static constexpr int kWarpsM = BM / 16;
  static constexpr int kWarpsN = BN / 16;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr int kStride = BK + 8;
  static constexpr int kVecs = BK / 8;
};

template <int BM, int BN, int BK>
__global__ void swiglu_w13_kernel(const bf16* __restrict__ x, const bf16* __restrict__ w13, bf16* __restrict__ out,
                                  int m, int n, int k) {
  using C = Config<BM, BN, BK>;
  __shared__ __align__(16) bf16 xs[BM][C::kStride];
  __shared__ __align__(16) bf16 ws[2][BN][C::kStride];

  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int group = lane >> 2;      // row of a fragment
  const int tig = lane & 3;         // thread in group
  const int wm = (warp / C::kWarpsN) * 16;
  const int wn = (warp % C::kWarpsN) * 16;
  const int row0 = blockIdx.x * BM;
  const int col0 = blockIdx.y * BN;

  float gate[2][4] = {};
  float up[2][4] = {};

  for (int k0 = 0; k0 < k; k0 += BK) {
    for (int i = threadIdx.x; i < BM * C::kVecs; i += C::kThreads) {
      const int r = i / C::kVecs;
      const int c = (i % C::kVecs) * 8;
      uint4 v = {0, 0, 0, 0};
      if (row0 + r < m && k0 + c < k) v = *reinterpret_cast<const uint4*>(x + int64_t(row0 + r) * k + k0 + c);
      *reinterpret_cast<uint4*>(&xs[r][c]) = v;
    }
    for (int i = threadIdx.x; i < 2 * BN * C::kVecs; i += C::kThreads) {
      const int which = i / (BN * C::kVecs);  // 0: w1, 1: w3
      const int r = i / C::kVecs % BN;
      const int c = (i % C::kVecs) * 8;
      uint4 v = {0, 0, 0, 0};
      if (col0 + r < n && k0 + c < k)
        v = *reinterpret_cast<const uint4*>(w13 + (int64_t(which) * n + col0 + r) * k + k0 + c);
      *reinterpret_cast<uint4*>(&ws[which][r][c]) = v;
    }
    __syncthreads();

#pragma unroll
    for (int kk = 0; kk < BK; kk += 16) {
      uint32_t a[4];
      a[0] = pair(&xs[wm + group][kk + tig * 2]);
      a[1] = pair(&xs[wm + group + 8][kk + tig * 2]);
      a[2] = pair(&xs[wm + group][kk + tig * 2 + 8]);
      a[3] = pair(&xs[wm + group + 8][kk + tig * 2 + 8]);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        uint32_t b[2];
        b[0] = pair(&ws[0][wn + j * 8 + group][kk + tig * 2]);
        b[1] = pair(&ws[0][wn + j * 8 + group][kk + tig * 2 + 8]);
        mma_16816(gate[j], a, b);
        b[0] = pair(&ws[1][wn + j * 8 + group][kk + tig * 2]);
        b[1] = pair(&ws[1][wn + j * 8 + group][kk + tig * 2 + 8]);
        mma_16816(up[j], a, b);
      }
    }
    __syncthreads();
  }

#pragma unroll
  for (int j = 0; j < 2; ++j) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row0 + wm + group + half * 8;
      const int c = col0 + wn + j * 8 + tig * 2;
      if (r < m && c < n) {
        const float lo = silu(gate[j][half * 2]) * up[j][half * 2];
        const float hi = silu(gate[j][half * 2 + 1]) * up[j][half * 2 + 1];
        *reinterpret_cast<bf162*>(out + int64_t(r) * n + c) = __floats2bfloat162_rn(lo, hi);
      }
    }
  }
}

template <int BM, int BN, int BK>
void launch_swiglu(const torch::Tensor& x, const torch::Tensor& w13, torch::Tensor& out) {
  const int m = x.numel() / x.size(-1);
  const int k = x.size(-1);
  const int n = w13.size(0) / 2;
  dim3 grid(cdiv(m, BM), cdiv(n, BN));
  swiglu_w13_kernel<BM, BN, BK><<<grid, Config<BM, BN, BK>::kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const bf16*>(x.data_ptr<at::BFloat16>()),
      reinterpret_cast<const bf16*>(w13.data_ptr<at::BFloat16>()),
      reinterpret_cast<bf16*>(out.data_ptr<at::BFloat16>()), m, n, k);
}

}  // namespace

torch::Tensor swiglu_w13(torch::Tensor x, torch::Tensor w13) {
  CHECK_INPUT(x);
  CHECK_INPUT(w13);
  TORCH_CHECK(x.size(-1) == w13.size(1), "inner dimensions differ");
  TORCH_CHECK(x.size(-1) % 8 == 0 && w13.size(0) % 4 == 0);
  auto sizes = x.sizes().vec();
  sizes.back() = w13.size(0) / 2;
  auto out = torch::empty(sizes, x.options());
  launch_swiglu<32, 32, 32>(x, w13, out);
  return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("swiglu_w13", &swiglu_w13, "silu(x W1^T) * (x W3^T)"); }
