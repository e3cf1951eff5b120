// Thrust's functors, which are libcu++'s, as kernels use them; and what CCCL 3 took out, and programs for earlier ones derive from.
#pragma once
#include <thrust/detail/config.h>

#include <cuda/std/functional>

THRUST_NAMESPACE_BEGIN

using ::cuda::std::bit_and;
using ::cuda::std::bit_or;
using ::cuda::std::bit_xor;
using ::cuda::std::divides;
using ::cuda::std::equal_to;
using ::cuda::std::greater;
using ::cuda::std::greater_equal;
using ::cuda::std::less;
using ::cuda::std::less_equal;
using ::cuda::std::logical_and;
using ::cuda::std::logical_not;
using ::cuda::std::logical_or;
using ::cuda::std::minus;
using ::cuda::std::modulus;
using ::cuda::std::multiplies;
using ::cuda::std::negate;
using ::cuda::std::not_equal_to;
using ::cuda::std::plus;

template <class T = void>
struct maximum {
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
template <class T = void>
struct minimum {
    __host__ __device__ constexpr T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
template <class T = void>
struct square {
    __host__ __device__ constexpr T operator()(const T& x) const { return x * x; }
};
template <class T = void>
struct identity {
    __host__ __device__ constexpr const T& operator()(const T& x) const { return x; }
};

template <class Argument, class Result>
struct unary_function {
    using argument_type = Argument;
    using result_type = Result;
};
template <class First, class Second, class Result>
struct binary_function {
    using first_argument_type = First;
    using second_argument_type = Second;
    using result_type = Result;
};

THRUST_NAMESPACE_END
