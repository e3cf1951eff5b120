// A square: eight lines of sixteen bytes, which is what a register of 32 lanes holds of a matrix. In the widest vectors that there are, so
// that what reads the register next finds it written at once.
//
// Internal to the files that include it, which are compiled once per instruction set: all has internal linkage.
#pragma once

#include <cstddef>

#include "tensor_core_vector.hpp"

namespace wmmadiag {
namespace {

constexpr unsigned lines_in_square = 8;
constexpr std::size_t bytes_in_line = 16;

struct Square {
#if defined(WMMADIAG_AVX512)
    __m512i half[2];  // four lines each
#else
    typedef std::uint8_t Line __attribute__((vector_size(bytes_in_line)));
    Line line[lines_in_square];
#endif
};

// at(i) says where line i lies, at any alignment.
template <class At>
[[gnu::always_inline]] inline Square gather_square(At&& at) {
    Square to;
#if defined(WMMADIAG_AVX512)
    for (unsigned h = 0; h < 2; ++h) {
        __m512i v = _mm512_castsi128_si512(load<__m128i>(at(4 * h)));
        v = _mm512_inserti32x4(v, load<__m128i>(at(4 * h + 1)), 1);
        v = _mm512_inserti32x4(v, load<__m128i>(at(4 * h + 2)), 2);
        to.half[h] = _mm512_inserti32x4(v, load<__m128i>(at(4 * h + 3)), 3);
    }
#else
    for (unsigned i = 0; i < lines_in_square; ++i) to.line[i] = load<Square::Line>(at(i));
#endif
    return to;
}

// In the order of the lines, where some of them lie over each other.
template <class At>
[[gnu::always_inline]] inline void scatter_square(const Square& from, At&& at) {
#if defined(WMMADIAG_AVX512)
    for (unsigned h = 0; h < 2; ++h) {
        store(at(4 * h), _mm512_castsi512_si128(from.half[h]));
        store(at(4 * h + 1), _mm512_extracti32x4_epi32(from.half[h], 1));
        store(at(4 * h + 2), _mm512_extracti32x4_epi32(from.half[h], 2));
        store(at(4 * h + 3), _mm512_extracti32x4_epi32(from.half[h], 3));
    }
#else
    for (unsigned i = 0; i < lines_in_square; ++i) store(at(i), from.line[i]);
#endif
}

// As it lies in a register.
[[gnu::always_inline]] inline Square load_square(const std::byte* from) { return load<Square>(from); }
[[gnu::always_inline]] inline void store_square(std::byte* to, const Square& square) { store(to, square); }

// Element j of line i as element i of line j; elements of 16 bits.
[[gnu::always_inline]] inline Square turned(const Square& square) {
#if defined(WMMADIAG_AVX512)
    // Of each half the four elements of each column side by side, columns 0, 2, 4, 6 before the others; then both halves' next to each other.
    alignas(64) static constexpr auto by_column = [] {
        struct {
            std::int16_t of[32];
        } order{};
        for (int i = 0; i < 32; ++i) {
            const int group = i / 4, column = group / 2 + group % 2 * 4;
            order.of[i] = static_cast<std::int16_t>(i % 4 * 8 + column);
        }
        return order;
    }();
    const __m512i order = _mm512_load_si512(by_column.of);
    const __m512i a = _mm512_permutexvar_epi16(order, square.half[0]), b = _mm512_permutexvar_epi16(order, square.half[1]);
    return {_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)};
#else
    Square to;
    transpose_8x8([&](unsigned i) { return &square.line[i]; }, [&](unsigned i) { return &to.line[i]; });
    return to;
#endif
}

}  // namespace
}  // namespace wmmadiag
