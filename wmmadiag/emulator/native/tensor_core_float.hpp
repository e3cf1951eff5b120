// The vectorised path of floating-point tensor-core sums: f16, bf16, tf32 and fp8 operands; f32 or f16 sums.
//
// Every product of two operands is exact in float (at most 22 bits), so is its multiplication by a power of two; truncation to
// int32 is then the hardware's alignment, and the int32 sum is exact. Outputs for which one of these would not hold (NaN, Inf,
// products or sums near the ends of float's range, int32 overflow) are recomputed by the scalar definition.
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
constexpr int zero_mark = -4000, special_mark = 12000, zero_product_limit = -1000, special_limit = 1000;

// f32 sums: exponents between which products, scale factors and results are normal floats.
constexpr int least_exponent = -100, greatest_exponent = 125;

struct alignas(64) DecodedA {
    float value[max_m * max_k];          // m x k
    std::int32_t exponent[max_m * max_k];  // twice the 16-bit exponent, one in each half
};

struct alignas(64) DecodedB {
    float value[max_k * max_n];           // k x n
    std::int16_t exponent[max_k * max_n];
};

// 16 operands' exponents at a time. Finite nonzero: that of the format, not normalised; else a mark.
template <Element Type>
[[gnu::always_inline]] inline Vectors<16>::H exponents_16(const std::uint16_t* bits) {
    using H = Vectors<16>::H;
    constexpr Format format = format_of(Type);
    constexpr int bias = (1 << (format.exponent_bits - 1)) - 1;
    constexpr std::int16_t all_ones = (1 << format.exponent_bits) - 1;
    const H magnitude = load<H>(bits) & std::int16_t{0x7fff};
    const H biased = magnitude >> format.fraction_bits;
    H exponent = biased - std::int16_t{bias};
    exponent = biased == 0 ? H{} + std::int16_t{1 - bias} : exponent;
    exponent = magnitude == 0 ? H{} + std::int16_t{zero_mark} : exponent;
    return biased == all_ones ? H{} + std::int16_t{special_mark} : exponent;
}

// Finite values exactly; Inf and NaN as anything.
template <Element Type, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::F values(const std::uint16_t* bits) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    if constexpr (Type == Element::bf16) {
        return (F)(__builtin_convertvector(load<typename V::UH>(bits), I) << 16);
    } else {
#if defined(__AVX512F__)
        if constexpr (Width == 16) return (F)_mm512_cvtph_ps((__m256i)load<typename V::UH>(bits));
#endif
#if defined(__F16C__)
        if constexpr (Width == 8) return (F)_mm256_cvtph_ps((__m128i)load<typename V::UH>(bits));
#endif
        const I h = __builtin_convertvector(load<typename V::UH>(bits), I);
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

// 16-bit operands; count is a multiple of 16.
template <Element Type>
inline void decode_a16(const std::uint16_t* bits, int count, DecodedA& out) {
    constexpr int width = native_width < 16 ? native_width : 16;
    for (int at = 0; at < count; at += 16) {
        const auto exponent = exponents_16<Type>(bits + at);
        for (int part = 0; part < 16; part += width) store(out.value + at + part, values<Type, width>(bits + at + part));
        using I = Vectors<16>::I;
        const I wide = __builtin_convertvector((Vectors<16>::UH)exponent, I);
        store(out.exponent + at, wide | (wide << 16));
    }
}

template <Element Type>
inline void decode_b16(const std::uint16_t* bits, int n, int k, DecodedB& out) {
    constexpr int width = native_width < 16 ? native_width : 16;
    alignas(64) std::uint16_t turned[max_k * max_n];
    for (int j = 0; j < n; j += 8)
        for (int p = 0; p < k; p += 8) transpose_8x8(bits + j * k + p, k, turned + p * n + j, n);
    for (int at = 0; at < n * k; at += 16) {
        for (int part = 0; part < 16; part += width)
            store(out.value + at + part, values<Type, width>(turned + at + part));
        store(out.exponent + at, exponents_16<Type>(turned + at));
    }
}

template <Element Type>
inline void decode_operands(const MmaRule& rule, const void* a, const void* b, DecodedA& da, DecodedB& db) {
    const int m = rule.m, n = rule.n, k = rule.k;
    if constexpr (Type == Element::f16 || Type == Element::bf16) {
        decode_a16<Type>(static_cast<const std::uint16_t*>(a), m * k, da);
        decode_b16<Type>(static_cast<const std::uint16_t*>(b), n, k, db);
    } else if constexpr (Type == Element::tf32) {
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

// f16 bits in 32-bit lanes to f32 bits, exactly; Inf and NaN keep their kind.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I half_to_float_bits(const typename Vectors<Width>::I& h) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    const I biased = (h >> 10) & 31;
    const I significand = (h & 0x3ff) | (biased == 0 ? I{} : I{} + 0x400);
    const I scale = ((biased == 0 ? I{} + 1 : biased) + (127 - 25)) << 23;
    const I finite = (I)(__builtin_convertvector(significand, F) * (F)scale);
    return (biased == 31 ? ((h & 0x3ff) << 13) | 0x7f800000 : finite) | ((h & 0x8000) << 16);
}

// f32 bits (not NaN) to f16 bits, nearest even, in 32-bit lanes.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I float_bits_to_half(const typename Vectors<Width>::I& bits) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
#if defined(__AVX512F__)
    if constexpr (Width == 16) {
        const auto h = (Vectors<16>::UH)_mm512_cvtps_ph((__m512)bits, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return __builtin_convertvector(h, I);
    }
#endif
#if defined(__F16C__)
    if constexpr (Width == 8) {
        const auto h = (Vectors<8>::UH)_mm256_cvtps_ph((__m256)bits, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        return __builtin_convertvector(h, I);
    }
#endif
    const I sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    // Normal: round the significand to 10 bits and rebias. Subnormal (below 2^-14): adding 0.5 leaves multiples of 2^-24.
    const I normal = (magnitude + 0xfff + ((magnitude >> 13) & 1) - ((127 - 15) << 23)) >> 13;
    const I subnormal = (I)((F)magnitude + 0.5f) - std::bit_cast<std::int32_t>(0.5f);
    const I infinity = I{} + static_cast<std::int32_t>(f16_infinity);
    I out = magnitude < ((127 - 14) << 23) ? subnormal : normal;
    out = out > infinity ? infinity : out;
    out = magnitude >= ((127 + 16) << 23) ? infinity : out;
    return out | sign;
}

// What the finishing code needs of a rule.
struct SumShape {
    int fraction_bits, step, zero_exponent, result_mask;
    bool may_overflow;  // step products and C may leave int32
};

inline SumShape sum_shape(const MmaRule& rule) {
    const std::int64_t products = std::int64_t{rule.step} << (rule.fraction_bits + 2);
    const std::int64_t addend = std::int64_t{1} << (rule.fraction_bits + 1);
    return {rule.fraction_bits, rule.step, rule.zero_exponent,
            rule.result_bits < 23 ? static_cast<std::int32_t>(~0u << (23 - rule.result_bits)) : -1,
            products + addend > std::int64_t{0x7fffffff}};
}

// The products of one step for Width outputs of one row, and C: the new C (bits), and a mask of outputs that need the scalar
// path. HalfSum: C and the result are f16 bits in 32-bit lanes, else f32 bits.
template <int Width, bool HalfSum, int Step>
[[gnu::always_inline]] inline typename Vectors<Width>::I step_outputs(const SumShape& shape, const float* a, const float* b,
                                                                      int n, const typename Vectors<Width>::I& product_exponent,
                                                                      const typename Vectors<Width>::I& c,
                                                                      typename Vectors<Width>::I& bad) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    using U = typename V::U;
    const int fraction_bits = shape.fraction_bits;
    I e_max = product_exponent;
    I c_exponent, c_significand;
    if constexpr (HalfSum) {
        const I biased = (c >> 10) & 31;
        c_exponent = biased - 15;
        c_exponent = biased == 0 ? I{} - 14 : c_exponent;
        c_significand = (c & 0x3ff) | (biased == 0 ? I{} : I{} + 0x400);
        // A zero C takes part with e_zero; so does a zero product, but then C != 0 and e_max >= -14 > e_zero.
        I term_exponent = c_significand == 0 ? I{} + shape.zero_exponent : c_exponent;
        term_exponent = biased == 31 ? I{} + special_mark : term_exponent;
        e_max = e_max > term_exponent ? e_max : term_exponent;
        bad |= e_max > special_limit;
        e_max = e_max > special_limit ? I{} : e_max;
    } else {
        const I biased = (c >> 23) & 255;
        c_exponent = (biased == 0 ? I{} + 1 : biased) - 127;
        e_max = e_max > c_exponent ? e_max : c_exponent;
        const I nothing = product_exponent < zero_product_limit;
        bad |= (e_max > greatest_exponent) | ((e_max < least_exponent) & ~nothing);
        e_max = e_max > greatest_exponent ? I{} + greatest_exponent : e_max;
        e_max = e_max < least_exponent ? I{} + least_exponent : e_max;
    }
    const F scale = (F)((fraction_bits + 127 - e_max) << 23);
    U sum{};
#pragma GCC unroll 32
    for (int p = 0; p < Step; ++p) sum += (U)truncate<Width>(load<F>(b + p * n) * a[p] * scale);
    if (shape.may_overflow) {
        const std::int32_t limit = 0x7fffffff - (1 << (fraction_bits + 1));
        bad |= ((I)sum > limit) | ((I)sum < -limit);
    }
    if constexpr (HalfSum) {
        const I exponent_field = (c_exponent - e_max + (fraction_bits - 10 + 127)) << 23;
        I term = truncate<Width>(__builtin_convertvector(c_significand, F) * (F)exponent_field);
        sum += (U)((c & 0x8000) != 0 ? -term : term);
    } else {
        sum += (U)truncate<Width>((F)c * scale);
    }
    const U sign = sum & 0x80000000u;
    U magnitude = (I)sum < 0 ? 0u - sum : sum;
    const F unit = (F)((e_max + (127 - fraction_bits)) << 23);
    if constexpr (HalfSum) {
        // More than 24 bits: drop 8, keeping whether one was set; the one rounding is then float to half.
        const U low = magnitude & 0xffu;
        const U kept = (magnitude - low) | (low != 0 ? U{} + 0x100u : U{});
        magnitude = magnitude >= 0x1000000u ? kept : magnitude;
        const F result = __builtin_convertvector((I)magnitude, F) * unit;
        const I half = float_bits_to_half<Width>((I)result);
        return half == 0 ? half : half | (I)(sign >> 16);
    } else {
        // Clearing the bits below the 24th, and at least the next: conversion to float then truncates.
        magnitude &= ~(magnitude >> 24);
        const I result = (I)(__builtin_convertvector((I)magnitude, F) * unit) & shape.result_mask;
        const I signed_result = result | (I)sign;
        // All products zero and C tiny: C itself (to the bits that are kept), -0 becoming +0.
        const I tiny = (product_exponent < zero_product_limit) & (c_exponent < least_exponent);
        const I kept_c = c & shape.result_mask;
        const I plain_c = (kept_c & 0x7fffffff) == 0 ? I{} : kept_c;
        return tiny ? plain_c : signed_result;
    }
}

// sum + C in f16 or f32, to nearest (MmaRule::widen); overflowed sums and special C go to the scalar path.
template <bool HalfSum, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I add_addend(const typename Vectors<Width>::I& sum,
                                                                    const typename Vectors<Width>::I& c,
                                                                    typename Vectors<Width>::I& bad) {
    using F = typename Vectors<Width>::F;
    using I = typename Vectors<Width>::I;
    if constexpr (HalfSum) {
        bad |= ((c & 0x7c00) == 0x7c00) | ((sum & 0x7c00) == 0x7c00);
        return float_bits_to_half<Width>((I)((F)half_to_float_bits<Width>(c) + (F)half_to_float_bits<Width>(sum)));
    } else {
        bad |= ((c & 0x7f800000) == 0x7f800000) | ((sum & 0x7f800000) == 0x7f800000);
        return (I)((F)c + (F)sum);
    }
}

template <int Width, bool HalfSum>
[[gnu::always_inline]] inline typename Vectors<Width>::I step_outputs_any(const SumShape& shape, const float* a, const float* b,
                                                                          int n, const typename Vectors<Width>::I& e,
                                                                          const typename Vectors<Width>::I& c,
                                                                          typename Vectors<Width>::I& bad) {
    switch (shape.step) {
        case 4: return step_outputs<Width, HalfSum, 4>(shape, a, b, n, e, c, bad);
        case 8: return step_outputs<Width, HalfSum, 8>(shape, a, b, n, e, c, bad);
        case 16: return step_outputs<Width, HalfSum, 16>(shape, a, b, n, e, c, bad);
        default: return step_outputs<Width, HalfSum, 32>(shape, a, b, n, e, c, bad);
    }
}

template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I load_c(Element type, const void* c, int at) {
    using V = Vectors<Width>;
    if (type == Element::f16)
        return __builtin_convertvector(load<typename V::UH>(static_cast<const std::uint16_t*>(c) + at), typename V::I);
    return load<typename V::I>(static_cast<const std::uint32_t*>(c) + at);
}

// Recomputes the outputs in `bad` from the operands themselves.
template <int Width>
[[gnu::noinline, gnu::cold]] void redo(const MmaRule& rule, const void* a, const void* b, int row, int column,
                                       const std::int32_t* c, const std::int32_t* bad, std::int32_t* d) {
    const std::size_t size_a = rule.k * element_size_bits(rule.a) / 8, size_b = rule.k * element_size_bits(rule.b) / 8;
    for (int lane = 0; lane < Width; ++lane) {
        if (bad[lane] == 0) continue;
        const char* row_a = static_cast<const char*>(a) + static_cast<std::size_t>(row) * size_a;
        const char* column_b = static_cast<const char*>(b) + static_cast<std::size_t>(column + lane) * size_b;
        d[lane] = static_cast<std::int32_t>(float_output(rule, row_a, column_b, static_cast<std::uint32_t>(c[lane])));
    }
}

// Width: float lanes; Group: 16-bit lanes of the search for the largest exponent, a multiple of Width.
template <Element Type, bool HalfSum, int Width, int Group>
void mma_float(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    using V = Vectors<Width>;
    using I = typename V::I;
    using H = typename Vectors<Group>::H;
    using Pairs = typename Vectors<Group / 2>::I;
    DecodedA da;
    DecodedB db;
    decode_operands<Type>(rule, a, b, da, db);
    const SumShape shape = sum_shape(rule);
    const int n = rule.n, k = rule.k, step = rule.step;
    for (int row = 0; row < rule.m; ++row) {
        const float* row_value = da.value + row * k;
        const std::int32_t* row_exponent = da.exponent + row * k;
        for (int group = 0; group < n; group += Group) {
            alignas(64) std::int16_t largest[max_k / 4][Group];
            for (int begin = 0, at = 0; begin < k; begin += step, ++at) {
                H e_max = H{} + std::int16_t{-32768};
#pragma GCC unroll 4
                for (int p = begin; p < begin + step; ++p) {
                    const H e = (H)(Pairs{} + row_exponent[p]) + load<H>(db.exponent + p * n + group);
                    e_max = e > e_max ? e : e_max;
                }
                store(largest[at], e_max);
            }
            for (int part = 0; part < Group; part += Width) {
                const int column = group + part;
                const I original = load_c<Width>(rule.c, c, row * n + column);
                I sum = original, bad{};
                if constexpr (!HalfSum)
                    if (rule.c == Element::f16) sum = half_to_float_bits<Width>(sum);
                if constexpr (is_byte<Type>)
                    if (rule.widen) sum = I{};
                for (int begin = 0, at = 0; begin < k; begin += step, ++at) {
                    const I e = __builtin_convertvector(load<typename V::H>(largest[at] + part), I);
                    sum = step_outputs_any<Width, HalfSum>(shape, row_value + begin, db.value + begin * n + column, n, e, sum,
                                                           bad);
                }
                if constexpr (is_byte<Type>)
                    if (rule.widen) sum = add_addend<HalfSum, Width>(sum, original, bad);
                if constexpr (!HalfSum)
                    if (rule.d == Element::f16) sum = float_bits_to_half<Width>(sum);
                if (any<Width>(bad)) [[unlikely]]
                    redo<Width>(rule, a, b, row, column, reinterpret_cast<const std::int32_t*>(&original),
                                reinterpret_cast<const std::int32_t*>(&bad), reinterpret_cast<std::int32_t*>(&sum));
                if (rule.d == Element::f16)
                    store(static_cast<std::uint16_t*>(d) + row * n + column, __builtin_convertvector(sum, typename V::UH));
                else
                    store(static_cast<std::uint32_t*>(d) + row * n + column, sum);
            }
        }
    }
}

template <Element Type, bool HalfSum>
MmaFunction select_width(const MmaRule& rule) {
    if (rule.n % 16 == 0) return mma_float<Type, HalfSum, native_width, native_width == 4 ? 8 : 16>;
    return mma_float<Type, HalfSum, (native_width < 8 ? native_width : 8), 8>;
}

template <Element Type>
MmaFunction select_sum(const MmaRule& rule) {
    return is_half_sum(rule) ? select_width<Type, true>(rule) : select_width<Type, false>(rule);
}

// The vectorised function for this rule, or nullptr if there is none.
inline MmaFunction select_float(const MmaRule& rule) {
    const bool shaped = rule.m <= max_m && rule.n <= max_n && rule.k <= max_k && rule.n % 8 == 0 && rule.m % 8 == 0;
    const bool stepped = (rule.step == 4 || rule.step == 8 || rule.step == 16) && rule.k % rule.step == 0;
    if (!shaped || !stepped || rule.fma_chain || rule.fraction_bits > 25 || rule.fraction_bits < 10) return nullptr;
    // f16 and bf16 are turned in blocks of 8 along k.
    switch (rule.a) {
        case Element::f16: return rule.k % 8 == 0 ? select_sum<Element::f16>(rule) : nullptr;
        case Element::bf16: return rule.k % 8 == 0 ? select_width<Element::bf16, false>(rule) : nullptr;
        case Element::tf32: return select_width<Element::tf32, false>(rule);
        default: return select_sum<Element::e4m3>(rule);
    }
}

}  // namespace
}  // namespace wmmadiag
