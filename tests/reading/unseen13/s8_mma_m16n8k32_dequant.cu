#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <cstdint>

// D[m][n] = half( scale_x[m] * scale_w[n] * sum_k x[m][k] * w[n][k] ),  x, w int8; mma.m16n8k32
struct QLinearParams {
  const int8_t* x;
  const int8_t* w;
  const float* scale_x;
  const float* scale_w;
  half* out;
  int m, n, k;
};

__device__ __forceinline__ void imma16832(int (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
                                          uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

template <int kWarpsM, int kWarpsN>
__global__ void __launch_bounds__(32 * kWarpsM * kWarpsN) qlinear_kernel(const QLinearParams p) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m0 = (blockIdx.x * kWarpsM + warp % kWarpsM) * 16;
  const int n0 = (blockIdx.y * kWarpsN + warp / kWarpsM) * 32;
  const int g = lane / 4, t = lane % 4;

  int acc[4][4] = {};
  const int8_t* xr = p.x + (int64_t)(m0 + g) * p.k + t * 4;
  for (int k = 0; k < p.k; k += 32) {
    const uint32_t a0 = *reinterpret_cast<const uint32_t*>(xr + k);
    const uint32_t a1 = *reinterpret_cast<const uint32_t*>(xr + 8 * (int64_t)p.k + k);
    const uint32_t a2 = *reinterpret_cast<const uint32_t*>(xr + k + 16);
    const uint32_t a3 = *reinterpret_cast<const uint32_t*>(xr + 8 * (int64_t)p.k + k + 16);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int8_t* wr = p.w + (int64_t)(n0 + j * 8 + g) * p.k + k + t * 4;
      imma16832(acc[j], a0, a1, a2, a3, *reinterpret_cast<const uint32_t*>(wr), *reinterpret_cast<const uint32_t*>(wr + 16));
    }
  }

  const float s0 = p.scale_x[m0 + g], s1 = p.scale_x[m0 + g + 8];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int c = n0 + j * 8 + t * 2;
    const float w0 = p.scale_w[c], w1 = p.scale_w[c + 1];
    *reinterpret_cast<half2*>(p.out + (int64_t)(m0 + g) * p.n + c) = __floats2half2_rn(acc[j][0] * s0 * w0, acc[j][1] * s0 * w1);
    *reinterpret_cast<half2*>(p.out + (int64_t)(m0 + g + 8) * p.n + c) = __floats2half2_rn(acc[j][2] * s1 * w0, acc[j][3] * s1 * w1);
  }
}

void qlinear(const QLinearParams& p, cudaStream_t stream) {
  constexpr int kWarpsM = 2, kWarpsN = 2;
  dim3 grid(p.m / (16 * kWarpsM), p.n / (32 * kWarpsN));
  qlinear_kernel<kWarpsM, kWarpsN><<<grid, 32 * kWarpsM * kWarpsN, 0, stream>>>(p);
}
