// The vectorised path of floating-point tensor-core sums: f16, bf16, tf32 and fp8 operands; f32 or f16 sums.
//
// Every product of two operands is exact in float (at most 22 bits), so is its multiplication by a power of two; truncation to
// int32 is then the hardware's alignment, and the int32 sum is exact. Outputs for which one of these would not hold (NaN, Inf,
// products or sums near the ends of float's range, int32 overflow) are recomputed by the scalar definition.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_decode.hpp"

namespace wmmadiag {
namespace {

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

// f32 (not NaN) rounded to the nearest f16, even at ties, as f32 bits.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I round_to_half(const typename Vectors<Width>::F& x) {
    using F = typename Vectors<Width>::F;
    using I = typename Vectors<Width>::I;
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (I)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
#if defined(__F16C__)
    if constexpr (Width == 8) return (I)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#endif
    const I bits = (I)x, sign = bits & static_cast<std::int32_t>(0x80000000u), magnitude = bits & 0x7fffffff;
    const I normal = (magnitude + 0xfff + ((magnitude >> 13) & 1)) & ~0x1fff;
    const I subnormal = (I)(((F)magnitude + 0.5f) - 0.5f);  // multiples of 2^-24
    I out = magnitude < ((127 - 14) << 23) ? subnormal : normal;
    out = out >= ((127 + 16) << 23) ? I{} + 0x7f800000 : out;
    return out | sign;
}

// Width elements of C as f32 bits.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I load_c(bool narrow, const void* c, int at) {
    using V = Vectors<Width>;
    using I = typename V::I;
    if (!narrow) return load<I>(static_cast<const std::uint32_t*>(c) + at);
    const auto half = load<typename V::UH>(static_cast<const std::uint16_t*>(c) + at);
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (I)_mm512_cvtph_ps((__m256i)half);
#endif
#if defined(__F16C__)
    if constexpr (Width == 8) return (I)_mm256_cvtph_ps((__m128i)half);
#endif
    return half_to_float_bits<Width>(__builtin_convertvector(half, I));
}

// What the finishing code needs of a rule.
struct SumShape {
    int fraction_bits, zero_exponent, result_mask;
};

inline SumShape sum_shape(const MmaRule& rule) {
    return {rule.fraction_bits, rule.zero_exponent, rule.result_bits < 23 ? static_cast<std::int32_t>(~0u << (23 - rule.result_bits)) : -1};
}

// A sum of aligned terms, in units of `unit` (a power of two), as f16 to the nearest even; f32 bits.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I finish_half(const typename Vectors<Width>::U& sum, const typename Vectors<Width>::F& unit) {
    using F = typename Vectors<Width>::F;
    using I = typename Vectors<Width>::I;
    using U = typename Vectors<Width>::U;
    U magnitude = (I)sum < 0 ? 0u - sum : sum;
    // More than 24 bits: drop 8, keeping whether one was set; the one rounding is then float to half.
    const U low = magnitude & 0xffu;
    const U kept = (magnitude - low) | (low != 0 ? U{} + 0x100u : U{});
    magnitude = magnitude >= 0x1000000u ? kept : magnitude;
    const I result = round_to_half<Width>((F)((I)(__builtin_convertvector((I)magnitude, F) * unit) | (I)(sum & 0x80000000u)));
    return (result & 0x7fffffff) == 0 ? I{} : result;
}

// The same as f32, toward zero.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I finish_float(const typename Vectors<Width>::U& sum, const typename Vectors<Width>::F& unit) {
    using F = typename Vectors<Width>::F;
    using I = typename Vectors<Width>::I;
    using U = typename Vectors<Width>::U;
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (I)((F)_mm512_cvt_roundepi32_ps((__m512i)sum, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC) * unit);
#endif
    // Clearing the bits below the 24th, and at least the next: conversion to float then truncates.
    U magnitude = (I)sum < 0 ? 0u - sum : sum;
    magnitude &= ~(magnitude >> 24);
    return (I)(__builtin_convertvector((I)magnitude, F) * unit) | (I)(sum & 0x80000000u);
}

// Exponents that only special products reach; bf16 and tf32: or products that are too large for the fast path.
template <Element Type>
inline constexpr int largest_product_exponent = Type == Element::bf16 || Type == Element::tf32 ? greatest_exponent : 40;

// The products of one step for Width outputs, and C: the new C (bits); adds to `bad` the outputs that need the scalar path. C and the
// result are f32 bits; with HalfSum their values are those of f16. product(p) gives products p as floats.
template <Element Type, bool HalfSum, int Width, int Step, class Product>
[[gnu::always_inline]] inline typename Vectors<Width>::I step_outputs(const SumShape& shape, Product&& product,
                                                                      const typename Vectors<Width>::I& product_exponent,
                                                                      const typename Vectors<Width>::I& c, typename Vectors<Width>::I& bad) {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    using U = typename V::U;
    // Exponents where a float has them: biased, shifted.
    constexpr auto in_place = [](int exponent) { return (exponent + 127) << 23; };
    const int fraction_bits = shape.fraction_bits;
    I c_exponent = c & 0x7f800000;
    bad |= (product_exponent > largest_product_exponent<Type>) | (c_exponent > in_place(greatest_exponent));
    I e_max = (I)((U)((product_exponent > least_exponent ? product_exponent : I{} + least_exponent) + 127) << 23);
    I low{};  // C and all products tiny or zero
    if constexpr (HalfSum) {
        // A zero C takes part with e_zero; so does a zero product, but then C != 0 and e_max >= -14 > e_zero.
        const I normal = c_exponent > in_place(-14) ? c_exponent : I{} + in_place(-14);
        c_exponent = c_exponent == 0 ? I{} + in_place(shape.zero_exponent) : normal;
    } else {
        low = (product_exponent < least_exponent) & (c_exponent < in_place(least_exponent));
        // Products of f16 and smaller never come near the lower end; zero products leave C alone (below).
        if constexpr (Type == Element::bf16 || Type == Element::tf32) bad |= low & (product_exponent >= zero_product_limit);
    }
    e_max = e_max > c_exponent ? e_max : c_exponent;
    const F scale = (F)((U{} + (static_cast<std::uint32_t>(fraction_bits + 254) << 23)) - (U)e_max);
    const F unit = (F)(e_max - (fraction_bits << 23));
    // 16 products are below 16 * 4 * 2^25: they fit.
    const auto products = [&](int begin) [[gnu::always_inline]] {
        U part{};
#pragma GCC unroll 16
        for (int p = begin; p < begin + (Step < 16 ? Step : 16); ++p) part += (U)truncate<Width>(product(p) * scale);
        return part;
    };
    U sum = products(0);
    if constexpr (Step == 32) {
        const U second = products(16), total = sum + second;
        bad |= (I)((sum ^ total) & (second ^ total)) < 0;
        sum = total;
    }
    if constexpr (Step >= 16) {  // with C (below 2 * 2^F), int32 may not be enough
        const std::int32_t limit = 0x7fffffff - (1 << (fraction_bits + 1));
        bad |= ((I)sum > limit) | ((I)sum < -limit);
    }
    sum += (U)truncate<Width>((F)c * scale);
    if constexpr (HalfSum) return finish_half<Width>(sum, unit);
    I result = finish_float<Width>(sum, unit), kept_c = c;
    if constexpr (is_byte<Type>) {
        result &= shape.result_mask;
        kept_c &= shape.result_mask;
    }
    // All products zero and C tiny: C itself (to the bits that are kept), -0 becoming +0.
    const I plain_c = (kept_c & 0x7fffffff) == 0 ? I{} : kept_c;
    return low ? plain_c : result;
}

// sum + C in f16 or f32, to nearest (MmaRule::widen); overflowed sums and special C go to the scalar path.
template <bool HalfSum, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I add_addend(const typename Vectors<Width>::I& sum, const typename Vectors<Width>::I& c,
                                                                    typename Vectors<Width>::I& bad) {
    using F = typename Vectors<Width>::F;
    using I = typename Vectors<Width>::I;
    bad |= ((c & 0x7f800000) == 0x7f800000) | ((sum & 0x7f800000) == 0x7f800000);
    const F result = (F)c + (F)sum;
    return HalfSum ? round_to_half<Width>(result) : (I)result;
}

// Recomputes the outputs in `bad` from the operands themselves.
template <int Width>
[[gnu::noinline, gnu::cold]] void redo(const MmaRule& rule, const void* a, const void* b, const void* c, int row, int column, const std::int32_t* bad,
                                       std::int32_t* d) {
    const std::size_t size_a = rule.k * element_size_bits(rule.a) / 8, size_b = rule.k * element_size_bits(rule.b) / 8;
    for (int lane = 0; lane < Width; ++lane) {
        if (bad[lane] == 0) continue;
        const char* row_a = static_cast<const char*>(a) + static_cast<std::size_t>(row) * size_a;
        const char* column_b = static_cast<const char*>(b) + static_cast<std::size_t>(column + lane) * size_b;
        const int at = row * rule.n + column + lane;
        const std::uint32_t addend = rule.c == Element::f16 ? load<std::uint16_t>(static_cast<const std::uint16_t*>(c) + at)
                                                            : load<std::uint32_t>(static_cast<const std::uint32_t*>(c) + at);
        d[lane] = static_cast<std::int32_t>(float_output(rule, row_a, column_b, addend));
    }
}

// The largest exponent of each step's products, for Group outputs of one row.
template <int Group, int N, int K, int Step>
[[gnu::always_inline]] inline void largest_exponents(const std::int32_t* a, const std::int16_t* b, std::int16_t (&largest)[K / Step][Group]) {
    using H = typename Vectors<Group>::H;
    using Pairs = typename Vectors<Group / 2>::I;
#pragma GCC unroll 8
    for (int begin = 0; begin < K; begin += Step) {
        H e_max = (H)(Pairs{} + a[begin]) + load<H>(b + begin * N);
#pragma GCC unroll 32
        for (int p = begin + 1; p < begin + Step; ++p) {
            const H e = (H)(Pairs{} + a[p]) + load<H>(b + p * N);
            e_max = e > e_max ? e : e_max;
        }
        store(largest[begin / Step], e_max);
    }
}

// m x N outputs, K products each in steps of Step.
template <Element Type, bool HalfSum, int N, int K, int Step>
void mma_float(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    constexpr int Width = native_width < N ? native_width : N;   // float lanes
    constexpr int Group = N >= 16 && native_width > 4 ? 16 : 8;  // 16-bit lanes of the search for the largest exponent
    using V = Vectors<Width>;
    using I = typename V::I;
    DecodedA da;
    DecodedB db;
    decode_operands<Type>(rule, a, b, da, db);
    const SumShape shape = sum_shape(rule);
    const bool narrow_c = rule.c == Element::f16, narrow_d = rule.d == Element::f16, widen = is_byte<Type> && rule.widen;
    for (int row = 0; row < rule.m; ++row) {
        const float* row_value = da.value + row * K;
        for (int group = 0; group < N; group += Group) {
            alignas(64) std::int16_t largest[K / Step][Group];
            largest_exponents<Group, N, K, Step>(da.exponent + row * K, db.exponent + group, largest);
            for (int part = 0; part < Group; part += Width) {
                const int column = group + part;
                const I original = load_c<Width>(narrow_c, c, row * N + column);
                I sum = widen ? I{} : original, bad{};
#pragma GCC unroll 8
                for (int begin = 0; begin < K; begin += Step) {
                    const I e = __builtin_convertvector(load<typename V::H>(largest[begin / Step] + part), I);
                    const auto product = [&](int p) [[gnu::always_inline]] {
                        return load<typename V::F>(db.value + (begin + p) * N + column) * row_value[begin + p];
                    };
                    sum = step_outputs<Type, HalfSum, Width, Step>(shape, product, e, sum, bad);
                }
                if (widen) sum = add_addend<HalfSum, Width>(sum, original, bad);
                if (narrow_d) sum = float_bits_to_half<Width>(sum);
                if (any<Width>(bad)) [[unlikely]] {
                    alignas(64) std::int32_t lanes_bad[Width], lanes_d[Width];
                    store(lanes_bad, bad), store(lanes_d, sum);
                    redo<Width>(rule, a, b, c, row, column, lanes_bad, lanes_d);
                    sum = load<I>(lanes_d);
                }
                if (narrow_d) store(static_cast<std::uint16_t*>(d) + row * N + column, __builtin_convertvector(sum, typename V::UH));
                else store(static_cast<std::uint32_t*>(d) + row * N + column, sum);
            }
        }
    }
}

// By shape and step; nullptr for those that no instruction has.
template <Element Type, bool HalfSum>
MmaFunction select_shape(const MmaRule& rule) {
    const int n = rule.n, k = rule.k, step = rule.step;
    const auto is = [&](int n_, int k_, int step_) { return n == n_ && k == k_ && step == step_; };
    if constexpr (Type == Element::tf32) {
        if (is(8, 4, 4)) return mma_float<Type, HalfSum, 8, 4, 4>;
        if (is(8, 8, 4)) return mma_float<Type, HalfSum, 8, 8, 4>;
        if (is(8, 8, 8)) return mma_float<Type, HalfSum, 8, 8, 8>;
        if (is(16, 8, 4)) return mma_float<Type, HalfSum, 16, 8, 4>;
    } else {
        if (is(8, 16, 8)) return mma_float<Type, HalfSum, 8, 16, 8>;
        if (is(8, 16, 16)) return mma_float<Type, HalfSum, 8, 16, 16>;
        if (is(8, 32, 16)) return mma_float<Type, HalfSum, 8, 32, 16>;
        if (is(8, 32, 32)) return mma_float<Type, HalfSum, 8, 32, 32>;
    }
    return nullptr;
}

template <Element Type>
MmaFunction select_sum(const MmaRule& rule) {
    return is_half_sum(rule) ? select_shape<Type, true>(rule) : select_shape<Type, false>(rule);
}

inline bool has_float_path(const MmaRule& rule) {
    return rule.m <= max_m && rule.m % 8 == 0 && !rule.software && rule.fraction_bits >= 10 && rule.fraction_bits <= 25;
}

// The vectorised function for this rule, or nullptr if there is none.
inline MmaFunction select_float(const MmaRule& rule) {
    if (!has_float_path(rule)) return nullptr;
    switch (rule.a) {
        case Element::f16:
        case Element::bf16: return nullptr;  // tensor_core_rows.hpp
        case Element::tf32: return select_shape<Element::tf32, false>(rule);
        default: return select_sum<Element::e4m3>(rule);
    }
}

}  // namespace
}  // namespace wmmadiag
