// The scalar definition of one output of a tensor-core operation. Slow and plain: the vectorised paths are checked against it,
// and hand it the outputs that they cannot do exactly.
//
// Internal to tensor_core.cpp: everything here has internal linkage, because that file is compiled once per instruction set.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tensor_core.hpp"

namespace wmmadiag {
namespace {

struct Format {
    int exponent_bits, fraction_bits;
    bool has_infinity;  // the all-ones exponent is Inf or NaN
    bool has_nan;       // e4m3: only the all-ones code is NaN
};

constexpr Format format_of(Element element) {
    switch (element) {
        case Element::f16: return {5, 10, true, true};
        case Element::bf16: return {8, 7, true, true};
        case Element::tf32: return {8, 10, true, true};
        case Element::f32: return {8, 23, true, true};
        case Element::e4m3: return {4, 3, false, true};
        case Element::e5m2: return {5, 2, true, true};
        case Element::e3m2: return {3, 2, false, false};
        case Element::e2m3: return {2, 3, false, false};
        default: return {2, 1, false, false};  // e2m1
    }
}

// value = significand * 2^(exponent - fraction bits of its format); not normalised where subnormal.
struct Decoded {
    std::int64_t significand = 0;  // signed
    int exponent = 0;
    bool infinite = false;  // sign in `significand`
    bool nan = false;
};

inline Decoded decode(std::uint32_t bits, Format format) {
    const std::uint32_t fraction_mask = (1u << format.fraction_bits) - 1u;
    const std::uint32_t exponent_mask = (1u << format.exponent_bits) - 1u;
    const std::uint32_t fraction = bits & fraction_mask;
    const std::uint32_t biased = (bits >> format.fraction_bits) & exponent_mask;
    const bool negative = ((bits >> (format.fraction_bits + format.exponent_bits)) & 1u) != 0;
    const int bias = static_cast<int>(exponent_mask >> 1);
    Decoded out;
    if (biased == exponent_mask && format.has_infinity) {
        out.nan = fraction != 0;
        out.infinite = fraction == 0;
        out.significand = negative ? -1 : 1;
        return out;
    }
    if (biased == exponent_mask && format.has_nan && fraction == fraction_mask) {
        out.nan = true;
        return out;
    }
    const std::uint32_t magnitude = fraction | (biased != 0 ? fraction_mask + 1u : 0u);
    out.significand = negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
    out.exponent = static_cast<int>(biased != 0 ? biased : 1u) - bias;
    return out;
}

// fp8 widened to f16: exact, but what was subnormal becomes normal down to f16's own smallest exponent.
inline Decoded widened(Decoded value, Format format) {
    constexpr int f16_min_exponent = -14;
    const std::int64_t one = std::int64_t{1} << format.fraction_bits;
    while (value.significand != 0 && value.significand < one && value.significand > -one && value.exponent > f16_min_exponent) {
        value.significand *= 2;
        --value.exponent;
    }
    return value;
}

constexpr std::uint32_t f32_nan = 0x7fffffffu;
constexpr std::uint32_t f32_infinity = 0x7f800000u;
constexpr std::uint32_t f16_nan = 0x7fffu;
constexpr std::uint32_t f16_infinity = 0x7c00u;

// sum * 2^lsb, rounded toward zero to f32 with `fraction_bits` (23 or fewer) bits; overflow gives Inf, zero is +0.
inline std::uint32_t round_f32_toward_zero(std::int64_t sum, int lsb, int fraction_bits) {
    if (sum == 0) return 0;
    const std::uint32_t sign = sum < 0 ? 0x80000000u : 0u;
    std::uint64_t magnitude = sum < 0 ? 0 - static_cast<std::uint64_t>(sum) : static_cast<std::uint64_t>(sum);
    const int exponent = 63 - std::countl_zero(magnitude) + lsb;
    if (exponent > 127) return sign | f32_infinity;
    const int least = exponent < -126 ? -126 : exponent;
    const int shift = least - fraction_bits - lsb;
    magnitude = shift >= 64 ? 0 : shift >= 0 ? magnitude >> shift : magnitude << -shift;
    magnitude <<= 23 - fraction_bits;
    if (magnitude == 0) return 0;
    // The leading bit adds one to the exponent field of a normal number.
    return sign | static_cast<std::uint32_t>((static_cast<std::uint64_t>(least + 126) << 23) + magnitude);
}

// sum * 2^lsb, rounded to nearest even to f16; zero is `zero_sign`.
inline std::uint32_t round_f16_nearest(std::uint64_t magnitude, int lsb, std::uint32_t sign, std::uint32_t zero_sign) {
    if (magnitude == 0) return zero_sign;
    const int exponent = 63 - std::countl_zero(magnitude) + lsb;
    if (exponent > 15) return sign | f16_infinity;
    const int least = exponent < -14 ? -14 : exponent;
    const int shift = least - 10 - lsb;
    std::uint64_t kept;
    if (shift <= 0) {
        kept = magnitude << -shift;
    } else if (shift >= 64) {
        kept = 0;
    } else {
        kept = magnitude >> shift;
        const std::uint64_t rest = magnitude - (kept << shift);
        const std::uint64_t half = std::uint64_t{1} << (shift - 1);
        if (rest > half || (rest == half && (kept & 1u) != 0)) ++kept;
    }
    if (kept == 0) return zero_sign;
    const std::uint32_t bits = static_cast<std::uint32_t>((static_cast<std::uint64_t>(least + 14) << 10) + kept);
    return sign | (bits > f16_infinity ? f16_infinity : bits);
}

// cvt.rn.f16.f32
inline std::uint32_t f32_to_f16(std::uint32_t bits) {
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const Decoded value = decode(bits, format_of(Element::f32));
    if (value.nan) return f16_nan;
    if (value.infinite) return sign | f16_infinity;
    const std::uint64_t magnitude = static_cast<std::uint64_t>(value.significand < 0 ? -value.significand : value.significand);
    return round_f16_nearest(magnitude, value.exponent - 23, sign, sign);
}

// cvt.f32.f16 (exact; NaN becomes the canonical one)
inline std::uint32_t f16_to_f32(std::uint32_t bits) {
    const std::uint32_t sign = (bits & 0x8000u) << 16;
    const Decoded value = decode(bits, format_of(Element::f16));
    if (value.nan) return f32_nan;
    if (value.infinite) return sign | f32_infinity;
    if (value.significand == 0) return sign;
    return round_f32_toward_zero(value.significand, value.exponent - 10, 23);
}

// The sum is kept in f16 only if C and D both are.
inline bool is_half_sum(const MmaRule& rule) { return rule.c == Element::f16 && rule.d == Element::f16; }

// mma.m8n8k4 in hardware (sm_70, sm_75) takes an f16 C as it is, with f16's exponents; elsewhere ptxas widens it to f32 first.
inline bool takes_half_addend(const MmaRule& rule) { return rule.k == 4 && rule.a == Element::f16 && rule.c == Element::f16 && !rule.software; }

// Element p of a packed row.
inline std::uint32_t element_bits(Element type, const void* row, int p) {
    switch (type) {
        case Element::f16:
        case Element::bf16: {
            std::uint16_t bits;
            std::memcpy(&bits, static_cast<const char*>(row) + 2 * p, 2);
            return bits;
        }
        case Element::tf32: {
            std::uint32_t bits;
            std::memcpy(&bits, static_cast<const char*>(row) + 4 * p, 4);
            return bits >> 13;  // truncated: a NaN with its payload down there becomes Inf
        }
        case Element::e2m1: return (static_cast<const std::uint8_t*>(row)[p] >> 2) & 0xfu;  // bits 5:2 of its byte
        case Element::e3m2:
        case Element::e2m3: return static_cast<const std::uint8_t*>(row)[p] & 0x3fu;
        default: return static_cast<const std::uint8_t*>(row)[p];
    }
}

inline std::size_t element_size_bits(Element type) {
    switch (type) {
        case Element::f64: return 64;
        case Element::tf32:
        case Element::f32:
        case Element::s32: return 32;
        case Element::f16:
        case Element::bf16: return 16;
        case Element::s4:
        case Element::u4: return 4;
        case Element::b1: return 1;
        default: return 8;
    }
}

// Without an fp8 unit, ptxas (12.9 and 13.5, sm_90 to sm_110) unpacks each register of four fp8 into two of f16, and multiplies
// all first halves, then all second ones: k mod 4 in {0, 1} first, {2, 3} after that. `p` counts in that order; returns k.
inline int widened_k(int p, int k) {
    const int half = p / (k / 2), at = p % (k / 2);
    return 4 * (at / 2) + 2 * half + at % 2;
}

// One fused step: `count` (at most 32) products and C in one sum. C and the result are bits of f16 or f32.
inline std::uint32_t fused_step(const MmaRule& rule, const void* a, const void* b, int begin, int count, std::uint32_t c, bool half_addend,
                                bool half_sum) {
    const Format format_a = format_of(rule.a), format_b = format_of(rule.b);
    const Format format_c = half_addend ? format_of(Element::f16) : format_of(Element::f32);
    struct Term {
        std::int64_t significand;
        int exponent, fraction_bits;
    } terms[33];
    int e_max = -100000, used = 0;
    bool nan = false, plus_infinity = false, minus_infinity = false;
    const auto add = [&](std::int64_t significand, int exponent, int fraction_bits) {
        if (significand == 0) exponent = rule.zero_exponent;
        terms[used++] = {significand, exponent, fraction_bits};
        e_max = exponent > e_max ? exponent : e_max;
    };
    const auto infinite = [&](bool negative) { (negative ? minus_infinity : plus_infinity) = true; };
    for (int at = begin; at < begin + count; ++at) {
        const int p = rule.widen ? widened_k(at, rule.k) : at;
        Decoded x = decode(element_bits(rule.a, a, p), format_a), y = decode(element_bits(rule.b, b, p), format_b);
        if (rule.widen) x = widened(x, format_a), y = widened(y, format_b);
        if (x.nan || y.nan) {
            nan = true;
        } else if (x.infinite || y.infinite) {
            if (x.significand == 0 || y.significand == 0) nan = true;
            infinite((x.significand < 0) != (y.significand < 0));
        } else {
            add(x.significand * y.significand, x.exponent + y.exponent, format_a.fraction_bits + format_b.fraction_bits);
        }
    }
    const Decoded addend = decode(c, format_c);
    if (addend.nan) nan = true;
    if (addend.infinite) infinite(addend.significand < 0);
    if (!addend.nan && !addend.infinite) add(addend.significand, addend.exponent, format_c.fraction_bits);
    if (nan || (plus_infinity && minus_infinity)) return half_sum ? f16_nan : f32_nan;
    if (plus_infinity) return half_sum ? f16_infinity : f32_infinity;
    if (minus_infinity) return half_sum ? 0x8000u | f16_infinity : 0x80000000u | f32_infinity;

    const int lsb = e_max - rule.fraction_bits;
    std::int64_t sum = 0;
    for (int t = 0; t < used; ++t) {
        const int shift = terms[t].exponent - terms[t].fraction_bits - lsb;
        const bool negative = terms[t].significand < 0;
        std::uint64_t magnitude = static_cast<std::uint64_t>(negative ? -terms[t].significand : terms[t].significand);
        if (magnitude == 0) continue;
        magnitude = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
        sum += negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
    }
    if (!half_sum) return round_f32_toward_zero(sum, lsb, rule.result_bits);
    const std::uint64_t magnitude = static_cast<std::uint64_t>(sum < 0 ? -sum : sum);
    return round_f16_nearest(magnitude, lsb, sum < 0 ? 0x8000u : 0u, 0u);
}

// add.rn.f32
inline std::uint32_t add_f32(std::uint32_t x, std::uint32_t y) {
    const float sum = std::bit_cast<float>(x) + std::bit_cast<float>(y);
    return sum != sum ? f32_nan : std::bit_cast<std::uint32_t>(sum);
}

// add.rn.f16: rounding to f32 first is harmless, 24 >= 2 * 11 + 2 (Figueroa 1995).
inline std::uint32_t add_f16(std::uint32_t x, std::uint32_t y) { return f32_to_f16(add_f32(f16_to_f32(x), f16_to_f32(y))); }

// mma.m8n8k4 f16 in software, in the order in which ptxas writes it for sm_80 and later (SASS of ptxas 13.0): an f32 result is a
// chain of FFMA from +0 over k, then FADD with C; for an f16 result C + (k 0, 1) + (k 2, 3) in f32, each pair an FMUL and an FFMA.
inline std::uint32_t software_sum(const MmaRule& rule, const void* a, const void* b, std::uint32_t c) {
    const auto multiply_add = [&](int p, float to) {
        const float x = std::bit_cast<float>(f16_to_f32(element_bits(rule.a, a, p)));
        const float y = std::bit_cast<float>(f16_to_f32(element_bits(rule.b, b, p)));
        return std::fma(x, y, to);
    };
    if (rule.d != Element::f16) {
        float sum = 0.0f;
        for (int p = 0; p < rule.k; ++p) sum = multiply_add(p, sum);
        return add_f32(std::bit_cast<std::uint32_t>(sum), c);
    }
    for (int p = 0; p < rule.k; p += 2) {
        const float pair = multiply_add(p + 1, multiply_add(p, -0.0f));  // x * y + -0 is x * y, also where that is -0
        c = add_f32(c, std::bit_cast<std::uint32_t>(pair));
    }
    return c;
}

// One output: `a` a packed row of A, `b` a packed column of B, `c` bits of rule.c; returns bits of rule.d.
inline std::uint32_t float_output(const MmaRule& rule, const void* a, const void* b, std::uint32_t c) {
    const bool half_sum = is_half_sum(rule) && !rule.software;
    const bool half_addend = half_sum || takes_half_addend(rule);
    if (rule.c == Element::f16 && !half_addend) c = f16_to_f32(c);
    if (rule.software) {
        c = software_sum(rule, a, b, c);
    } else {
        const std::uint32_t addend = c;
        if (rule.widen) c = 0;
        for (int begin = 0; begin < rule.k; begin += rule.step) {
            const int left = rule.k - begin;
            c = fused_step(rule, a, b, begin, left < rule.step ? left : rule.step, c, begin == 0 ? half_addend : half_sum, half_sum);
        }
        if (rule.widen) c = half_sum ? add_f16(c, addend) : add_f32(c, addend);
    }
    return rule.d == Element::f16 && !half_sum ? f32_to_f16(c) : c;
}

}  // namespace
}  // namespace wmmadiag
