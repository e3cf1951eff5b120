// f16 and bf16 products into f32 sums, with A, C and D as they lie in lanes' registers: squares of 8 lines x 16 bytes.
//
// A vector of outputs is a few rows x 4 columns: the rows of a part of a square. So C and D are loaded and stored as they are, an operand
// of A is spread over its row's lanes, and a quad of B's columns is repeated for each row.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_rows.hpp"

namespace wmmadiag {
namespace {

constexpr int columns_of_square = 4;

// How exponents are kept while the largest is looked for: in 8 bits where the format's are small enough, which needs saturation:
// a zero operand's product is below all others, Inf or NaN times anything, zero too, above them.
constexpr int least_narrow = -32;  // f16's smallest product is 2^-28 or more, by exponents; a zero's is 2^(15 - 60) or less

template <Element Type>
struct Exponents {
#if defined(__SSE2__)
    static constexpr bool narrow = Type == Element::f16;
#else
    static constexpr bool narrow = false;
#endif
    using Lane = std::conditional_t<narrow, std::int8_t, std::int16_t>;
    static constexpr std::int16_t zero = narrow ? -60 : zero_mark, special = narrow ? 120 : special_mark;
};

template <Element Type, int Count>
using ExponentVector = typename VectorOf<typename Exponents<Type>::Lane, Count>::V;

// Exponents as `step_outputs` takes them: below `zero_product_limit` where all products are zero.
template <Element Type, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I load_exponents(const typename Exponents<Type>::Lane* from) {
    using I = typename Vectors<Width>::I;
    using H = typename Vectors<Width>::H;
    if constexpr (!Exponents<Type>::narrow) return __builtin_convertvector(load<H>(from), I);
    const auto widened = [&] {
#if defined(__AVX512F__)
        if constexpr (Width == 16) return (I)_mm512_cvtepi8_epi32(load<__m128i>(from));
#endif
        return __builtin_convertvector(__builtin_convertvector(load<ExponentVector<Type, Width>>(from), H), I);
    };
    const I e = widened();
    return e < least_narrow ? I{} + zero_mark : e;
}

// Element `Of` of each four, in all four lanes.
template <int Of, class V, int... lane>
[[gnu::always_inline]] inline V spread(const V& v, std::integer_sequence<int, lane...>) {
    return __builtin_shufflevector(v, v, (lane / 4 * 4 + Of)...);
}

// 16-bit operands' exponents, Width at a time, as Exponents keeps them.
template <Element Type, int Width>
[[gnu::always_inline]] inline ExponentVector<Type, Width> square_exponents(const typename Vectors<Width>::UH& bits) {
    const auto marked = exponents<Type, Width>((typename Vectors<Width>::H)bits, Exponents<Type>::zero, Exponents<Type>::special);
    return __builtin_convertvector(marked, ExponentVector<Type, Width>);
}

// One product's operands, exponents as vectors repeat them.
template <Element Type, int Width, int N, int K>
struct SquareOperands {
    using Lane = typename Exponents<Type>::Lane;
    static constexpr int rows = Width / 4;  // of a vector of outputs
    static constexpr int quads = N / columns_of_square;
    static constexpr int together =
        quads < 4 / static_cast<int>(sizeof(Lane)) ? quads : 4 / static_cast<int>(sizeof(Lane));  // in a vector of exponents
    static constexpr int Count = together * Width;                                                // lanes of one
    using E = ExponentVector<Type, Count>;
    using Narrow = ExponentVector<Type, Width>;

    alignas(64) float a[max_m / rows][K / 4][Width];      // rows x 4 of k
    alignas(64) Lane a_exponent[max_m / rows][K][Width];  // rows x 4 times the same
    alignas(64) float b[K][N];
    alignas(64) Lane b_exponent[quads / together][K][Count];  // quads x rows (all alike) x 4 columns

    // A: squares in the order [m / 8][k / 8].
    void take_a(int m, const std::byte* const* squares) {
        using V = Vectors<Width>;
        using Halves = typename VectorOf<std::uint64_t, 2 * rows>::V;  // rows x 2 x 4 elements
        constexpr int chunks = K / 8;
        for (int group = 0; group < m / rows; ++group) {
            const int line = group * rows;
            for (int chunk = 0; chunk < chunks; ++chunk) {
                const Halves bits = load<Halves>(squares[line / square_lines * chunks + chunk] + line % square_lines * square_bytes);
                [&]<int... row>(std::integer_sequence<int, row...>) [[gnu::always_inline]] {
                    unrolled<2>([&](auto half) [[gnu::always_inline]] {
                        const auto four = (typename V::UH)__builtin_shufflevector(bits, bits, (2 * row + half)...);
                        store(a[group][2 * chunk + half], values<Type, Width>(four));
                        const Narrow exponent = square_exponents<Type, Width>(four);
                        unrolled<4>([&](auto p) [[gnu::always_inline]] {
                            store(a_exponent[group][8 * chunk + 4 * half + p], spread<p>(exponent, std::make_integer_sequence<int, Width>{}));
                        });
                    });
                }(std::make_integer_sequence<int, rows>{});
            }
        }
    }

    // B: likewise, [n / 8][k / 8].
    void take_b(const std::byte* const* squares, const BLines& lines) {
        alignas(64) std::uint16_t turned[K * N];
        alignas(64) Lane exponent[K * N];
        for (int j = 0; j < N; j += 8)
            for (int p = 0; p < K; p += 8)
                transpose_8x8([&](int i) { return squares[j / 8 * (K / 8) + p / 8] + lines[static_cast<std::size_t>(i)]; },
                              [&](int i) { return turned + (p + i) * N + j; });
        for (int at = 0; at < K * N; at += Width) {
            const auto some = load<typename Vectors<Width>::UH>(turned + at);
            store(&b[0][0] + at, values<Type, Width>(some));
            store(exponent + at, square_exponents<Type, Width>(some));
        }
        for (int first = 0; first < quads; first += together)
            for (int p = 0; p < K; ++p)
                for (int q = 0; q < together; ++q)
                    store(b_exponent[first / together][p] + q * Width, repeat<Narrow, 4 * sizeof(Lane)>(exponent + p * N + (first + q) * 4));
    }
};

// Recomputes the outputs in `bad`: those of `rows` rows from `row`, four columns from `column`.
template <int Width, int K>
[[gnu::noinline, gnu::cold]] void redo_square(const MmaRule& rule, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines,
                                              const std::int32_t* c, int row, int column, const std::int32_t* bad, std::int32_t* d) {
    constexpr int chunks = K / 8;
    for (int lane = 0; lane < Width; ++lane) {
        if (bad[lane] == 0) continue;
        const int line = row + lane / 4;
        std::uint16_t row_a[K], column_b[K];
        const auto take = [&](const std::byte* const* squares, const BLines& lines, int of, std::uint16_t* to) {
            for (int chunk = 0; chunk < chunks; ++chunk)
                std::memcpy(to + 8 * chunk, squares[of / square_lines * chunks + chunk] + lines[static_cast<std::size_t>(of % square_lines)],
                            square_bytes);
        };
        take(a, plain_b_lines, line, row_a), take(b, b_lines, column + lane % 4, column_b);
        d[lane] = static_cast<std::int32_t>(float_output(rule, row_a, column_b, static_cast<std::uint32_t>(c[lane])));
    }
}

template <Element Type, int N, int K, int Step>
void mma_squares(const MmaRule& rule, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines, const std::byte* const* c,
                 std::byte* const* d) {
    constexpr int Width = native_width;
    using Operands = SquareOperands<Type, Width, N, K>;
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    using E = typename Operands::E;
    using Lane = typename Operands::Lane;
    constexpr int rows = Operands::rows, quads = Operands::quads, together = Operands::together, steps = K / Step;
    Operands operands;
    operands.take_a(rule.m, a);
    operands.take_b(b, b_lines);
    const SumShape shape = sum_shape(rule);
    alignas(64) std::byte out[max_m / square_lines * quads][square_lines * square_bytes];  // d may be among a and c
    for (int group = 0; group < rule.m / rows; ++group) {
        const int row = group * rows, square = row / square_lines * quads, within = row % square_lines * square_bytes;
        F av[K];
        unrolled<K>([&](auto p) [[gnu::always_inline]] {
            av[p] = spread<p % 4>(load<F>(operands.a[group][p / 4]), std::make_integer_sequence<int, Width>{});
        });
        for (int first = 0; first < quads; first += together) {
            alignas(64) Lane largest[steps][Operands::Count];
            unrolled<steps>([&](auto step) [[gnu::always_inline]] {
                E e_max{};
                unrolled<Step>([&](auto i) [[gnu::always_inline]] {
                    constexpr int p = step * Step + i;
                    const E ours = repeat<E, Width * sizeof(Lane)>(operands.a_exponent[group][p]);
                    const E e = add_exponents(ours, load<E>(operands.b_exponent[first / together][p]));
                    e_max = i == 0 ? e : e > e_max ? e : e_max;
                });
                store(largest[step], e_max);
            });
            for (int q = 0; q < together; ++q) {
                const int column = (first + q) * columns_of_square;
                const I original = load<I>(c[square + first + q] + within);
                I sum = original, bad{};
                unrolled<steps>([&](auto step) [[gnu::always_inline]] {
                    const I e = load_exponents<Type, Width>(largest[step] + q * Width);
                    const auto product = [&](int i) [[gnu::always_inline]] {
                        return repeat<F, 16>(operands.b[step * Step + i] + column) * av[step * Step + i];
                    };
                    sum = step_outputs<Type, false, Width, Step>(shape, product, e, sum, bad);
                });
                if (any<Width>(bad)) [[unlikely]] {
                    alignas(64) std::int32_t lanes_bad[Width], lanes_c[Width], lanes_d[Width];
                    store(lanes_bad, bad), store(lanes_c, original), store(lanes_d, sum);
                    redo_square<Width, K>(rule, a, b, b_lines, lanes_c, row, column, lanes_bad, lanes_d);
                    sum = load<I>(lanes_d);
                }
                store(out[square + first + q] + within, sum);
            }
        }
    }
    for (int at = 0; at < rule.m / square_lines * quads; ++at) std::memcpy(d[at], out[at], sizeof out[at]);
}

template <Element Type>
MmaSquares select_squares_of(const MmaRule& rule) {
    const int n = rule.n, k = rule.k, step = rule.step;
    const auto is = [&](int n_, int k_, int step_) { return n == n_ && k == k_ && step == step_; };
    if (is(8, 8, 8)) return mma_squares<Type, 8, 8, 8>;
    if (is(8, 16, 8)) return mma_squares<Type, 8, 16, 8>;
    if (is(8, 16, 16)) return mma_squares<Type, 8, 16, 16>;
    if (is(16, 16, 8)) return mma_squares<Type, 16, 16, 8>;
    if (is(16, 16, 16)) return mma_squares<Type, 16, 16, 16>;
    if (is(32, 16, 8)) return mma_squares<Type, 32, 16, 8>;
    if (is(32, 16, 16)) return mma_squares<Type, 32, 16, 16>;
    return nullptr;
}

// For 16 outputs at a time, f32 sums: there this is faster than rows; with narrower vectors it is not.
inline MmaSquares select_squares(const MmaRule& rule) {
    if constexpr (native_width == 16) {
        if (has_float_path(rule) && rule.m * rule.n <= 512 && rule.c == Element::f32 && rule.d == Element::f32) {
            if (rule.a == Element::f16) return select_squares_of<Element::f16>(rule);
            if (rule.a == Element::bf16) return select_squares_of<Element::bf16>(rule);
        }
    }
    return select_rows(rule);
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
