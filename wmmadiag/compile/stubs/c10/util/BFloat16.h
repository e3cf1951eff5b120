#ifndef WMMADIAG_C10_BFLOAT16_H
#define WMMADIAG_C10_BFLOAT16_H
#include <cuda_bf16.h>
#include <c10/util/wmmadiag_arithmetic.h>
namespace c10 {
struct alignas(2) BFloat16 {
  unsigned short x;
  BFloat16() = default;
  __host__ __device__ BFloat16(float value) : x(__bfloat16_as_ushort(__float2bfloat16_rn(value))) {}
  __host__ __device__ BFloat16(const __nv_bfloat16 &value) : x(__bfloat16_as_ushort(value)) {}
  __host__ __device__ operator float() const { return __bfloat162float(__ushort_as_bfloat16(x)); }
  __host__ __device__ operator __nv_bfloat16() const { return __ushort_as_bfloat16(x); }
};
WMMADIAG_C10_ARITHMETIC(BFloat16)
__device__ inline BFloat16 __ldg(const BFloat16 *pointer) {
  BFloat16 value;
  value.x = ::__ldg(&pointer->x);
  return value;
}
}
namespace at { using c10::BFloat16; }
#endif
