#ifndef WMMADIAG_ATEN_OP_MATH_TYPE_H
#define WMMADIAG_ATEN_OP_MATH_TYPE_H
/* The types in which torch computes with one element. */
#include <torch/wmmadiag_torch.h>
namespace at {
template <class T> struct OpMathType { typedef T type; };
template <> struct OpMathType<c10::Half> { typedef float type; };
template <> struct OpMathType<c10::BFloat16> { typedef float type; };
template <class T> using opmath_type = typename OpMathType<T>::type;
}
#endif
