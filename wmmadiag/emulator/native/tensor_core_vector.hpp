// The few vector types and operations that the tensor-core fast path needs, on GCC/Clang vector extensions.
//
// Internal to tensor_core.cpp (internal linkage: that file is compiled once per instruction set). All operations give the same
// bits on every instruction set.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

// Vectors wider than the instruction set's are passed to inlined functions only, so their calling convention does not matter.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace wmmadiag {
namespace {

// Lanes of one float vector.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define WMMADIAG_AVX512 1
constexpr int native_width = 16;
#elif defined(__AVX2__)
constexpr int native_width = 8;
#else
constexpr int native_width = 4;
#endif

template <int Width>
struct Vectors {
    typedef float F __attribute__((vector_size(4 * Width)));
    typedef std::int32_t I __attribute__((vector_size(4 * Width)));
    typedef std::uint32_t U __attribute__((vector_size(4 * Width)));
    typedef std::int16_t H __attribute__((vector_size(2 * Width)));
    typedef std::uint16_t UH __attribute__((vector_size(2 * Width)));
};

template <class V>
[[gnu::always_inline]] inline V load(const void* from) {
    V out;
    std::memcpy(&out, from, sizeof out);
    return out;
}

template <class V>
[[gnu::always_inline]] inline void store(void* to, const V& value) {
    std::memcpy(to, &value, sizeof value);
}

// The compiler adds up to this value before it goes on: a long sum whose terms it collects first leaves the registers.
template <class V>
[[gnu::always_inline]] inline void keep_in_order([[maybe_unused]] V& sum) {
#if defined(__AVX512F__)
    asm("" : "+v"(sum));
#elif defined(__SSE2__)
    if constexpr (sizeof(V) <= sizeof(typename Vectors<native_width>::I)) asm("" : "+x"(sum));
#endif
}

// The compiler reads this again from here on, instead of holding more of it than there are registers.
template <class T>
[[gnu::always_inline]] inline void keep_in_memory(const T& what) {
    asm volatile("" : : "r"(&what) : "memory");
}

// Truncation to int32. Out of range (which only outputs that are thrown away can be) gives any value.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I truncate(const typename Vectors<Width>::F& x) {
    using I = typename Vectors<Width>::I;
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (I)_mm512_cvttps_epi32((__m512)x);
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return (I)_mm256_cvttps_epi32((__m256)x);
#endif
#if defined(__SSE2__)
    if constexpr (Width == 4) return (I)_mm_cvttps_epi32((__m128)x);
#endif
    return __builtin_convertvector(x, I);
}

// Is a lane of a comparison's result (0 or -1) set?
template <int Width>
[[gnu::always_inline]] inline bool any(const typename Vectors<Width>::I& mask) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return _mm256_movemask_ps((__m256)mask) != 0;
#endif
#if defined(__SSE2__)
    if constexpr (Width == 4) return _mm_movemask_ps((__m128)mask) != 0;
#endif
    std::int32_t all = 0;
    for (int lane = 0; lane < Width; ++lane) all |= mask[lane];
    return all != 0;
}

// Transposes one 8x8 block of 16-bit elements that does not overlap its result: from(i) and to(i) give rows, of any alignment.
template <class From, class To>
[[gnu::always_inline]] inline void transpose_8x8(From&& from, To&& to) {
#if defined(__SSE2__)
    __m128i r[8], s[8];
    for (int i = 0; i < 8; ++i) r[i] = load<__m128i>(from(i));
    for (int i = 0; i < 4; ++i) {
        s[2 * i] = _mm_unpacklo_epi16(r[2 * i], r[2 * i + 1]);
        s[2 * i + 1] = _mm_unpackhi_epi16(r[2 * i], r[2 * i + 1]);
    }
    // s0: r0 r1 columns 0-3, s1: columns 4-7, s2, s3: r2 r3, ...
    for (int half = 0; half < 2; ++half) {
        const __m128i low01 = _mm_unpacklo_epi32(s[half], s[2 + half]), low23 = _mm_unpackhi_epi32(s[half], s[2 + half]);
        const __m128i high01 = _mm_unpacklo_epi32(s[4 + half], s[6 + half]);
        const __m128i high23 = _mm_unpackhi_epi32(s[4 + half], s[6 + half]);
        store(to(4 * half), _mm_unpacklo_epi64(low01, high01));
        store(to(4 * half + 1), _mm_unpackhi_epi64(low01, high01));
        store(to(4 * half + 2), _mm_unpacklo_epi64(low23, high23));
        store(to(4 * half + 3), _mm_unpackhi_epi64(low23, high23));
    }
#else
    for (int i = 0; i < 8; ++i)
        for (int j = 0; j < 8; ++j) std::memcpy(reinterpret_cast<char*>(to(j)) + 2 * i, reinterpret_cast<const char*>(from(i)) + 2 * j, 2);
#endif
}

}  // namespace
}  // namespace wmmadiag
