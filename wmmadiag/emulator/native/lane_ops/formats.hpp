// The floating-point formats of registers: bit layout, NaN conventions, and branch-free conversions that vectorise.
//
// NaN results are canonical in f32 (0x7fffffff), f16 and bf16 (0x7fff): PTX ISA, "Floating Point Instructions". In f64 they keep
// an operand's payload (`settle` below).
#pragma once

#include <bit>
#include <limits>

#include "lanes.hpp"

namespace wmmadiag::lanewise {

// Formats by their bits, most significant first: sign, exponent, mantissa.
template <class Word, unsigned Mantissa, Word Nan>
struct Binary {
    using Bits = Word;
    static constexpr unsigned mantissa = Mantissa;
    static constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    static constexpr Bits magnitude = static_cast<Bits>(sign - 1);
    static constexpr Bits infinity = static_cast<Bits>(magnitude >> Mantissa << Mantissa);  // also the exponent's mask
    static constexpr Bits nan = Nan;                                                        // canonical
};
using F16 = Binary<u16, 10, 0x7fff>;
using BF16 = Binary<u16, 7, 0x7fff>;
using F32 = Binary<u32, 23, 0x7fffffff>;
using F64 = Binary<u64, 52, 0xfff8000000000000>;  // what an invalid operation gives

template <class Format>
constexpr bool is_nan(typename Format::Bits bits) {
    return (bits & Format::magnitude) > Format::infinity;
}

// Subnormals to zero of the same sign.
template <class Format>
constexpr typename Format::Bits flush_bits(typename Format::Bits bits) {
    return static_cast<typename Format::Bits>((bits & Format::infinity) == 0 ? bits & Format::sign : bits);
}

[[gnu::always_inline]] inline float flush(float x) { return std::bit_cast<float>(flush_bits<F32>(std::bit_cast<u32>(x))); }
[[gnu::always_inline]] inline float flush_if(bool ftz, float x) { return ftz ? flush(x) : x; }

// .ftz looks at the result rounded as if the exponent had no lower limit: a value that rounds up to the smallest normal from
// below by less than half a bit of *its own* precision is kept, one with a representable significand below is not (recorded on
// sm_90). So the operation is done a second time, 2^24 larger, to see whether its result is tiny.
inline constexpr float up_24 = 0x1p24f;
[[gnu::always_inline]] inline float flush_tiny(float r, float r_times_2_24) {
    const float zero = std::bit_cast<float>(std::bit_cast<u32>(r) & F32::sign);
    return std::bit_cast<float>(std::bit_cast<u32>(r_times_2_24) & F32::magnitude) < 0x1p-102f ? zero : r;
}

// A result with the right NaN; the operands matter in f64 only, where the last NaN among them is made quiet and kept, its sign
// included (recorded on sm_90).
[[gnu::always_inline]] inline float canonical(float r) { return r != r ? std::bit_cast<float>(F32::nan) : r; }
template <class... Operands>
[[gnu::always_inline]] inline float settle(float r, Operands...) {
    return canonical(r);
}
[[gnu::always_inline]] inline double quiet(double x) {
    return std::bit_cast<double>(std::bit_cast<u64>(x) | 0x0008000000000000);
}
[[gnu::always_inline]] inline double settle(double r, double a) {
    const double invalid = std::bit_cast<double>(F64::nan);
    return r != r ? (a != a ? quiet(a) : invalid) : r;
}
[[gnu::always_inline]] inline double settle(double r, double a, double b) {
    return r != r && b == b ? settle(r, a) : settle(r, b);
}
[[gnu::always_inline]] inline double settle(double r, double a, double b, double c) {
    return r != r && c == c ? settle(r, a, b) : settle(r, c);
}

// Clamp to [0, 1]; NaN and -0 become +0.
template <class T>
[[gnu::always_inline]] inline T saturate(T x) {
    return x > T{0} ? (x < T{1} ? x : T{1}) : T{0};
}

// f16 to f32, exact. The exponent is rebased by a multiplication, which also normalises subnormals; Inf and NaN are
// then given f32's exponent.
[[gnu::always_inline]] inline float widen_f16(u16 half) {
    const u32 magnitude = static_cast<u32>(half & 0x7fff) << 13;
    const u32 sign = static_cast<u32>(half & 0x8000) << 16;
    const u32 finite = std::bit_cast<u32>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const u32 special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u;
    return std::bit_cast<float>(finite | special | sign);
}

// f32 to f16, nearest even. Subnormal results take their rounding from an addition to 0.5, whose ulp is 2^-24.
[[gnu::always_inline]] inline u16 narrow_f16(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    const u32 magnitude = bits & 0x7fffffff;
    const u32 rounded = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const u32 subnormal = std::bit_cast<u32>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const u32 large = rounded < 0x7c00 ? rounded : 0x7c00;
    const u32 finite = magnitude < 0x38800000 ? subnormal : (magnitude >= 0x47800000 ? 0x7c00 : large);
    return static_cast<u16>(magnitude > 0x7f800000 ? 0x7fff : finite | ((bits >> 16) & 0x8000));
}

[[gnu::always_inline]] inline float widen_bf16(u16 half) { return std::bit_cast<float>(static_cast<u32>(half) << 16); }

[[gnu::always_inline]] inline u16 narrow_bf16(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<u16>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

template <class Format>
[[gnu::always_inline]] inline float widen(u16 half) {
    if constexpr (Format::mantissa == F16::mantissa) return widen_f16(half);
    return widen_bf16(half);
}
template <class Format>
[[gnu::always_inline]] inline u16 narrow(float x) {
    if constexpr (Format::mantissa == F16::mantissa) return narrow_f16(x);
    return narrow_bf16(x);
}

// f64 to f32, nearest even, with .ftz.
[[gnu::always_inline]] inline float narrow_f32(bool ftz, double x) {
    const float r = static_cast<float>(x);
    return ftz ? flush_tiny(r, static_cast<float>(x * up_24)) : r;
}

// a + b in f64, rounded to odd: a later rounding to at most 51 bits, in any direction, is then as good as rounding once (Boldo and
// Melquiond, 2008). Needs nearest-even mode. The error is Knuth's TwoSum.
[[gnu::always_inline]] inline double add_to_odd(double a, double b) {
    const double sum = a + b;
    const double part = sum - a;
    const double error = (a - (sum - part)) + (b - part);
    const u64 bits = std::bit_cast<u64>(sum);
    const bool away = (error > 0.0) == (sum > 0.0);  // the exact sum is larger in magnitude than the rounded one
    const u64 odd = away ? bits + 1 : bits - 1;
    const bool inexact = error > 0.0 || error < 0.0;  // false for NaN, which follows an infinite sum
    return std::bit_cast<double>(inexact && (bits & 1) == 0 ? odd : bits);
}

// f64 to a half format, nearest even, in one rounding when x is exact or rounded to odd. Adding and subtracting the power of two whose
// ulp is the result's rounds to it; what is left fits f32 exactly.
template <class Format>
[[gnu::always_inline]] inline u16 narrow_once(double x) {
    constexpr u64 drop = 52 - Format::mantissa;  // bits of the f64 mantissa that go
    constexpr u64 smallest = Format::mantissa == F16::mantissa ? 1023 - 14 : 1023 - 126;
    const u64 magnitude = std::bit_cast<u64>(x) & F64::magnitude;
    const s64 exponent = static_cast<s64>(magnitude & F64::infinity);
    const s64 least = static_cast<s64>(smallest << 52);
    const double power = std::bit_cast<double>(static_cast<u64>(exponent > least ? exponent : least) + (drop << 52));
    const double absolute = std::bit_cast<double>(magnitude);
    const double rounded = absolute < 0x1p200 ? (absolute + power) - power : absolute;
    const u64 sign = std::bit_cast<u64>(x) & F64::sign;
    return narrow<Format>(static_cast<float>(std::bit_cast<double>(std::bit_cast<u64>(rounded) | sign)));
}

}  // namespace wmmadiag::lanewise
