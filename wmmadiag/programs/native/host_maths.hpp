// CUDA C++ Programming Guide, "Mathematical Functions": what nvcc lets host code call besides the standard library's own, and the C library
// lacks. Templates: a function of the program's own by such a name is preferred to them.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace wmmadiag_host {

template <class T>
using Real = std::conditional_t<std::is_same<T, float>::value, float, std::enable_if_t<std::is_arithmetic<T>::value, double>>;

constexpr long double pi = 3.141592653589793238462643383279502884L;

// Of x modulo 2, in [-1, 1]: exact, and by it are the zeros.
inline long double within_a_turn(long double x) { return std::remainder(x, 2.0L); }
inline long double sine_of_pi(long double x) {
    const auto r = within_a_turn(x);
    if (r == 0 || r == 1 || r == -1) return std::copysign(0.0L, x);
    return std::fabs(r) <= 0.5L ? std::sin(pi * r) : std::copysign(std::sin(pi * (1 - std::fabs(r))), r);
}
inline long double cosine_of_pi(long double x) {
    const auto r = std::fabs(within_a_turn(x));
    return r == 0.5L ? 0.0L : std::sin(pi * (0.5L - r));
}

// The y of which erfc is x, by Newton's method from the tail's first term.
inline long double inverse_of_erfc(long double x) {
    constexpr auto infinite = std::numeric_limits<long double>::infinity();
    if (!(x >= 0 && x <= 2)) return std::numeric_limits<long double>::quiet_NaN();
    if (x == 0 || x == 2) return x == 0 ? infinite : -infinite;
    if (x > 1) return -inverse_of_erfc(2 - x);
    const auto t = std::sqrt(-2 * std::log(x / 2));
    auto y = -0.70711L * ((2.30753L + t * 0.27061L) / (1 + t * (0.99229L + t * 0.04481L)) - t);
    for (int i = 0; i < 4; ++i) {
        const auto error = std::erfc(y) - x;
        y += error / (2 / std::sqrt(pi) * std::exp(-y * y) - y * error);
    }
    return y;
}
inline long double inverse_of_erf(long double x) {
    if (std::fabs(x) > 0.5L) return x > 0 ? inverse_of_erfc(1 - x) : -inverse_of_erfc(1 + x);
    auto y = x * std::sqrt(pi) / 2;
    for (int i = 0; i < 6; ++i) y -= (std::erf(y) - x) / (2 / std::sqrt(pi) * std::exp(-y * y));
    return y;
}
inline long double scaled_erfc(long double x) {
    if (x < 100) return std::exp(x * x) * std::erfc(x);
    const auto s = 1 / (2 * x * x);
    return (1 - s * (1 - 3 * s)) / (x * std::sqrt(pi));
}

inline long double length(std::initializer_list<long double> all) {
    long double sum = 0;
    for (const auto one : all) sum += one * one;
    return std::sqrt(sum);
}

}  // namespace wmmadiag_host

#define WMMADIAG_OF_ONE(name, formula)                                                 \
    template <class T>                                                                 \
    inline wmmadiag_host::Real<T> name(T argument) {                                   \
        const long double x = argument;                                                \
        return static_cast<wmmadiag_host::Real<T>>(formula);                           \
    }                                                                                  \
    template <class T>                                                                 \
    inline std::enable_if_t<std::is_arithmetic<T>::value, float> name##f(T argument) { \
        const long double x = static_cast<float>(argument);                            \
        return static_cast<float>(formula);                                            \
    }
WMMADIAG_OF_ONE(rcbrt, 1 / std::cbrt(x))
WMMADIAG_OF_ONE(sinpi, wmmadiag_host::sine_of_pi(x))
WMMADIAG_OF_ONE(cospi, wmmadiag_host::cosine_of_pi(x))
WMMADIAG_OF_ONE(erfinv, wmmadiag_host::inverse_of_erf(x))
WMMADIAG_OF_ONE(erfcinv, wmmadiag_host::inverse_of_erfc(x))
WMMADIAG_OF_ONE(erfcx, wmmadiag_host::scaled_erfc(x))
WMMADIAG_OF_ONE(normcdf, std::erfc(-x / std::sqrt(2.0L)) / 2)
WMMADIAG_OF_ONE(normcdfinv, -std::sqrt(2.0L) * wmmadiag_host::inverse_of_erfc(2 * x))
#undef WMMADIAG_OF_ONE

template <class T>
inline void sincospi(T x, wmmadiag_host::Real<T>* sine, wmmadiag_host::Real<T>* cosine) {
    *sine = sinpi(x);
    *cosine = cospi(x);
}
template <class T>
inline void sincospif(T x, float* sine, float* cosine) {
    *sine = sinpif(x);
    *cosine = cospif(x);
}

#define WMMADIAG_OF_SEVERAL(N, name3, name4)                            \
    template <class = void>                                             \
    inline N name3(N a, N b, N c) {                                     \
        return static_cast<N>(wmmadiag_host::length({a, b, c}));        \
    }                                                                   \
    template <class = void>                                             \
    inline N name4(N a, N b, N c, N d) {                                \
        return static_cast<N>(wmmadiag_host::length({a, b, c, d}));     \
    }                                                                   \
    template <class = void>                                             \
    inline N r##name3(N a, N b, N c) {                                  \
        return static_cast<N>(1 / wmmadiag_host::length({a, b, c}));    \
    }                                                                   \
    template <class = void>                                             \
    inline N r##name4(N a, N b, N c, N d) {                             \
        return static_cast<N>(1 / wmmadiag_host::length({a, b, c, d})); \
    }
WMMADIAG_OF_SEVERAL(double, norm3d, norm4d)
WMMADIAG_OF_SEVERAL(float, norm3df, norm4df)
#undef WMMADIAG_OF_SEVERAL
template <class T, class U>
inline wmmadiag_host::Real<std::common_type_t<T, U>> rhypot(T x, U y) {
    return static_cast<wmmadiag_host::Real<std::common_type_t<T, U>>>(1 / std::hypot(static_cast<long double>(x), static_cast<long double>(y)));
}
template <class T, class U>
inline float rhypotf(T x, U y) {
    return static_cast<float>(1 / std::hypot(static_cast<long double>(x), static_cast<long double>(y)));
}
