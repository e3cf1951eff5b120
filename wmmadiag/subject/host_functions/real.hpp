// A number of a host function that serves as a reference: its value in double, and how far a kernel's may lie from it.
//
// Running error analysis: every operation adds its own rounding, u times its magnitude, to what its operands bring
// along. A sum's magnitude is that of its terms, whatever cancels, so that its error holds for every order in which the
// terms may be added, up to the factor of two that the caller takes of every error. The user's `float` and `double` are
// this type, since a kernel that he writes beside the function computes in float.
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace wmmadiag {

inline double unit = 0x1p-24;  // of one rounding, relative; of tanh, which GPUs have an approximation for
inline double tanh_unit = 0x1p-22;
inline long ambiguous = 0;  // comparisons that rounding may decide otherwise

// Operations that may still be made, and what ends a call that makes more.
inline long left_to_do = LONG_MAX;
inline void (*over)() = nullptr;
inline void worked() {
    if (--left_to_do < 0) over();
}

// Magnitudes of what no operation has made, and of a NaN that stands in the source: what it is nobody says.
constexpr double UNWRITTEN = -1, UNSAID = -2;

struct real {
    double v;  // value
    double e;  // the largest distance of what a kernel has in its place
    double m;  // magnitude of the terms that it is a sum of, UNWRITTEN, or UNSAID

    real() = default;
    constexpr real(double value, double error, double magnitude) : v(value), e(error), m(magnitude) {}
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    real(T value) : v(static_cast<double>(value)), e(0), m(std::fabs(v)) {
        if (!short_number(v)) e = unit * m;
        settle();
        if (std::isnan(v)) m = UNSAID;
    }

    // Whether every type of a kernel holds a constant exactly: 11 bits are enough.
    static bool short_number(double value) {
        int exponent;
        double scaled = std::ldexp(std::frexp(value, &exponent), 11);
        return !std::isfinite(value) || scaled == std::nearbyint(scaled);
    }
    real& settle() {
        if (!std::isfinite(v)) e = 0, m = 0;
        return *this;
    }
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>>
    explicit operator T() const {
        if constexpr (std::is_integral_v<T>) {
            if (e > 0 && std::trunc(v - e) != std::trunc(v + e)) ++ambiguous;
        }
        return static_cast<T>(v);
    }

    real& operator+=(real);
    real& operator-=(real);
    real& operator*=(real);
    real& operator/=(real);
    real& operator++() { return *this += real(1); }
    real& operator--() { return *this -= real(1); }
    real operator++(int) {
        real old = *this;
        *this += real(1);
        return old;
    }
    real operator--(int) {
        real old = *this;
        *this -= real(1);
        return old;
    }
    real operator-() const { return {-v, e, m}; }
    real operator+() const { return *this; }
};

inline real sum(real a, real b, double value) {
    worked();
    double m = a.m + b.m;
    return real(value, a.e + b.e + unit * m, m).settle();
}
inline real product(real a, real b) {
    worked();
    double value = a.v * b.v;
    double e = std::fabs(a.v) * b.e + std::fabs(b.v) * a.e + a.e * b.e + unit * std::fabs(value);
    return real(value, e, a.m * b.m).settle();
}
inline real quotient(real a, real b) {
    worked();
    double value = a.v / b.v, least = std::fabs(b.v) - b.e;
    double e = (a.e + std::fabs(value) * b.e) / least + 2 * unit * std::fabs(value);
    return real(value, least > 0 ? e : HUGE_VAL, a.m / std::fabs(b.v)).settle();
}

#define WMMADIAG_OPERATOR(op, call)                                       \
    inline real operator op(real a, real b) { return call; }              \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    real operator op(real a, T b) {                                       \
        return a op real(b);                                              \
    }                                                                     \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    real operator op(T a, real b) {                                       \
        return real(a) op b;                                              \
    }                                                                     \
    inline real& real::operator op## = (real b) { return *this = *this op b; }
WMMADIAG_OPERATOR(+, sum(a, b, a.v + b.v))
WMMADIAG_OPERATOR(-, sum(a, b, a.v - b.v))
WMMADIAG_OPERATOR(*, product(a, b))
WMMADIAG_OPERATOR(/, quotient(a, b))
#undef WMMADIAG_OPERATOR

inline void compared(real a, real b) {
    worked();
    if (a.e + b.e > 0 && std::fabs(a.v - b.v) <= 2 * (a.e + b.e)) ++ambiguous;
}
#define WMMADIAG_COMPARISON(op)                                           \
    inline bool operator op(real a, real b) {                             \
        compared(a, b);                                                   \
        return a.v op b.v;                                                \
    }                                                                     \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    bool operator op(real a, T b) {                                       \
        return a op real(b);                                              \
    }                                                                     \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    bool operator op(T a, real b) {                                       \
        return real(a) op b;                                              \
    }
WMMADIAG_COMPARISON(<)
WMMADIAG_COMPARISON(>)
WMMADIAG_COMPARISON(<=)
WMMADIAG_COMPARISON(>=)
WMMADIAG_COMPARISON(==)
WMMADIAG_COMPARISON(!=)
#undef WMMADIAG_COMPARISON

// A function that only rises or only falls: its error is that at the ends, and `units` roundings of its own.
template <class F>
real monotone(real a, F f, double units) {
    worked();
    double value = f(a.v), e = 0;
    if (a.e > 0) e = std::fmax(std::fabs(f(a.v + a.e) - value), std::fabs(f(a.v - a.e) - value));
    return real(value, e + units * unit * std::fabs(value), std::fabs(value)).settle();
}
inline real steep(real a, double value, double slope, double units) {
    worked();
    return real(value, slope * a.e + units * unit * std::fabs(value), std::fabs(value)).settle();
}

}  // namespace wmmadiag

// CUDA C++ Programming Guide, "Mathematical Functions": errors in units in the last place, the fast variants' included.
#define WMMADIAG_MONOTONE(name, units)                                              \
    inline wmmadiag::real name(wmmadiag::real a) {                                  \
        return wmmadiag::monotone(a, [](double x) { return std::name(x); }, units); \
    }                                                                               \
    inline wmmadiag::real name##f(wmmadiag::real a) { return name(a); }
WMMADIAG_MONOTONE(exp, 4 + 2 * std::fabs(a.v))
WMMADIAG_MONOTONE(exp2, 4)
WMMADIAG_MONOTONE(expm1, 4)
WMMADIAG_MONOTONE(log1p, 4)
WMMADIAG_MONOTONE(sinh, 6)
WMMADIAG_MONOTONE(erf, 4)
WMMADIAG_MONOTONE(erfc, 8)
WMMADIAG_MONOTONE(atan, 4)
WMMADIAG_MONOTONE(asinh, 6)
WMMADIAG_MONOTONE(cbrt, 4)
#undef WMMADIAG_MONOTONE

// The fast logarithms err absolutely where they are near 0: 2^-21.4, 2^-22.
#define WMMADIAG_LOGARITHM(name)                                                      \
    inline wmmadiag::real name(wmmadiag::real a) {                                    \
        auto found = wmmadiag::monotone(a, [](double x) { return std::name(x); }, 4); \
        found.e += 8 * wmmadiag::unit;                                                \
        return found.settle();                                                        \
    }                                                                                 \
    inline wmmadiag::real name##f(wmmadiag::real a) { return name(a); }
WMMADIAG_LOGARITHM(log)
WMMADIAG_LOGARITHM(log2)
WMMADIAG_LOGARITHM(log10)
#undef WMMADIAG_LOGARITHM

inline wmmadiag::real tanh(wmmadiag::real a) {
    auto found = wmmadiag::monotone(a, [](double x) { return std::tanh(x); }, 0);
    found.e += wmmadiag::tanh_unit * std::fabs(found.v);
    return found.settle();
}
inline wmmadiag::real sqrt(wmmadiag::real a) {
    return wmmadiag::monotone(a, [negative = a.v < 0](double x) { return std::sqrt(negative ? x : std::fmax(x, 0)); }, 2);
}
inline wmmadiag::real cosh(wmmadiag::real a) { return wmmadiag::steep(a, std::cosh(a.v), std::sinh(std::fabs(a.v) + a.e), 6); }
inline wmmadiag::real sin(wmmadiag::real a) {
    auto found = wmmadiag::steep(a, std::sin(a.v), 1, 4);
    found.e += 8 * wmmadiag::unit;  // of __sinf, absolute
    return found.settle();
}
inline wmmadiag::real cos(wmmadiag::real a) {
    auto found = wmmadiag::steep(a, std::cos(a.v), 1, 4);
    found.e += 8 * wmmadiag::unit;
    return found.settle();
}
inline wmmadiag::real fabs(wmmadiag::real a) { return {std::fabs(a.v), a.e, a.m}; }
inline wmmadiag::real abs(wmmadiag::real a) { return fabs(a); }
inline wmmadiag::real rsqrt(wmmadiag::real a) { return wmmadiag::real(1) / sqrt(a); }
inline wmmadiag::real stepped(wmmadiag::real a, double (*f)(double)) {
    double value = f(a.v);
    return {value, std::fmax(std::fabs(f(a.v + a.e) - value), std::fabs(f(a.v - a.e) - value)), std::fabs(value)};
}
inline wmmadiag::real floor(wmmadiag::real a) { return stepped(a, std::floor); }
inline wmmadiag::real ceil(wmmadiag::real a) { return stepped(a, std::ceil); }
inline wmmadiag::real round(wmmadiag::real a) { return stepped(a, std::round); }
inline wmmadiag::real rint(wmmadiag::real a) { return stepped(a, std::rint); }
inline wmmadiag::real nearbyint(wmmadiag::real a) { return stepped(a, std::nearbyint); }
inline wmmadiag::real trunc(wmmadiag::real a) { return stepped(a, std::trunc); }
inline long lrint(wmmadiag::real a) { return static_cast<long>(rint(a)); }
inline long lround(wmmadiag::real a) { return static_cast<long>(round(a)); }
inline wmmadiag::real pow(wmmadiag::real a, wmmadiag::real b) {
    double value = std::pow(a.v, b.v), scale = std::fabs(value), turns = std::fabs(b.v * std::log(std::fabs(a.v)));
    double e = a.v == 0 ? a.e : std::fabs(b.v) * a.e / std::fabs(a.v) + std::fabs(std::log(std::fabs(a.v))) * b.e;
    return wmmadiag::real(value, scale * (e + wmmadiag::unit * (8 + 2 * turns)), scale).settle();
}
// Of two numbers near each other either may be the larger; the result errs no more than they do.
inline wmmadiag::real fmax(wmmadiag::real a, wmmadiag::real b) {
    auto found = std::isnan(a.v) || b.v > a.v ? b : a;
    return {found.v, std::isfinite(found.v) ? std::fmax(a.e, b.e) : 0, found.m};
}
inline wmmadiag::real fmin(wmmadiag::real a, wmmadiag::real b) { return -fmax(-a, -b); }
inline wmmadiag::real fma(wmmadiag::real a, wmmadiag::real b, wmmadiag::real c) { return a * b + c; }
inline wmmadiag::real fmod(wmmadiag::real a, wmmadiag::real b) { return a - trunc(a / b) * b; }
inline bool isnan(wmmadiag::real a) { return std::isnan(a.v); }
inline bool isinf(wmmadiag::real a) { return std::isinf(a.v); }
inline bool isfinite(wmmadiag::real a) { return std::isfinite(a.v); }
inline bool signbit(wmmadiag::real a) { return std::signbit(a.v); }

#define WMMADIAG_SINGLE(name)                                           \
    inline wmmadiag::real name##f(wmmadiag::real a) { return name(a); } \
    static_assert(true, "")
WMMADIAG_SINGLE(tanh);
WMMADIAG_SINGLE(sqrt);
WMMADIAG_SINGLE(cosh);
WMMADIAG_SINGLE(sin);
WMMADIAG_SINGLE(cos);
WMMADIAG_SINGLE(fabs);
WMMADIAG_SINGLE(rsqrt);
WMMADIAG_SINGLE(floor);
WMMADIAG_SINGLE(ceil);
WMMADIAG_SINGLE(round);
WMMADIAG_SINGLE(rint);
WMMADIAG_SINGLE(nearbyint);
WMMADIAG_SINGLE(trunc);
#undef WMMADIAG_SINGLE
#define WMMADIAG_MIXED(called, name)                                      \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    wmmadiag::real called(wmmadiag::real a, T b) {                        \
        return name(a, wmmadiag::real(b));                                \
    }                                                                     \
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> \
    wmmadiag::real called(T a, wmmadiag::real b) {                        \
        return name(wmmadiag::real(a), b);                                \
    }                                                                     \
    static_assert(true, "")
#define WMMADIAG_PAIR(name, suffixed)                                                         \
    inline wmmadiag::real suffixed(wmmadiag::real a, wmmadiag::real b) { return name(a, b); } \
    WMMADIAG_MIXED(name, name);                                                               \
    WMMADIAG_MIXED(suffixed, name)
WMMADIAG_PAIR(pow, powf);
WMMADIAG_PAIR(fmax, fmaxf);
WMMADIAG_PAIR(fmin, fminf);
WMMADIAG_PAIR(fmod, fmodf);
#undef WMMADIAG_PAIR
#undef WMMADIAG_MIXED
inline wmmadiag::real fmaf(wmmadiag::real a, wmmadiag::real b, wmmadiag::real c) { return a * b + c; }
inline wmmadiag::real max(wmmadiag::real a, wmmadiag::real b) { return fmax(a, b); }
inline wmmadiag::real min(wmmadiag::real a, wmmadiag::real b) { return fmin(a, b); }

namespace std {
using ::abs;
using ::ceil;
using ::cos;
using ::cosh;
using ::erf;
using ::erfc;
using ::exp;
using ::exp2;
using ::expm1;
using ::fabs;
using ::floor;
using ::fma;
using ::fmax;
using ::fmin;
using ::fmod;
using ::isfinite;
using ::isinf;
using ::isnan;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::lrint;
using ::lround;
using ::nearbyint;
using ::pow;
using ::rint;
using ::round;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tanh;
using ::trunc;
inline wmmadiag::real max(wmmadiag::real a, wmmadiag::real b) { return fmax(a, b); }
inline wmmadiag::real min(wmmadiag::real a, wmmadiag::real b) { return fmin(a, b); }
template <>
class numeric_limits<wmmadiag::real> : public numeric_limits<float> {};
}  // namespace std

#ifndef __ldg
template <class T>
T __ldg(const T* p) {
    return *p;
}
#endif
