// Row softmax where the row sum is done by the tensor cores.
//
// A 16 x 16 tile of exponentials times a 16 x 8 tile of ones gives the sixteen
// partial row sums, replicated over the eight columns, for one mma per tile and
// without any shuffles. To not lose the low bits of exp() the value is split
// into two halves, p = hi + lo, and both go through the tensor core.
#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <cuda_fp16.h>

namespace {

constexpr unsigned kFullMask = 0xffffffffu;
constexpr uint32_t kOnes = 0x3C003C00u;  // half2(1, 1)
constexpr int kRowsPerWarp = 16;

__device__ __forceinline__ void mma_ones(float (&acc)[4], const uint32_t (&a)[4]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(kOnes), "r"(kOnes));
}

struct SplitPair {
  uint32_t hi, lo;
};

__device__ __forceinline__ SplitPair split2(float x, float y) {
  const __half2 h = __floats2half2_rn(x, y);
  const float2 back = __half22float2(h);
  const __half2 l = __floats2half2_rn(x - back.x, y - back.y);
  SplitPair s;
  s.hi = *reinterpret_cast<const uint32_t*>(&h);
  s.lo = *reinterpret_cast<const uint32_t*>(&l);
  return s;
}

template <int WARPS>
__global__ void __launch_bounds__(WARPS * 32)
softmax_rows_kernel(const __half* __restrict__ in, __half* __restrict__ out, int rows, int cols, float scale) {
  const int warp = blockIdx.x * WARPS + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int r_lo = warp * kRowsPerWarp + lane / 4;
  const int r_hi = r_lo + 8;
  const int c_lane = (lane % 4) * 2;
  if (warp * kRowsPerWarp >= rows) return;  // whole warp leaves together

  auto at = [&](int r, int c) -> float {
    return (r < rows && c < cols) ? __half2float(in[(int64_t)r * cols + c]) * scale : -INFINITY;
  };

  float max_lo = -INFINITY, max_hi = -INFINITY;
  for (int c = c_lane; c < cols; c += 8) {
    max_lo = fmaxf(max_lo, fmaxf(at(r_lo, c), at(r_lo, c + 1)));
    max_hi = fmaxf(max_hi, fmaxf(at(r_hi, c), at(r_hi, c + 1)));
  }
#pragma unroll
  for (int o = 1; o < 4; o *= 2) {
    max_lo = fmaxf(max_lo, __shfl_xor_sync(kFullMask, max_lo, o));
    max_hi = fmaxf(max_hi, __shfl_xor_sync(kFullMask, max_hi, o));
  }
  // rows past the end: exp(-inf - 0) = 0, keeps NaNs out of the mma
  if (r_lo >= rows) max_lo = 0.f;
  if (r_hi >= rows) max_hi = 0.f;

  float acc[4] = {0.f, 0.f, 0.f, 0.f};
  for (int c0 = 0; c0 < cols; c0 += 16) {
    const int c = c0 + c_lane;
    uint32_t hi[4], lo[4];
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const int r = (q & 1) ? r_hi : r_lo;
      const float m = (q & 1) ? max_hi : max_lo;
      const int cc = c + ((q & 2) ? 8 : 0);
      const SplitPair s = split2(expf(at(r, cc) - m), expf(at(r, cc + 1) - m));
      hi[q] = s.hi;
      lo[q] = s.lo;
    }
    mma_ones(acc, hi);
    mma_ones(acc, lo);
  }

  const float inv_lo = 1.f / acc[0];
  const float inv_hi = 1.f / acc[2];
  for (int c = c_lane; c < cols; c += 8) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (c + e >= cols) break;
      if (r_lo < rows) out[(int64_t)r_lo * cols + c + e] = __float2half(expf(at(r_lo, c + e) - max_lo) * inv_lo);
      if (r_hi < rows) out[(int64_t)r_hi * cols + c + e] = __float2half(expf(at(r_hi, c + e) - max_hi) * inv_hi);
    }
  }
}

}  // namespace

at::Tensor softmax_lastdim(const at::Tensor& x, double scale) {
  TORCH_CHECK(x.is_cuda() && x.scalar_type() == at::kHalf, "expected a CUDA half tensor");
  auto xc = x.contiguous();
  auto y = at::empty_like(xc);
  const int cols = static_cast<int>(xc.size(-1));
  const int rows = static_cast<int>(xc.numel() / cols);
  constexpr int warps = 4;
  const int blocks = (rows + warps * kRowsPerWarp - 1) / (warps * kRowsPerWarp);
  softmax_rows_kernel<warps><<<blocks, warps * 32, 0, at::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const __half*>(xc.data_ptr<at::Half>()), reinterpret_cast<__half*>(y.data_ptr<at::Half>()),
      rows, cols, static_cast<float>(scale));
  AT_CUDA_CHECK(cudaGetLastError());
  return y;
}

TORCH_LIBRARY(tc_softmax, m) { m.def("softmax_lastdim(Tensor x, float scale) -> Tensor", &softmax_lastdim); }
