// Operands of products on a grid (tensor_core_grid.hpp): values as doubles, exponents, signs; B turned. AVX-512.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_rows.hpp"

namespace wmmadiag {
namespace {

constexpr int halves_of_vector = 32, lines_of_vector = halves_of_vector / halves_of_line;

// How exponents are kept while the largest is looked for; `offset` is taken from those of B. A product with a zero is below all others; of
// Inf and NaN nothing is known.
template <Element Type>
struct GridExponents {
    static constexpr bool narrow = Type == Element::f16;
    using Lane = std::conditional_t<narrow, std::int8_t, std::int16_t>;
    static constexpr int zero = narrow ? -113 : zero_mark;
    static constexpr int offset = narrow ? 1 : 0;      // so that a sum of two, its sign bit turned, is biased as a float's
    static constexpr int least = narrow ? -96 : -100;  // below it, a product may be zero
    static constexpr int lanes = 64 / static_cast<int>(sizeof(Lane));

    // As they are put down once found: narrow ones biased.
    [[gnu::always_inline]] static __m512i found(__m512i e) { return narrow ? _mm512_xor_si512(e, _mm512_set1_epi8(-128)) : e; }

    // Of sixteen that were found, as a float's; at least `least`, or close below.
    [[gnu::always_inline]] static __m512i in_place(const Lane* from) {
        if constexpr (narrow) return _mm512_slli_epi32(_mm512_cvtepu8_epi32(load<__m128i>(from)), 23);
        const __m512i e = _mm512_max_epi32(_mm512_cvtepi16_epi32(load<__m256i>(from)), _mm512_set1_epi32(least));
        return _mm512_slli_epi32(_mm512_add_epi32(e, _mm512_set1_epi32(127)), 23);
    }

    // Of exponents while they are looked for: more than all, and whether some are below `least`.
    static __m512i most() { return narrow ? _mm512_set1_epi8(0x7f) : _mm512_set1_epi16(0x7fff); }
    static bool some_tiny(__m512i e) {
        if constexpr (narrow) return _mm512_cmplt_epi8_mask(e, _mm512_set1_epi8(least - offset)) != 0;
        else return _mm512_cmplt_epi16_mask(e, _mm512_set1_epi16(least)) != 0;
    }

    // Which of sixteen that were found are below `least`, those of zeros alone, and too large for floats.
    struct Look {
        __mmask16 tiny, zero, large;
    };
    static Look look(const Lane* from) {
        const __m512i e = narrow ? _mm512_add_epi32(_mm512_cvtepu8_epi32(load<__m128i>(from)), _mm512_set1_epi32(offset - 128))
                                 : _mm512_cvtepi16_epi32(load<__m256i>(from));
        const __mmask16 tiny = _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(least));
        return {tiny, narrow ? tiny : _mm512_cmplt_epi32_mask(e, _mm512_set1_epi32(zero_product_limit)),
                _mm512_cmpgt_epi32_mask(e, _mm512_set1_epi32(greatest_exponent))};
    }
};

// A number for each lane i of a vector of T.
template <class T, class F, int... i>
[[gnu::always_inline]] inline __m512i lanes_by(F&& f, std::integer_sequence<int, i...>) {
    return (__m512i) typename VectorOf<T, 64 / sizeof(T)>::V{static_cast<T>(f(i))...};
}
template <class T, class F>
[[gnu::always_inline]] inline __m512i lanes_by(F&& f) {
    return lanes_by<T>(f, std::make_integer_sequence<int, 64 / sizeof(T)>{});
}

template <Element Type, int N, int K>
struct GridOperands {
    using E = GridExponents<Type>;
    using Lane = typename E::Lane;
    static constexpr int chunks = K / halves_of_line;
    static constexpr bool paired = E::narrow && K == 16;  // both chunks of a line of A's exponents lie in 16 bytes

    alignas(64) double a[max_m][K];
    alignas(64) double b[K][N];  // 2^-30 too large, see tensor_core_grid.hpp; at `place(p)`, columns as `in_doubles` has them
    alignas(64) Lane a_exponent[2 * max_m * halves_of_line];                        // [row][k] if paired, else [chunk][row][k of chunk]
    alignas(64) Lane b_exponent[K][N];                                              // at `place(p)`
    alignas(64) std::uint8_t a_negative[chunks][max_m], a_positive[chunks][max_m];  // of a line, bit by bit
    alignas(64) std::uint8_t b_negative[chunks][max_n], b_positive[chunks][max_n];
    __m512i largest_a{}, largest_b{};  // magnitudes

    // Turning squares leaves the products of a chunk in this order.
    static constexpr int place(int p) { return p / 8 * 8 + p % 2 * 4 + p % 8 / 2; }

    static __m512i exponents_of(__m512i halves, int offset, __m512i& largest) {
        constexpr Format format = format_of(Type);
        constexpr int bias = (1 << (format.exponent_bits - 1)) - 1;
        const __m512i magnitude = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
        largest = _mm512_max_epu16(largest, magnitude);
        const __m512i biased = _mm512_max_epi16(_mm512_srli_epi16(magnitude, format.fraction_bits), _mm512_set1_epi16(1));
        return _mm512_mask_sub_epi16(_mm512_set1_epi16(E::zero), _mm512_test_epi16_mask(magnitude, magnitude), biased,
                                     _mm512_set1_epi16(static_cast<short>(bias + offset)));
    }

    static void take_signs(__m512i lines, std::uint8_t* negative, std::uint8_t* positive) {
        const __mmask32 below = _mm512_cmpgt_epu16_mask(lines, _mm512_set1_epi16(-0x8000));  // -0 is not
        const __mmask32 above = _mm512_cmpgt_epi16_mask(lines, _mm512_setzero_si512());
        std::memcpy(negative, &below, sizeof below);
        std::memcpy(positive, &above, sizeof above);
    }

    // Two rows or products of eight, to doubles times `factor`.
    static void take_values(const void* halves, double factor, double* first, double* second) {
        alignas(64) float both[16];
        store(both, values<Type, 16>(load<typename Vectors<16>::UH>(halves)));
        keep_in_memory(both);  // to load half a vector costs less than to move it
        const __m512d by = _mm512_set1_pd(factor);
        const __m512d x = _mm512_cvtps_pd(_mm256_load_ps(both)), y = _mm512_cvtps_pd(_mm256_load_ps(both + 8));
        _mm512_store_pd(first, factor == 1 ? x : _mm512_mul_pd(x, by));
        _mm512_store_pd(second, factor == 1 ? y : _mm512_mul_pd(y, by));
    }

    // A: squares in the order [m / 8][k / 8].
    [[gnu::always_inline]] void take_a(int m, const std::byte* const* squares) {
        for (int row = 0; row < m; row += lines_of_vector) {
            __m512i exponent[chunks];
            unrolled<chunks>([&](auto chunk) __attribute__((always_inline)) {
                const std::byte* lines = squares[row / square_lines * chunks + chunk] + row % square_lines * square_bytes;
                const __m512i bits = load<__m512i>(lines);
                exponent[chunk] = exponents_of(bits, 0, largest_a);
                take_signs(bits, &a_negative[chunk][row], &a_positive[chunk][row]);
                for (int line = 0; line < lines_of_vector; line += 2)
                    take_values(lines + line * square_bytes, 1, &a[row + line][chunk * 8], &a[row + line + 1][chunk * 8]);
                if constexpr (!E::narrow) store(a_exponent + (chunk * max_m + row) * 8, exponent[chunk]);
                else if constexpr (!paired) store(a_exponent + (chunk * max_m + row) * 8, _mm512_cvtepi16_epi8(exponent[chunk]));
            });
            if constexpr (paired) store(a_exponent + row * K, _mm512_packs_epi16(exponent[0], exponent[1]));
        }
    }

    // Two vectors of four columns, each eight of k: four of k each, of eight columns; the even ones of k, and the odd ones.
    static void turn(__m512i low, __m512i high, __m512i& even, __m512i& odd) {
        const __m512i by_k = lanes_by<std::int16_t>([](int i) { return i % 4 * 8 + i / 4; });
        const __m512i x = _mm512_permutexvar_epi16(by_k, low), y = _mm512_permutexvar_epi16(by_k, high);
        even = _mm512_unpacklo_epi64(x, y), odd = _mm512_unpackhi_epi64(x, y);
    }

    // Four products' exponents, of eight or sixteen columns.
    void put_exponents(int at, int column, const __m512i (&of)[N == 8 ? 1 : 2]) {
        if constexpr (E::narrow && N == 8) return store(b_exponent[at], _mm512_cvtepi16_epi8(of[0]));
        if constexpr (E::narrow && N == 16) return store(b_exponent[at], _mm512_packs_epi16(of[0], of[1]));
        for (int i = 0; i < 4; ++i) {
            if constexpr (E::narrow) {
                alignas(64) std::int8_t packed[64];
                store(packed, _mm512_packs_epi16(of[0], of[N == 8 ? 0 : 1]));
                std::memcpy(&b_exponent[at + i][column], packed + 16 * i, 16);
            } else {
                for (int j = 0; j < (N == 8 ? 1 : 2); ++j) {
                    alignas(64) std::int16_t lines[32];
                    store(lines, of[j]);
                    std::memcpy(&b_exponent[at + i][column + 8 * j], lines + 8 * i, 16);
                }
            }
        }
    }

    // B: likewise, [n / 8][k / 8].
    [[gnu::always_inline]] void take_b(const std::byte* const* squares, const BLines& lines) {
        constexpr int wide = N == 8 ? 1 : 2;  // squares that are taken together
        for (int column = 0; column < N; column += 8 * wide)
            for (int chunk = 0; chunk < chunks; ++chunk) {
                __m512i turned[2][wide];  // even and odd ones
                for (int w = 0; w < wide; ++w) {
                    const std::byte* square = squares[(column / 8 + w) * chunks + chunk];
                    const auto four = [&](std::size_t from) {
                        return (__m512i)gather_fours<16>([&](int i) { return square + lines[from + static_cast<std::size_t>(i)]; });
                    };
                    const __m512i low = four(0), high = four(4);
                    const int at = column + 8 * w;
                    take_signs(low, &b_negative[chunk][at], &b_positive[chunk][at]);
                    take_signs(high, &b_negative[chunk][at + 4], &b_positive[chunk][at + 4]);
                    turn(low, high, turned[0][w], turned[1][w]);
                }
                for (int odd = 0; odd < 2; ++odd) {
                    const int at = chunk * 8 + odd * 4;
                    __m512i exponent[wide];
                    for (int w = 0; w < wide; ++w) exponent[w] = exponents_of(turned[odd][w], E::offset, largest_b);
                    put_exponents(at, column, exponent);
                    for (int v = 0; v < wide; ++v) {
                        alignas(64) std::uint16_t halves[32];
                        store(halves, in_doubles(turned[odd], v));
                        keep_in_memory(halves);
                        for (int i = 0; i < 4; i += 2)
                            take_values(halves + 8 * i, 1 + 0x1p-30, &b[at + i][column + 8 * v], &b[at + i + 1][column + 8 * v]);
                    }
                }
            }
    }

    // Which of sixteen columns lie in the first and in the second eight doubles: so that both are made of 16 words, and put together to
    // 16 words, in each 16 bytes by themselves.
    template <int wide>
    static __m512i in_doubles(const __m512i (&turned)[wide], int v) {
        if constexpr (wide == 1) return turned[0];
        const __m512 x = _mm512_castsi512_ps(turned[0]), y = _mm512_castsi512_ps(turned[wide - 1]);
        return _mm512_castps_si512(v == 0 ? _mm512_shuffle_ps(x, y, _MM_SHUFFLE(2, 0, 2, 0)) : _mm512_shuffle_ps(x, y, _MM_SHUFFLE(3, 1, 3, 1)));
    }

    // The rows' exponents of a chunk for the outputs of a vector, those of eight products for each eight outputs.
    static constexpr int row_of(int output) { return output / N; }
    [[gnu::always_inline]] __m512i rows_of_chunk(int row, int chunk) const {
        constexpr int qwords = E::narrow ? 1 : 2;  // of a row's chunk
        const auto from = [&](int i) {
            const int which = row_of(i / qwords * 8) * qwords + i % qwords;
            return paired ? 2 * which + chunk : which;
        };
        const Lane* first = paired ? a_exponent + row * 16 : a_exponent + (chunk * max_m + row) * 8;
        const __m512i x = load<__m512i>(first);
        if constexpr (E::narrow && N == 8 && paired) return _mm512_permutex2var_epi64(x, lanes_by<std::int64_t>(from), load<__m512i>(first + 64));
        return _mm512_permutexvar_epi64(lanes_by<std::int64_t>(from), x);
    }

    // Of these, those of product p of the chunk.
    template <int p>
    [[gnu::always_inline]] static __m512i spread_product(__m512i rows, std::integral_constant<int, p>) {
        if constexpr (E::narrow) return _mm512_shuffle_epi8(rows, lanes_by<std::int8_t>([](int i) { return i % 16 / 8 * 8 + p; }));
        return _mm512_shuffle_epi8(rows, lanes_by<std::int8_t>([](int i) { return 2 * p + i % 2; }));
    }

    // The largest exponents of a step's products up to the end of each chunk, of 64 outputs from a row's begin, which are those from `part`
    // on; `least` takes the least of whole steps' ones. A step is as many chunks.
    static constexpr int outputs_of_search = 64;
    template <int Outputs>
    [[gnu::always_inline]] void search(int first, int step, int part, Lane (&largest)[chunks][Outputs], __m512i& least) const {
        for (int at = 0; at < outputs_of_search; at += E::lanes) {
            __m512i e_max{};
            unrolled<chunks>([&](auto chunk) __attribute__((always_inline)) {
                const __m512i rows = rows_of_chunk(first + at / N, chunk);
                if (chunk % step == 0) e_max = E::narrow ? _mm512_set1_epi8(E::least - 4 - E::offset) : _mm512_set1_epi16(-0x8000);
                unrolled<8>([&](auto p) __attribute__((always_inline)) {
                    const __m512i ours = spread_product(rows, p);
                    const auto theirs = repeat<__m512i, N* static_cast<int>(sizeof(Lane))>(b_exponent[place(8 * chunk + p)]);
                    if constexpr (E::narrow) e_max = _mm512_max_epi8(e_max, _mm512_adds_epi8(ours, theirs));
                    else e_max = _mm512_max_epi16(e_max, _mm512_add_epi16(ours, theirs));
                });
                store(largest[chunk] + part + at, E::found(e_max));
                if (chunk + 1 == chunks || step == 1) least = E::narrow ? _mm512_min_epi8(least, e_max) : _mm512_min_epi16(least, e_max);
            });
        }
    }

    // How many of a step's products are negative up to the end of each chunk, of 64 outputs as above; bytes.
    template <int Outputs>
    [[gnu::always_inline]] void count_negative(int row, int step, int part, std::uint8_t (&count)[chunks][Outputs]) const {
        __m512i sum{};
        const __m512i bits = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4)), nibble = _mm512_set1_epi8(15);
        const __m512i rows = lanes_by<std::int8_t>(row_of);
        unrolled<chunks>([&](auto chunk) __attribute__((always_inline)) {
            const auto ours = [&](const std::uint8_t* of) { return _mm512_shuffle_epi8(_mm512_set1_epi64(load<std::int64_t>(of + row)), rows); };
            const auto theirs = [&](const std::uint8_t* of) { return repeat<__m512i, N>(of); };
            const __m512i first = _mm512_and_si512(ours(a_negative[chunk]), theirs(b_positive[chunk]));
            const __m512i negative = _mm512_or_si512(first, _mm512_and_si512(ours(a_positive[chunk]), theirs(b_negative[chunk])));
            const __m512i low = _mm512_shuffle_epi8(bits, _mm512_and_si512(negative, nibble));
            const __m512i high = _mm512_shuffle_epi8(bits, _mm512_and_si512(_mm512_srli_epi16(negative, 4), nibble));
            if (chunk % step == 0) sum = _mm512_setzero_si512();
            sum = _mm512_add_epi8(sum, _mm512_add_epi8(low, high));
            store(count[chunk] + part, sum);
        });
    }

    // Whether all products have exponents for this way; not known of each output.
    [[nodiscard]] bool ordinary() const {
        constexpr Format format = format_of(Type);
        constexpr int bias = (1 << (format.exponent_bits - 1)) - 1, infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
        if constexpr (Type == Element::f16) return _mm512_cmpge_epi16_mask(_mm512_max_epu16(largest_a, largest_b), _mm512_set1_epi16(infinity)) == 0;
        const int of_a = largest_of(largest_a), of_b = largest_of(largest_b);
        return of_a < infinity && of_b < infinity && (of_a >> format.fraction_bits) + (of_b >> format.fraction_bits) - 2 * bias <= greatest_exponent;
    }

    static int largest_of(__m512i halves) {
        const __m512i all = _mm512_max_epu16(halves, _mm512_srli_epi32(halves, 16));
        return static_cast<int>(_mm512_reduce_max_epi32(_mm512_and_si512(all, _mm512_set1_epi32(0xffff))));
    }
};

}  // namespace
}  // namespace wmmadiag
