// ex2.approx.f32 for 16 lanes at once (AVX-512): `ex2_unit` of approximations.hpp, its table in registers instead of gathered, and its sum
// in integers, where it is as exact as in f64.
#pragma once

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#define WMMADIAG_VECTOR_EX2 1

#include <immintrin.h>

#include "approximations.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

static_assert(ex2_weights.shift1 == 0 && ex2_weights.shift2 == 0);
constexpr std::size_t ex2_segments = ex2_coefficients.size();

struct alignas(64) Column {
    std::array<s32, ex2_segments> of;
};

template <s32 Coefficients::* field>
inline constexpr Column ex2_column = [] {
    Column all{};
    for (std::size_t i = 0; i < ex2_segments; ++i) all.of[i] = ex2_coefficients[i].*field;
    return all;
}();

// Entry `segment` of 64, for each lane.
inline __m512i look_up(const Column& column, __m512i segment) {
    const auto half = [&](std::size_t first) {
        const s32* from = column.of.data() + first;
        return _mm512_permutex2var_epi32(_mm512_load_si512(from), segment, _mm512_load_si512(from + 16));
    };
    return _mm512_mask_mov_epi32(half(0), _mm512_test_epi32_mask(segment, _mm512_set1_epi32(32)), half(32));
}

// `truncated_square`.
inline __m512i truncated_squares(__m512i x) {
    const __m512i high = _mm512_srli_epi32(x, 9), low = _mm512_and_si512(x, _mm512_set1_epi32(0x1ff));
    __m512i sum = _mm512_srli_epi32(_mm512_madd_epi16(high, high), 1);
    for (unsigned a = 1; a < 8; ++a)
        sum = _mm512_mask_add_epi32(sum, _mm512_test_epi32_mask(x, _mm512_set1_epi32(1 << (9 + a))), sum, _mm512_srli_epi32(low, 9 - a));
    return sum;
}

// The interpolated values, in [1, 2], as f32 bits.
inline __m512i ex2_fractions(__m512i f) {
    const __m512i segment = _mm512_srli_epi32(f, 17), x = _mm512_and_si512(f, _mm512_set1_epi32(0x1ffff)), square = truncated_squares(x);
    const __m512i c0 = look_up(ex2_column<&Coefficients::c0>, segment), c1 = look_up(ex2_column<&Coefficients::c1>, segment);
    const __m512i c2 = look_up(ex2_column<&Coefficients::c2>, segment);
    // In units of 2^-38, of every second lane: nothing is negative.
    const auto sum = [](__m512i constant, __m512i slope, __m512i x_, __m512i curve, __m512i square_) {
        const __m512i first =
            _mm512_add_epi64(_mm512_mul_epu32(constant, _mm512_set1_epi64(1 << ex2_weights.shift0)), _mm512_set1_epi64(ex2_weights.round));
        return _mm512_add_epi64(first, _mm512_add_epi64(_mm512_mul_epu32(slope, x_), _mm512_mul_epu32(curve, square_)));
    };
    const auto other = [](__m512i v) { return _mm512_srli_epi64(v, 32); };
    const __m512i even = sum(c0, c1, x, c2, square), odd = sum(other(c0), other(c1), other(x), other(c2), other(square));
    constexpr int dropped = ex2_weights.unit - 23;
    const __m512i fractions = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, dropped), _mm512_slli_epi64(odd, 32 - dropped));
    return _mm512_add_epi32(fractions, _mm512_set1_epi32(126 << 23));  // the leading one is one more
}

// `ex2_unit`.
inline __m512 ex2_units(__m512 a) {
    const __m512i bits = _mm512_castps_si512(a), magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    const __m512i whole = _mm512_set1_epi32(0x7fffff), infinity = _mm512_set1_epi32(static_cast<s32>(F32::infinity));
    const __mmask16 negative = _mm512_movepi32_mask(bits);
    const __mmask16 beyond = _mm512_cmpge_epi32_mask(magnitude, _mm512_set1_epi32(std::bit_cast<s32>(128.0f)));
    const __m512 inside = _mm512_maskz_mov_ps(static_cast<__mmask16>(~beyond), _mm512_castsi512_ps(magnitude));
    const __m512i fixed = _mm512_cvttps_epi32(_mm512_mul_ps(inside, _mm512_set1_ps(0x1p23f)));
    const __mmask16 complemented = _mm512_mask_test_epi32_mask(negative, fixed, whole);
    const __m512i turned = _mm512_mask_sub_epi32(fixed, negative, _mm512_setzero_si512(), fixed);
    const __m512i point = _mm512_mask_sub_epi32(turned, complemented, turned, _mm512_set1_epi32(1));
    // As `scale_bits` has it.
    const __m512i scaled_ = _mm512_add_epi32(ex2_fractions(_mm512_and_si512(point, whole)), _mm512_andnot_si512(whole, point));
    const __mmask16 normal = _mm512_cmpgt_epi32_mask(scaled_, whole);
    const __m512i finite = _mm512_maskz_min_epi32(normal, scaled_, infinity);
    const __m512i outside = _mm512_maskz_mov_epi32(static_cast<__mmask16>(~negative), infinity);
    const __m512i number = _mm512_mask_mov_epi32(finite, beyond, outside);
    const __mmask16 nan = _mm512_cmpgt_epi32_mask(magnitude, infinity);
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(number, nan, _mm512_set1_epi32(static_cast<s32>(F32::nan))));
}

// With `flushed`, .ftz. As the lambdas in approximate.cpp, which are the definition.
template <bool flushed>
void ex2_lanes(const LaneArgs& args) {
    if (args.active != all_lanes) return into_scratch<sizeof(float)>(args, &ex2_lanes<flushed>);
    for (unsigned first = 0; first < lanes; first += 16) {
        const __m512 a = _mm512_loadu_ps(static_cast<const std::byte*>(args.s[0]) + first * sizeof(float));
        const __m512i bits = _mm512_castps_si512(a);
        __mmask16 low = 0;
        if constexpr (!flushed)
            low = _mm512_cmpgt_epu32_mask(bits, _mm512_set1_epi32(std::bit_cast<s32>(-126.0f))) &
                  _mm512_cmple_epu32_mask(bits, _mm512_set1_epi32(static_cast<s32>(F32::sign | F32::infinity)));
        const __m512 r = ex2_units(_mm512_mask_mul_ps(a, low, a, _mm512_set1_ps(0.5f)));
        _mm512_storeu_ps(static_cast<std::byte*>(args.d) + first * sizeof(float), _mm512_mask_mul_ps(r, low, r, r));
    }
}

}  // namespace
}  // namespace wmmadiag

#endif
