#include "number.hpp"

#include <algorithm>

namespace wmmadiag::lanewise {
namespace {

using Kind = Number::Kind;

constexpr u64 low_bits(unsigned count) { return count >= 64 ? ~u64{0} : (u64{1} << count) - 1; }

// significand >> drop, rounded. The direction of rm and rp depends on the sign.
u64 shift_rounded(u64 significand, unsigned drop, bool negative, Rounding rounding) {
    if (drop == 0) return significand;
    const u64 kept = drop >= 64 ? 0 : significand >> drop;
    const u64 rest = drop > 64 ? 1 : significand & low_bits(drop);  // beyond 64 bits only "not zero" matters, and "below half"
    const u64 half = drop > 64 ? 2 : u64{1} << (drop - 1);
    bool up = false;
    switch (rounding) {
        case Rounding::rn:
        case Rounding::rni: up = rest > half || (rest == half && (kept & 1) != 0); break;
        case Rounding::rna: up = rest >= half; break;
        case Rounding::rm:
        case Rounding::rmi: up = negative && rest != 0; break;
        case Rounding::rp:
        case Rounding::rpi: up = !negative && rest != 0; break;
        case Rounding::rz:
        case Rounding::rzi: break;
    }
    return kept + (up ? 1 : 0);
}

Number normalised(u64 significand, int exponent, bool negative) {
    if (significand == 0) return {Kind::zero, negative, 0, 0};
    const int leading = std::countl_zero(significand);
    return {Kind::finite, negative, exponent - leading, significand << leading};
}

}  // namespace

Number unpack_float(u64 bits, const FloatShape& shape) {
    const bool negative = ((bits >> (shape.bits - 1)) & 1) != 0;
    const u64 magnitude = bits & low_bits(shape.bits - 1);
    const u64 fraction = magnitude & low_bits(shape.mantissa);
    if (magnitude > shape.max_finite) {
        if (shape.infinity != 0 && magnitude == shape.infinity) return {Kind::infinite, negative, 0, 0};
        return {Kind::nan, negative, 0, fraction << (64 - shape.mantissa)};
    }
    const int field = static_cast<int>(magnitude >> shape.mantissa);
    const u64 significand = (field == 0 ? 0 : u64{1} << shape.mantissa) | fraction;
    const int exponent = shape.min_exponent + std::max(field, 1) - 1;  // of the bit at position `mantissa`
    return normalised(significand, exponent + 63 - static_cast<int>(shape.mantissa), negative);
}

Number unpack_integer(u64 magnitude, bool negative) { return normalised(magnitude, 63, negative); }

Number round_to_integer(const Number& number, Rounding rounding) {
    if (number.kind != Kind::finite || number.exponent >= 63) return number;
    const int drop = std::min(63 - number.exponent, 65);
    return normalised(shift_rounded(number.significand, static_cast<unsigned>(drop), number.negative, rounding), 63, number.negative);
}

u64 round_to_float(const Number& number, const FloatShape& shape, Rounding rounding, bool satfinite) {
    if (number.kind == Kind::nan) return shape.nan;
    const u64 sign = u64{number.negative} << (shape.bits - 1);
    if (number.kind == Kind::zero) return sign;
    const u64 infinity = satfinite || shape.infinity == 0 ? shape.max_finite : shape.infinity;
    if (number.kind == Kind::infinite) return sign | infinity;
    const int below = std::max(shape.min_exponent - number.exponent, 0);  // subnormal: that many bits fewer
    const int drop = std::min(63 - static_cast<int>(shape.mantissa) + below, 65);
    const u64 kept = shift_rounded(number.significand, static_cast<unsigned>(drop), number.negative, rounding);
    const int steps = number.exponent + below - shape.min_exponent;
    // The implicit bit in `kept` and a carry out of rounding both count as one step of the exponent. (Far out of range, stop short.)
    const u64 magnitude = (static_cast<u64>(std::min(steps, 4096)) << shape.mantissa) + kept;
    if (magnitude <= shape.max_finite) return sign | magnitude;
    const bool to_finite =
        rounding == Rounding::rz || (rounding == Rounding::rm && !number.negative) || (rounding == Rounding::rp && number.negative);
    return sign | (to_finite ? shape.max_finite : infinity);
}

u64 clamp_to_integer(const Number& number, unsigned bits, bool is_signed) {
    if (number.kind == Kind::zero) return 0;
    const u64 limit = number.negative ? (is_signed ? u64{1} << (bits - 1) : 0) : low_bits(is_signed ? bits - 1 : bits);
    const bool out = number.kind != Kind::finite || number.exponent > 63;
    const u64 integer = out ? ~u64{0} : (number.exponent < 0 ? 0 : number.significand >> (63 - number.exponent));
    const u64 magnitude = std::min(integer, limit);
    return number.negative ? 0 - magnitude : magnitude;
}

}  // namespace wmmadiag::lanewise
