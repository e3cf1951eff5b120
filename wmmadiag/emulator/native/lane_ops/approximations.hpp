// The special-function unit (SASS: MUFU) of an H200, bit for bit: what is under every .approx instruction.
//
// Each function interpolates with a quadratic whose coefficients come from a table: the significand's upper bits choose a segment, the
// lower 17 are x, and the result is c0 + c1 * x + c2 * square(x) plus a rounding constant, truncated (Oberman and Siu, "A
// High-Performance Area-Efficient Multifunction Interpolator", ARITH 2005). The truncated square, the shifts and rounding constants of
// rcp, rsqrt, ex2, lg2 and sin, and the same tables as here, were published for NVIDIA's Tesla generation by envytools (nvhw/sfu.c,
// Marcin Koscielnicki); sqrt and tanh were found by us. All were derived again from, and agree with, every f32 argument on an H200
// (docs/approximations.md).
//
// The unit flushes subnormal operands and results. Everything is computed in f64, where it is exact: no value needs more than 53 bits.
#pragma once

#include "approximation_tables.hpp"
#include "formats.hpp"

namespace wmmadiag::lanewise {

// A table with its weights applied and the rounding constant added to c0.
template <std::size_t N>
struct Quadratics {
    std::array<double, N> c0, c1, c2;
};

// In units of 2^-unit: c0 is worth 2^shift0, c1 2^shift1 per x, c2 2^shift2 per square.
struct Weights {
    int unit, shift0, shift1, shift2, round;
};

template <std::size_t N>
consteval Quadratics<N> scaled(const std::array<Coefficients, N>& table, Weights w) {
    Quadratics<N> q{};
    const auto power = [](int n) {
        double p = 1.0;
        for (; n > 0; --n) p *= 2.0;
        for (; n < 0; ++n) p *= 0.5;
        return p;
    };
    for (std::size_t i = 0; i < N; ++i) {
        q.c0[i] = (table[i].c0 * power(w.shift0) + w.round) * power(-w.unit);
        q.c1[i] = table[i].c1 * power(w.shift1 - w.unit);
        q.c2[i] = table[i].c2 * power(w.shift2 - w.unit);
    }
    return q;
}

inline constexpr auto rcp_table = scaled(rcp_coefficients, {38, 13, -1, 0, 0x47e7});     // twice the reciprocal; x has 16 bits, here doubled
inline constexpr auto rsqrt_table = scaled(rsqrt_coefficients, {39, 14, 0, 2, 0x7fff});  // twice the reciprocal root
inline constexpr auto sqrt_table = scaled(sqrt_coefficients, {40, 15, 0, 0, 0x7fff});
inline constexpr Weights ex2_weights{38, 13, 0, 0, 0x77e2};
inline constexpr auto ex2_table = scaled(ex2_coefficients, ex2_weights);
inline constexpr auto lg2_table = scaled(lg2_coefficients, {2, 12, 0, 1, 0x3345});  // in units of 2^-36
inline constexpr auto sin_table = scaled(sin_coefficients, {37, 11, 0, 0, 0});
inline constexpr auto tanh_table = scaled(tanh_coefficients, {39, 15, 0, 0, 0});

// x^2 / 2^19 for x < 2^17, without the partial products below 2^18. With x = high * 2^9 + low, those of low * low are all below;
// of high * low, which occurs twice, bit a of high keeps the bits of low from 9 - a.
[[gnu::always_inline]] inline u32 truncated_square(u32 x) {
    const u32 high = x >> 9, low = x & 0x1ff;
    u32 sum = (high * high) >> 1;
    for (u32 a = 1; a < 8; ++a) sum += (low >> (9 - a)) & (0 - ((high >> a) & 1));
    return sum;
}

// Exact. x < 2^17.
template <std::size_t N>
[[gnu::always_inline]] inline double interpolate(const Quadratics<N>& table, u32 segment, u32 x) {
    const double linear = static_cast<double>(static_cast<s32>(x));
    const double square = static_cast<double>(static_cast<s32>(truncated_square(x)));
    return table.c0[segment] + table.c1[segment] * linear + table.c2[segment] * square;
}

// To f32 toward zero; the f64 must be normal in f32 or zero.
[[gnu::always_inline]] inline float truncate_f32(double value) { return static_cast<float>(float_of(bits_of(value) & ~u64{0x1fffffff})); }

// The fields of an f32 operand.
[[gnu::always_inline]] inline u32 exponent_of(u32 bits) { return (bits >> 23) & 0xff; }
[[gnu::always_inline]] inline u32 fraction_of(u32 bits) { return bits & 0x7fffff; }

// 2^n times a normal positive value; flushed to zero or Inf where the exponent leaves f32.
[[gnu::always_inline]] inline u32 scale_bits(float value, s32 n) {
    const s32 r = static_cast<s32>(bits_of(value)) + n * 0x800000;
    const u32 low = pick(r < 0x00800000, 0u, static_cast<u32>(r));
    return r >= 0x7f800000 ? F32::infinity : low;
}

// 1 / x. Zero and subnormals give Inf, results below the normal range 0.
[[gnu::always_inline]] inline float rcp_unit(float a) {
    const u32 bits = bits_of(a), sign = bits & F32::sign, e = exponent_of(bits), f = fraction_of(bits);
    const float twice = truncate_f32(interpolate(rcp_table, f >> 16, (f & 0xffff) << 1));
    const u32 finite = scale_bits(twice, 126 - static_cast<s32>(e));
    const u32 large = pick(f == 0, 0u, F32::nan);
    const u32 magnitude = pick(e == 0, F32::infinity, pick(e == 0xff, large, finite));
    return float_of(magnitude | pick(magnitude == F32::nan, 0u, sign));
}

// Of 2^(2k) or 2^(2k+1) times [1, 2): the segment, which starts the second half of the table for an odd exponent, and k.
struct Halved {
    u32 segment, x;
    s32 k;
};
[[gnu::always_inline]] inline Halved halve_exponent(u32 e, u32 f) {
    return {(f >> 17) | ((~e & 1) << 6), f & 0x1ffff, static_cast<s32>((e + 1) >> 1) - 64};
}

// 1 / sqrt(x). NaN below zero; Inf of the same sign for zeros and subnormals.
[[gnu::always_inline]] inline float rsqrt_unit(float a) {
    const u32 bits = bits_of(a), sign = bits & F32::sign, e = exponent_of(bits), f = fraction_of(bits);
    const Halved h = halve_exponent(e, f);
    const float value = truncate_f32(interpolate(rsqrt_table, h.segment, h.x));
    const float twice = pick((f | (~e & 1)) == 0, 2.0f, value);  // exact for powers of four
    const u32 finite = scale_bits(twice, -1 - h.k);
    const u32 large = pick(f == 0, 0u, F32::nan);
    const u32 positive = pick(e == 0xff, large, finite);
    return float_of(pick(e == 0, sign | F32::infinity, pick(sign != 0, F32::nan, positive)));
}

// sqrt(x). NaN below zero; zeros and subnormals give zero of the same sign.
[[gnu::always_inline]] inline float sqrt_unit(float a) {
    const u32 bits = bits_of(a), sign = bits & F32::sign, e = exponent_of(bits), f = fraction_of(bits);
    const Halved h = halve_exponent(e, f);
    const u32 finite = scale_bits(truncate_f32(interpolate(sqrt_table, h.segment, h.x)), h.k);
    const u32 large = pick(f == 0, F32::infinity, F32::nan);
    const u32 positive = pick(e == 0xff, large, finite);
    return float_of(pick(e == 0, sign, pick(sign != 0, F32::nan, positive)));
}

// 2^x, from |x| truncated to 23 fractional bits. A negative one is complemented, not negated, unless it is whole.
[[gnu::always_inline]] inline float ex2_unit(float a) {
    const u32 bits = bits_of(a), magnitude = bits & F32::magnitude;
    const bool negative = (bits & F32::sign) != 0, beyond = magnitude >= std::bit_cast<u32>(128.0f);
    const float inside = float_of(pick(beyond, 0u, magnitude));
    const s32 fixed = static_cast<s32>(inside * 0x1p23f);
    const s32 complement = -fixed - static_cast<s32>((fixed & 0x7fffff) != 0);
    const s32 point = negative ? complement : fixed;
    const u32 f = static_cast<u32>(point) & 0x7fffff;
    const u32 finite = scale_bits(truncate_f32(interpolate(ex2_table, f >> 17, f & 0x1ffff)), point >> 23);
    const u32 outside = pick(negative, 0u, F32::infinity);
    return float_of(pick(magnitude > F32::infinity, F32::nan, pick(beyond, outside, finite)));
}

// x to the nearest integer, |x| < 2^51.
[[gnu::always_inline]] inline double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// log2(x): the exponent plus the interpolated part, in units of 2^-36, complemented where negative. NaN below zero, -Inf for zeros
// and subnormals.
[[gnu::always_inline]] inline float lg2_unit(float a) {
    const u32 bits = bits_of(a), e = exponent_of(bits), f = fraction_of(bits);
    const double quarters = interpolate(lg2_table, f >> 17, f & 0x1ffff);  // a multiple of 1/4
    const double part = nearest(quarters - 0.375);                         // rounded down
    const double sum = part + static_cast<double>(static_cast<s32>(e) - 127) * 0x1p36;
    const bool below = (bits_of(sum) & F64::sign) != 0;
    const double units = pick(below, -1.0 - sum, sum);
    const u32 finite = bits_of(truncate_f32(units * 0x1p-36)) | (below ? F32::sign : 0);
    const u32 number = pick(bits == std::bit_cast<u32>(1.0f), 0u, finite);
    const u32 large = pick(f == 0, F32::infinity, F32::nan);
    const u32 positive = pick(e == 0xff, large, number);
    const u32 any = pick((bits & F32::sign) != 0, F32::nan, positive);
    return float_of(pick(e == 0, F32::sign | F32::infinity, any));
}

// sin(2 pi t) for quarter = 0, cos(2 pi t) for 1. |t| is truncated to 23 fractional bits of a quarter turn; the falling quarters are
// read backwards, complemented. NaN for Inf and NaN.
[[gnu::always_inline]] inline float sine_unit(float t, u32 quarter) {
    const u32 bits = bits_of(t), magnitude = bits & F32::magnitude;
    const u32 turning = pick(magnitude < std::bit_cast<u32>(0x1p24f), magnitude, 0u);  // larger ones are whole turns
    const double exact = double{float_of(turning)} * 0x1p25;
    const double rounded = exact + 0x1p52;  // the nearest integer, in the low bits
    const bool up = static_cast<s64>(bits_of(rounded - 0x1p52)) > static_cast<s64>(bits_of(exact));
    const u64 fixed = bits_of(rounded) - static_cast<u64>(up);
    const u32 point = static_cast<u32>(fixed);
    const u32 quadrant = (point >> 23) + quarter;
    const u32 f = (point ^ (0 - (quadrant & 1))) & 0x7fffff;
    const u32 value = bits_of(truncate_f32(interpolate(sin_table, f >> 17, f & 0x1ffff)));
    const u32 sign = ((quadrant & 2) << 30) ^ pick(quarter == 0, bits & F32::sign, 0u);
    return float_of(pick(magnitude >= F32::infinity, F32::nan, value ^ sign));
}

// x times f32(1 / (2 pi)), toward zero: what sin.approx and cos.approx do first.
[[gnu::always_inline]] inline float turns(float x) {
    const double exact = double{x} * 0x1.45f306p-3;
    const u32 rounded = bits_of(static_cast<float>(exact));
    const double magnitude = float_of(rounded & F32::magnitude);
    const bool up = magnitude > float_of(bits_of(exact) & F64::magnitude);
    return float_of(rounded - static_cast<u32>(up));
}

// The octaves of tanh's argument, from 2^-8: the fractional bits of its fixed point, and the number of segments, each 2^17 points long.
struct Octave {
    int fraction, segments;
};
inline constexpr std::array<Octave, 11> tanh_octaves{
    {{25, 1}, {24, 1}, {23, 1}, {23, 2}, {22, 2}, {22, 4}, {21, 4}, {20, 4}, {20, 8}, {20, 16}, {18, 8}}};
struct OctaveTable {
    std::array<float, tanh_octaves.size()> scale;
    std::array<s32, tanh_octaves.size()> offset;
};
inline constexpr OctaveTable tanh_scales = [] {
    OctaveTable t{};
    s32 before = 0;
    for (std::size_t i = 0; i < tanh_octaves.size(); ++i) {
        t.scale[i] = static_cast<float>(u32{1} << tanh_octaves[i].fraction);
        t.offset[i] = before - tanh_octaves[i].segments;  // an octave starts as many segments from 0 as it has
        before += tanh_octaves[i].segments;
    }
    return t;
}();

// tanh(x). Below 2^-8 the argument itself, from 8 on 1.
[[gnu::always_inline]] inline float tanh_unit(float a) {
    const u32 bits = bits_of(a), magnitude = bits & F32::magnitude;
    constexpr u32 low = std::bit_cast<u32>(0x1p-8f), high = std::bit_cast<u32>(8.0f), one = std::bit_cast<u32>(1.0f);
    const bool small = magnitude < low, large = magnitude >= high;
    const u32 inside = pick(small | large, one, magnitude);
    const u32 octave = (inside - low) >> 23;
    const u32 point = static_cast<u32>(static_cast<s32>(float_of(inside) * tanh_scales.scale[octave]));
    const u32 segment = (point >> 17) + static_cast<u32>(tanh_scales.offset[octave]);
    const u32 between = bits_of(truncate_f32(interpolate(tanh_table, segment, point & 0x1ffff)));
    const u32 finite = pick(small, magnitude, pick(large, one, between)) | (bits & F32::sign);
    return float_of(pick(magnitude > F32::infinity, F32::nan, finite));
}

}  // namespace wmmadiag::lanewise
