#ifndef WMMADIAG_C10_HALF_H
#define WMMADIAG_C10_HALF_H
#include <cuda_fp16.h>
#include <c10/util/wmmadiag_arithmetic.h>
namespace c10 {
/* The layout and conversions of torch's half; arithmetic is done in float, as torch does. */
struct alignas(2) Half {
  unsigned short x;
  Half() = default;
  __host__ __device__ Half(float value) : x(__half_as_ushort(__float2half_rn(value))) {}
  __host__ __device__ Half(const __half &value) : x(__half_as_ushort(value)) {}
  __host__ __device__ operator float() const { return __half2float(__ushort_as_half(x)); }
  __host__ __device__ operator __half() const { return __ushort_as_half(x); }
};
WMMADIAG_C10_ARITHMETIC(Half)
__device__ inline Half __ldg(const Half *pointer) {
  Half value;
  value.x = ::__ldg(&pointer->x);
  return value;
}
}
namespace at { using c10::Half; }
#endif
