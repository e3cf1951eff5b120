// What CCCL 3 took out, and programs for earlier ones derive from.
#pragma once
#include_next <thrust/functional.h>

THRUST_NAMESPACE_BEGIN
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
