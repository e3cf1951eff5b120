#ifndef WMMADIAG_ATEN_ACCUMULATE_TYPE_H
#define WMMADIAG_ATEN_ACCUMULATE_TYPE_H
/* The types in which torch sums on the device. */
#include <torch/wmmadiag_torch.h>
namespace at {
template <class T, bool gpu> struct AccumulateType { typedef T type; };
template <bool gpu> struct AccumulateType<c10::Half, gpu> { typedef float type; };
template <bool gpu> struct AccumulateType<c10::BFloat16, gpu> { typedef float type; };
template <bool gpu> struct AccumulateType<signed char, gpu> { typedef int64_t type; };
template <bool gpu> struct AccumulateType<unsigned char, gpu> { typedef int64_t type; };
template <bool gpu> struct AccumulateType<char, gpu> { typedef int64_t type; };
template <bool gpu> struct AccumulateType<short, gpu> { typedef int64_t type; };
template <bool gpu> struct AccumulateType<int, gpu> { typedef int64_t type; };
template <class T, bool gpu> using acc_type = typename AccumulateType<T, gpu>::type;
}
#endif
