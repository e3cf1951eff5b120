// The floating-point formats of registers: bit layout, NaN conventions, and branch-free conversions that vectorise.
//
// NaN results are canonical in f32 (0x7fffffff), f16 and bf16 (0x7fff): PTX ISA, "Floating Point Instructions". In f64 they keep
// an operand's payload (`settle` below).
#pragma once

#include <bit>
#include <limits>

#include "lanes.hpp"

namespace wmmadiag::lanewise {

// The functions here decide on bits, and `pick` selects with a mask: GCC moves floating-point work that only one side of a `?:` needs
// behind a branch, and because it may trap there, does not vectorise the loop.
template <class T>
[[gnu::always_inline]] constexpr T pick(bool condition, T yes, T no) {
    using Bits = std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>;
    const Bits mask = static_cast<Bits>(Bits{0} - static_cast<Bits>(condition));
    const Bits a = std::bit_cast<Bits>(yes), b = std::bit_cast<Bits>(no);
    return std::bit_cast<T>(static_cast<Bits>((a & mask) | (b & ~mask)));
}

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
    return pick<typename Format::Bits>((bits & Format::infinity) == 0, bits & Format::sign, bits);
}

[[gnu::always_inline]] inline u32 bits_of(float x) { return std::bit_cast<u32>(x); }
[[gnu::always_inline]] inline u64 bits_of(double x) { return std::bit_cast<u64>(x); }
[[gnu::always_inline]] inline float float_of(u32 bits) { return std::bit_cast<float>(bits); }
[[gnu::always_inline]] inline double float_of(u64 bits) { return std::bit_cast<double>(bits); }
[[gnu::always_inline]] inline bool is_nan(float x) { return is_nan<F32>(bits_of(x)); }
[[gnu::always_inline]] inline bool is_nan(double x) { return is_nan<F64>(bits_of(x)); }

[[gnu::always_inline]] inline float flush(float x) { return float_of(flush_bits<F32>(bits_of(x))); }
[[gnu::always_inline]] inline float flush_if(bool ftz, float x) { return pick(ftz, flush(x), x); }

// .ftz looks at the result rounded as if the exponent had no lower limit: a value that rounds up to the smallest normal from
// below by less than half a bit of *its own* precision is kept, one with a representable significand below is not (recorded on
// sm_90). So the operation is done a second time, 2^24 larger, to see whether its result is tiny.
inline constexpr float up_24 = 0x1p24f;
[[gnu::always_inline]] inline float flush_tiny(bool ftz, float r, float r_times_2_24) {
    constexpr u32 limit = std::bit_cast<u32>(0x1p-102f);
    const bool tiny = (bits_of(r_times_2_24) & F32::magnitude) < limit;
    return pick(ftz & tiny, float_of(bits_of(r) & F32::sign), r);
}

// A result with the right NaN; the operands matter in f64 only, where the last NaN among them is made quiet and kept, its sign
// included (recorded on sm_90).
[[gnu::always_inline]] inline float canonical(float r) { return pick(is_nan(r), float_of(F32::nan), r); }
template <class... Operands>
[[gnu::always_inline]] inline double settle(double r, Operands... operands) {
    constexpr u64 quiet = 0x0008000000000000;
    u64 nan = F64::nan;
    ((nan = is_nan(operands) ? bits_of(operands) | quiet : nan), ...);
    return pick(is_nan(r), float_of(nan), r);
}

// Clamp to [0, 1]; NaN and -0 become +0.
[[gnu::always_inline]] inline float saturate(float x) {
    constexpr u32 one = std::bit_cast<u32>(1.0f);
    const u32 bits = bits_of(x);
    const u32 below = bits < one ? bits : one;
    return float_of(bits > F32::infinity ? 0 : below);  // NaN, or the sign is set
}

// f16 to f32, exact. The exponent is rebased by an addition; a subnormal gets the exponent of 2^-14 as if it were a fraction of it, and
// 2^-14 is then taken off (no subnormal f32 appears, which would be slow); Inf and NaN are given f32's exponent.
[[gnu::always_inline]] inline float widen_f16(u16 half) {
    const u32 magnitude = static_cast<u32>(half & 0x7fff) << 13;
    const u32 sign = static_cast<u32>(half & 0x8000) << 16;
    const u32 subnormal = bits_of(float_of(magnitude + 0x38800000) - 0x1p-14f) & F32::magnitude;
    const u32 special = magnitude >= 0x0f800000 ? 0x7f800000u : 0u;
    return float_of(pick(magnitude < 0x00800000, subnormal, (magnitude + 0x38000000) | special) | sign);
}

// f32 to f16, nearest even. Subnormal results take their rounding from an addition to 0.5, whose ulp is 2^-24.
[[gnu::always_inline]] inline u16 narrow_f16(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    const u32 magnitude = bits & 0x7fffffff;
    const u32 rounded = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    const u32 subnormal = std::bit_cast<u32>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
    const u32 large = rounded < 0x7c00 ? rounded : 0x7c00;
    const u32 finite = pick(magnitude < 0x38800000, subnormal, magnitude >= 0x47800000 ? 0x7c00u : large);
    return static_cast<u16>(pick(magnitude > 0x7f800000, 0x7fffu, finite | ((bits >> 16) & 0x8000)));
}

[[gnu::always_inline]] inline float widen_bf16(u16 half) { return std::bit_cast<float>(static_cast<u32>(half) << 16); }

[[gnu::always_inline]] inline u16 narrow_bf16(float x) {
    const u32 bits = std::bit_cast<u32>(x);
    const u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<u16>(pick((bits & 0x7fffffff) > 0x7f800000, 0x7fffu, rounded));
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
[[gnu::always_inline]] inline float narrow_f32(bool ftz, double x) { return flush_tiny(ftz, static_cast<float>(x), static_cast<float>(x * up_24)); }

// a + b in T, rounded to odd: a later rounding to at most two bits fewer, in any direction, is then as good as rounding once (Boldo and
// Melquiond, 2008). Needs nearest-even mode. The error is Knuth's TwoSum.
template <class T>
[[gnu::always_inline]] inline T add_to_odd(T a, T b) {
    using Format = std::conditional_t<sizeof(T) == 4, F32, F64>;
    using Bits = typename Format::Bits;
    const T sum = a + b;
    const T part = sum - a;
    const T error = (a - (sum - part)) + (b - part);
    const Bits bits = bits_of(sum);
    const Bits error_bits = bits_of(error);
    const bool away = ((error_bits ^ bits) & Format::sign) == 0;  // the exact sum is larger in magnitude than the rounded one
    const Bits odd = pick<Bits>(away, bits + 1, bits - 1);
    const Bits size = error_bits & Format::magnitude;
    const bool inexact = size - 1 < Format::infinity;  // not 0; NaN follows an infinite sum
    return float_of(pick<Bits>(inexact, pick<Bits>((bits & 1) == 0, odd, bits), bits));
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
    const double shifted = (absolute + power) - power;
    const double rounded = pick(magnitude < std::bit_cast<u64>(0x1p200), shifted, absolute);
    const u64 sign = std::bit_cast<u64>(x) & F64::sign;
    return narrow<Format>(static_cast<float>(std::bit_cast<double>(std::bit_cast<u64>(rounded) | sign)));
}

}  // namespace wmmadiag::lanewise
