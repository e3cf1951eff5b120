// y = silu(scale_a * scale_b * (A B^T) + bias), A and B in e4m3. sm_89 and later.
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

__device__ inline void mma_m16n8k32_e4m3(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ inline uint32_t ld32(const __nv_fp8_e4m3* p) { return *reinterpret_cast<const uint32_t*>(p); }

// one warp: 16 x 8 of the output
__global__ void fp8_linear_silu(const __nv_fp8_e4m3* __restrict__ A, const __nv_fp8_e4m3* __restrict__ B,
                                const float* __restrict__ scale_a, const float* __restrict__ scale_b,
                                const __nv_bfloat16* __restrict__ bias, __nv_bfloat16* __restrict__ Y, int M, int N,
                                int K) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  const int m = blockIdx.y * 16, n = (blockIdx.x * (blockDim.x >> 5) + warp) * 8;
  if (n >= N) return;
  const int g = lane >> 2, t = lane & 3;
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  const __nv_fp8_e4m3* pa = A + (size_t)(m + g) * K + t * 4;
  const __nv_fp8_e4m3* pb = B + (size_t)(n + g) * K + t * 4;
  for (int k = 0; k < K; k += 32, pa += 32, pb += 32) {
    const uint32_t a[4] = {ld32(pa), ld32(pa + 8 * K), ld32(pa + 16), ld32(pa + 8 * K + 16)};
    const uint32_t b[2] = {ld32(pb), ld32(pb + 16)};
    mma_m16n8k32_e4m3(d, a, b);
  }
  const float s = *scale_a * *scale_b;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int r = m + g + (i >> 1) * 8, c = n + t * 2 + (i & 1);
    const float z = d[i] * s + __bfloat162float(bias[c]);
    Y[(size_t)r * N + c] = __float2bfloat16(z / (1.f + __expf(-z)));
  }
}

extern "C" int fp8_linear_silu_launch(void* a, void* b, void* scale_a, void* scale_b, void* bias, void* y, int m, int n,
                                      int k, void* stream) {
  if (m % 16 || n % 8 || k % 32) return -1;
  fp8_linear_silu<<<dim3((n + 31) / 32, m / 16), 128, 0, (cudaStream_t)stream>>>(
      (const __nv_fp8_e4m3*)a, (const __nv_fp8_e4m3*)b, (const float*)scale_a, (const float*)scale_b,
      (const __nv_bfloat16*)bias, (__nv_bfloat16*)y, m, n, k);
  return (int)cudaGetLastError();
}
