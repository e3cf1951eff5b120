// The fastest function for matrices in squares of 8 lines x 16 bytes, as they lie in lanes' registers; and its use for dense ones.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_rows.hpp"
#if defined(WMMADIAG_AVX512)
#include "tensor_core_grid.hpp"
#endif

namespace wmmadiag {
namespace {

template <Element Type, bool HalfSum, int N, int K, int Step>
constexpr MmaSquares squares_of() {
#if defined(WMMADIAG_AVX512)
    static_assert(Step % halves_of_line == 0);
    return mma_grid<Type, HalfSum, N, K>;
#else
    return mma_rows<Type, HalfSum, N, K, Step>;
#endif
}

// By shape and step; nullptr for those that no instruction has.
template <Element Type, bool HalfSum>
MmaSquares select_squares_of(const MmaRule& rule) {
    const int n = rule.n, k = rule.k, step = rule.step;
    const auto is = [&](int n_, int k_, int step_) { return n == n_ && k == k_ && step == step_; };
    if (is(8, 8, 8)) return squares_of<Type, HalfSum, 8, 8, 8>();
    if (is(8, 16, 8)) return squares_of<Type, HalfSum, 8, 16, 8>();
    if (is(8, 16, 16)) return squares_of<Type, HalfSum, 8, 16, 16>();
    if (is(16, 16, 8)) return squares_of<Type, HalfSum, 16, 16, 8>();
    if (is(16, 16, 16)) return squares_of<Type, HalfSum, 16, 16, 16>();
    if (is(32, 16, 8)) return squares_of<Type, HalfSum, 32, 16, 8>();
    if (is(32, 16, 16)) return squares_of<Type, HalfSum, 32, 16, 16>();
    return nullptr;
}

inline MmaSquares select_squares(const MmaRule& rule) {
    if (!has_float_path(rule) || rule.m * rule.n > 512) return nullptr;
    if (rule.a == Element::bf16) return select_squares_of<Element::bf16, false>(rule);
    if (rule.a != Element::f16) return nullptr;
    return is_half_sum(rule) ? select_squares_of<Element::f16, true>(rule) : select_squares_of<Element::f16, false>(rule);
}

// A dense matrix, cut into squares.
struct CutMatrix {
    alignas(64) std::byte bytes[squares_limit][square_lines * square_bytes];
    std::byte* squares[squares_limit];
    int lines, chunks;

    CutMatrix(int lines, int width, Element type) : lines(lines), chunks(width * static_cast<int>(element_size_bits(type)) / (8 * square_bytes)) {
        for (unsigned i = 0; i < squares_limit; ++i) squares[i] = bytes[i];
    }
    // Calls f(byte of the dense matrix, where that is in the squares) for each 16 bytes.
    template <class F>
    void each(F&& f) {
        for (int line = 0; line < lines; ++line)
            for (int chunk = 0; chunk < chunks; ++chunk)
                f((line * chunks + chunk) * square_bytes, squares[line / square_lines * chunks + chunk] + line % square_lines * square_bytes);
    }
    void take(const void* dense) {
        each([&](int at, std::byte* to) { std::memcpy(to, static_cast<const std::byte*>(dense) + at, square_bytes); });
    }
};

// For operands that lie otherwise: dense ones.
inline void mma_by_squares(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    CutMatrix of_a(rule.m, rule.k, rule.a), of_b(rule.n, rule.k, rule.b), of_c(rule.m, rule.n, rule.c), of_d(rule.m, rule.n, rule.d);
    of_a.take(a), of_b.take(b), of_c.take(c);
    select_squares(rule)(rule, of_a.squares, of_b.squares, plain_b_lines, of_c.squares, of_d.squares);
    of_d.each([&](int at, const std::byte* from) { std::memcpy(static_cast<std::byte*>(d) + at, from, square_bytes); });
}

}  // namespace
}  // namespace wmmadiag
