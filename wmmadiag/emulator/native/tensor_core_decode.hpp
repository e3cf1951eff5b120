// Operands of floating-point tensor-core sums as floats and exponents, B turned so that its columns lie side by side.
//
// Internal to tensor_core.cpp.
#pragma once

#include <array>

#include "tensor_core_scalar.hpp"
#include "tensor_core_vector.hpp"

namespace wmmadiag {
namespace {

constexpr int max_m = 32, max_n = 32, max_k = 32;

// Exponents (16 bits) that mark operands without one. Sums of two stay in 16 bits and apart from all real exponents:
// a zero product is below -1000 even with the largest operand, and Inf or NaN times anything, zero too, above 1000.
constexpr int zero_mark = -4000, special_mark = 12000, zero_product_limit = -1000;

// f32 sums: exponents between which products, scale factors and results are normal floats.
constexpr int least_exponent = -100, greatest_exponent = 125;

struct alignas(64) DecodedA {
    float value[max_m * max_k];            // m x k
    std::int32_t exponent[max_m * max_k];  // twice the 16-bit exponent, one in each half
};

struct alignas(64) DecodedB {
    float value[max_k * max_n];  // k x n
    std::int16_t exponent[max_k * max_n];
};

// Operands' exponents, Width at a time. Finite nonzero: that of the format, not normalised; else a mark.
template <Element Type, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::H exponents(const typename Vectors<Width>::H& bits, std::int16_t zero = zero_mark,
                                                                   std::int16_t special = special_mark) {
    using H = typename Vectors<Width>::H;
    constexpr Format format = format_of(Type);
    constexpr int bias = (1 << (format.exponent_bits - 1)) - 1;
    constexpr std::int16_t all_ones = (1 << format.exponent_bits) - 1;
    const H magnitude = bits & std::int16_t{0x7fff};
    const H biased = magnitude >> format.fraction_bits;
    H exponent = biased - std::int16_t{bias};
    exponent = biased == 0 ? H{} + std::int16_t{1 - bias} : exponent;
    exponent = magnitude == 0 ? H{} + zero : exponent;
    return biased == all_ones ? H{} + special : exponent;
}

// Finite values exactly; Inf and NaN as anything.
template <Element Type, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::F values(const typename Vectors<Width>::UH& bits) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    if constexpr (Type == Element::bf16) {
        return (F)(__builtin_convertvector(bits, I) << 16);
    } else {
#if defined(__AVX512F__)
        if constexpr (Width == 16) return (F)_mm512_cvtph_ps((__m256i)bits);
#endif
#if defined(__F16C__)
        if constexpr (Width == 8) return (F)_mm256_cvtph_ps((__m128i)bits);
#endif
        const I h = __builtin_convertvector(bits, I);
        const I biased = (h >> 10) & 31;
        const I significand = (h & 0x3ff) | (biased == 0 ? I{} : I{} + 0x400);
        const I scale = ((biased == 0 ? I{} + 1 : biased) + (127 - 25)) << 23;  // 2^(exponent - 10)
        return (F)((I)(__builtin_convertvector(significand, F) * (F)scale) | ((h & 0x8000) << 16));
    }
}

template <Element Type>
inline constexpr bool is_byte = format_of(Type).exponent_bits + format_of(Type).fraction_bits < 8;

struct ByteTable {
    std::array<float, 256> value{};
    std::array<std::int16_t, 256> exponent{};
};

// Tables for the byte formats; `widen` as in MmaRule.
inline ByteTable make_byte_table(Element type, bool widen) {
    ByteTable table;
    for (int code = 0; code < 256; ++code) {
        const std::uint8_t byte = static_cast<std::uint8_t>(code);
        const Format format = format_of(type);
        Decoded x = decode(element_bits(type, &byte, 0), format);
        if (widen) x = widened(x, format);
        const std::size_t at = static_cast<std::size_t>(code);
        if (x.nan || x.infinite) {
            table.exponent[at] = special_mark;
        } else {
            table.value[at] = std::ldexp(static_cast<float>(x.significand), x.exponent - format.fraction_bits);
            table.exponent[at] = static_cast<std::int16_t>(x.significand == 0 ? zero_mark : x.exponent);
        }
    }
    return table;
}

inline const ByteTable& byte_table(Element type, bool widen) {
    static const std::array<ByteTable, 10> tables = [] {
        std::array<ByteTable, 10> all;
        for (std::size_t i = 0; i < 5; ++i)
            for (std::size_t w = 0; w < 2; ++w)
                all[2 * i + w] = make_byte_table(static_cast<Element>(static_cast<std::size_t>(Element::e4m3) + i), w != 0);
        return all;
    }();
    return tables[2 * (static_cast<std::size_t>(type) - static_cast<std::size_t>(Element::e4m3)) + (widen ? 1 : 0)];
}

// One tf32 operand.
inline void decode_tf32(std::uint32_t bits, float& value, int& exponent) {
    bits &= 0xffffe000u;
    const int biased = static_cast<int>((bits >> 23) & 255u);
    const bool special = biased == 255;
    value = special ? 0.0f : std::bit_cast<float>(bits);
    exponent = special ? special_mark : (bits << 1) == 0 ? zero_mark : (biased != 0 ? biased : 1) - 127;
}

[[gnu::always_inline]] inline std::int32_t twice(int exponent) {
    return static_cast<std::int32_t>((static_cast<std::uint32_t>(exponent) & 0xffffu) * 0x10001u);
}

template <Element Type>
inline void decode_operands(const MmaRule& rule, const void* a, const void* b, DecodedA& da, DecodedB& db) {
    const int m = rule.m, n = rule.n, k = rule.k;
    if constexpr (Type == Element::tf32) {
        for (int at = 0; at < m * k; ++at) {
            int exponent;
            decode_tf32(static_cast<const std::uint32_t*>(a)[at], da.value[at], exponent);
            da.exponent[at] = twice(exponent);
        }
        for (int j = 0; j < n; ++j)
            for (int p = 0; p < k; ++p) {
                int exponent;
                decode_tf32(static_cast<const std::uint32_t*>(b)[j * k + p], db.value[p * n + j], exponent);
                db.exponent[p * n + j] = static_cast<std::int16_t>(exponent);
            }
    } else {  // bytes, of types that rule.a and rule.b name
        const ByteTable& table_a = byte_table(rule.a, rule.widen);
        const ByteTable& table_b = byte_table(rule.b, rule.widen);
        int source[max_k];
        for (int p = 0; p < k; ++p) source[p] = rule.widen ? widened_k(p, k) : p;
        for (int i = 0; i < m; ++i)
            for (int p = 0; p < k; ++p) {
                const std::uint8_t code = static_cast<const std::uint8_t*>(a)[i * k + source[p]];
                da.value[i * k + p] = table_a.value[code];
                da.exponent[i * k + p] = twice(table_a.exponent[code]);
            }
        for (int p = 0; p < k; ++p)
            for (int j = 0; j < n; ++j) {
                const std::uint8_t code = static_cast<const std::uint8_t*>(b)[j * k + source[p]];
                db.value[p * n + j] = table_b.value[code];
                db.exponent[p * n + j] = table_b.exponent[code];
            }
    }
}

}  // namespace
}  // namespace wmmadiag
