#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace quant {

// One warp: 16 rows of x by 8 output channels. Weights int8 [n, k], one scale per output channel.
__device__ __forceinline__ uint32_t dequant2(int8_t lo, int8_t hi) {
  half2 v = __halves2half2(__int2half_rn(lo), __int2half_rn(hi));
  return *reinterpret_cast<uint32_t*>(&v);
}

template <int kWarps>
__global__ void w8a16_linear_kernel(half* __restrict__ y, const half* __restrict__ x,
                                    const int8_t* __restrict__ weight, const float* __restrict__ weight_scale,
                                    const half* __restrict__ bias, const int m, const int n, const int k) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int g = lane / 4, t = lane % 4;
  const int m0 = blockIdx.y * 16;
  const int n0 = (blockIdx.x * kWarps + warp) * 8;
  if (n0 >= n) return;

  float acc[4] = {0.f, 0.f, 0.f, 0.f};
  const bool lo_ok = m0 + g < m, hi_ok = m0 + g + 8 < m;
  const half* x_lo = x + (size_t)(m0 + g) * k;
  const half* x_hi = x_lo + (size_t)8 * k;
  const int8_t* w = weight + (size_t)(n0 + g) * k;
  for (int k0 = 0; k0 < k; k0 += 16) {
    const int c = k0 + 2 * t;
    uint32_t a0 = lo_ok ? *reinterpret_cast<const uint32_t*>(x_lo + c) : 0;
    uint32_t a1 = hi_ok ? *reinterpret_cast<const uint32_t*>(x_hi + c) : 0;
    uint32_t a2 = lo_ok ? *reinterpret_cast<const uint32_t*>(x_lo + c + 8) : 0;
    uint32_t a3 = hi_ok ? *reinterpret_cast<const uint32_t*>(x_hi + c + 8) : 0;
    uint32_t b0 = dequant2(w[c], w[c + 1]);
    uint32_t b1 = dequant2(w[c + 8], w[c + 9]);
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
        : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = m0 + g + (i / 2) * 8, col = n0 + 2 * t + i % 2;
    if (row < m) {
      float v = acc[i] * weight_scale[col];
      if (bias != nullptr) v += __half2float(bias[col]);
      y[(size_t)row * n + col] = __float2half(v);
    }
  }
}

void w8a16_linear(half* y, const half* x, const int8_t* weight, const float* weight_scale, const half* bias, int m,
                  int n, int k, cudaStream_t stream) {
  constexpr int kWarps = 4;
  dim3 grid((n + 8 * kWarps - 1) / (8 * kWarps), (m + 15) / 16);
  w8a16_linear_kernel<kWarps><<<grid, 32 * kWarps, 0, stream>>>(y, x, weight, weight_scale, bias, m, n, k);
}

}  // namespace quant
