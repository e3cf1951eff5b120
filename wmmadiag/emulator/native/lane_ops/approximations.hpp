// The approximate functions (.approx), one after the other, each easy to replace.
//
// What the special-function unit returns is not documented beyond an error bound; here each function is the exact value, computed in f64
// to about 1e-16 and rounded once to the result's format. Own polynomials rather than libm, so that every build and system gives the
// same bits. Arguments are already flushed where .ftz asks for it; special values follow the tables of the PTX ISA.
#pragma once

#include "formats.hpp"

namespace wmmadiag::lanewise {

inline constexpr double ln_2 = 0x1.62e42fefa39efp-1;
inline constexpr double pi = 0x1.921fb54442d18p+1;

template <std::size_t N>
[[gnu::always_inline]] inline double polynomial(const std::array<double, N>& coefficients, double x) {
    double sum = coefficients[N - 1];
    for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
    return sum;
}

// x to the nearest integer, |x| < 2^51.
[[gnu::always_inline]] inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// 2^n for an integer n in -1022 .. 1023.
[[gnu::always_inline]] inline double power_of_two(double n) {
    const u64 integer = std::bit_cast<u64>(n + 0x1.8p52);  // n in the low bits
    return std::bit_cast<double>((integer + 1023) << 52);
}

// (2^r - 1) / r for |r| <= 1/2: the Taylor series, remainder below 1e-17.
inline constexpr auto exp2_series = [] {
    std::array<double, 14> c{};
    double term = 1.0;
    for (std::size_t k = 0; k < c.size(); ++k) c[k] = term = term * ln_2 / static_cast<double>(k + 1);
    return c;
}();

// ex2: 2^x. NaN for NaN, +Inf above the range, +0 below.
[[gnu::always_inline]] inline double exp2_value(double x) {
    const bool low = x < -300.0, high = x > 300.0;
    const double inside = pick(high, 300.0, pick(low, -300.0, x));
    const double n = nearest(inside);
    const double r = inside - n;
    return (1.0 + r * polynomial(exp2_series, r)) * power_of_two(n);
}

// log2(m) for m in [sqrt(1/2), sqrt(2)) is 2 / ln 2 times atanh(s), s = (m - 1) / (m + 1); the series in s^2.
inline constexpr auto atanh_series = [] {
    std::array<double, 12> c{};
    for (std::size_t k = 0; k < c.size(); ++k) c[k] = 2.0 / ln_2 / static_cast<double>(2 * k + 1);
    return c;
}();

// lg2: NaN below zero, -Inf for both zeros.
[[gnu::always_inline]] inline double log2_value(double x) {
    const u64 bits = std::bit_cast<u64>(x);
    const u64 split = bits - 0x3fe6a09e667f3bcd;  // relative to sqrt(1/2): the exponent steps there
    const double exponent = std::bit_cast<double>(((split ^ F64::sign) >> 52) | 0x4330000000000000) - (0x1p52 + 2048.0);
    const double m = std::bit_cast<double>(bits - (split & 0xfff0000000000000));
    const double s = (m - 1.0) / (m + 1.0);
    const double value = exponent + s * polynomial(atanh_series, s * s);
    const double infinity = std::numeric_limits<double>::infinity();
    const bool zero = x == 0.0, finite = x < infinity, number = x >= 0.0;
    const double positive = pick(finite, value, infinity);
    return pick(number, pick(zero, -infinity, positive), std::numeric_limits<double>::quiet_NaN());
}

inline constexpr auto sine_series = [] {  // sin(x) / x in x^2
    std::array<double, 9> c{};
    double term = 1.0;
    for (std::size_t k = 0; k < c.size(); ++k) {
        c[k] = term;
        term /= -static_cast<double>((2 * k + 2) * (2 * k + 3));
    }
    return c;
}();
inline constexpr auto cosine_series = [] {
    std::array<double, 9> c{};
    double term = 1.0;
    for (std::size_t k = 0; k < c.size(); ++k) {
        c[k] = term;
        term /= -static_cast<double>((2 * k + 1) * (2 * k + 2));
    }
    return c;
}();

// sin(2 pi t) if quarter is 0, cos(2 pi t) if 1. NaN for Inf and NaN.
[[gnu::always_inline]] inline double sine_of_turns(double t, u64 quarter) {
    const bool small = (bits_of(t) & F64::magnitude) < std::bit_cast<u64>(0x1p50);
    const double none = t - t;  // larger ones are whole turns; Inf - Inf is NaN
    const double whole = pick(small, t, none);
    const double turns = whole - nearest(whole);  // exact
    const double quarters = nearest(turns * 4.0);
    const double angle = (turns - quarters * 0.25) * (2.0 * pi);
    const double square = angle * angle;
    const u64 quadrant = std::bit_cast<u64>(quarters + 0x1.8p52) + quarter;
    const double sine = angle * polynomial(sine_series, square);
    const double cosine = polynomial(cosine_series, square);
    const double value = pick((quadrant & 1) != 0, cosine, sine);
    return std::bit_cast<double>(std::bit_cast<u64>(value) ^ ((quadrant & 2) << 62));
}

// sin and cos: the hardware first multiplies by 1 / (2 pi) in f32, toward zero and flushing subnormals, so that a large argument
// loses its low bits (recorded on sm_90: the error against this definition is below 4e-7 for |x| < 1e6).
[[gnu::always_inline]] inline float turns(float x) {
    const double exact = double{x} * 0x1.45f306p-3;
    const u32 rounded = std::bit_cast<u32>(static_cast<float>(exact));
    const double magnitude = std::bit_cast<float>(rounded & F32::magnitude);
    const bool up = magnitude > float_of(bits_of(exact) & F64::magnitude);
    return flush(std::bit_cast<float>(up ? rounded - 1 : rounded));
}
[[gnu::always_inline]] inline double sine_value(float x) {
    const double value = sine_of_turns(turns(x), 0);
    const u64 zero = bits_of(double{x}) & F64::sign;
    return float_of((bits_of(value) & F64::magnitude) == 0 ? zero : bits_of(value));
}
[[gnu::always_inline]] inline double cosine_value(float x) { return sine_of_turns(turns(x), 1); }

// tanh from e = exp(2 |x|) - 1, which keeps its relative precision near 0: e / (e + 2).
[[gnu::always_inline]] inline double tanh_value(double x) {
    const double absolute = std::bit_cast<double>(std::bit_cast<u64>(x) & F64::magnitude);
    const bool large = absolute > 40.0;
    const double y = pick(large, 40.0, absolute) * (2.0 / ln_2);
    const double n = nearest(y);
    const double r = y - n;
    const double scale = power_of_two(n);
    const double e = scale * (r * polynomial(exp2_series, r)) + (scale - 1.0);
    const double value = e / (e + 2.0);
    return std::bit_cast<double>(std::bit_cast<u64>(value) | (std::bit_cast<u64>(x) & F64::sign));
}

[[gnu::always_inline]] inline double rcp_value(double x) { return 1.0 / x; }
[[gnu::always_inline]] inline double sqrt_value(double x) { return __builtin_sqrt(x); }
[[gnu::always_inline]] inline double rsqrt_value(double x) { return 1.0 / __builtin_sqrt(x); }  // 1 / -0 is -Inf

// The same to f64's precision: one Newton step on the residual 1 - x y^2.
[[gnu::always_inline]] inline double rsqrt_exact(double x) {
    const double y = rsqrt_value(x);
    const double product = x * y;
    const double low = __builtin_fma(x, y, -product);
    const double residual = __builtin_fma(-product, y, 1.0) - low * y;
    const double better = y + 0.5 * y * residual;
    return pick(is_nan(better), y, better);  // 0 and Inf give NaN residuals
}

}  // namespace wmmadiag::lanewise
