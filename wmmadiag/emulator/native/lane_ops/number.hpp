// A value between two formats: what cvt unpacks from its source and rounds into its destination.
//
// This path is exact and general; the common conversions have vectorised shortcuts in convert.cpp.
#pragma once

#include "lanes.hpp"

namespace wmmadiag::lanewise {

// value = (-1)^negative * significand * 2^(exponent - 63); a finite non-zero significand has its top bit set. A NaN's significand is its
// payload: the mantissa's bits, from the top down.
struct Number {
    enum class Kind : std::uint8_t { zero, finite, infinite, nan };
    Kind kind;
    bool negative;
    int exponent;
    u64 significand;
};

// A binary floating-point format of up to 64 bits, in the low bits of a word.
struct FloatShape {
    unsigned bits;      // sign included
    unsigned mantissa;  // fraction bits
    int min_exponent;   // of the smallest normal value
    u64 max_finite;     // largest finite magnitude, as bits
    u64 infinity;       // 0 where the format has none: overflow and Inf then give max_finite
    u64 nan;            // canonical NaN; where the format has none, what stands for it (+max_finite)
};

inline constexpr FloatShape f16_shape{16, 10, -14, 0x7bff, 0x7c00, 0x7fff};
inline constexpr FloatShape bf16_shape{16, 7, -126, 0x7f7f, 0x7f80, 0x7fff};
inline constexpr FloatShape f32_shape{32, 23, -126, 0x7f7fffff, 0x7f800000, 0x7fffffff};
inline constexpr FloatShape f64_shape{64, 52, -1022, 0x7fefffffffffffff, 0x7ff0000000000000, 0x7fffffffffffffff};
inline constexpr FloatShape tf32_shape{19, 10, -126, 0x3fbff, 0x3fc00, 0x3ffff};  // the upper bits of an f32
inline constexpr FloatShape e4m3_shape{8, 3, -6, 0x7e, 0, 0x7f};
inline constexpr FloatShape e5m2_shape{8, 2, -14, 0x7b, 0x7c, 0x7f};
inline constexpr FloatShape e2m3_shape{6, 3, 0, 0x1f, 0, 0x1f};
inline constexpr FloatShape e3m2_shape{6, 2, -2, 0x1f, 0, 0x1f};
inline constexpr FloatShape e2m1_shape{4, 1, 0, 0x7, 0, 0x7};

Number unpack_float(u64 bits, const FloatShape& shape);
Number unpack_integer(u64 magnitude, bool negative);

// To the nearest integer value, in the direction of an integer rounding (rni, rzi, rmi, rpi).
Number round_to_integer(const Number& number, Rounding rounding);

// Rounded once (rn, rz, rm, rp, rna). Overflow goes to Inf or to the largest finite value as the direction says; with `satfinite` always to
// the latter, Inf too.
u64 round_to_float(const Number& number, const FloatShape& shape, Rounding rounding, bool satfinite);

// An integer-valued number clamped to `bits` bits; two's complement. NaN is the caller's business.
u64 clamp_to_integer(const Number& number, unsigned bits, bool is_signed);

}  // namespace wmmadiag::lanewise
