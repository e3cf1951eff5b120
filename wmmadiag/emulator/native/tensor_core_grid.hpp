// f16 and bf16 products into f32 or f16 sums, 16 outputs at a time, with all matrices in squares (MmaSquares). AVX-512.
//
// A step's products are aligned at the largest exponent, truncated to multiples of a grid g, and added: a fused multiply-add in double does
// all that at once. The sum starts at 1.5 * 2^52 * g, whose last place is g; rounding toward zero then drops what lies below the grid, for
// the product is exact until then. It truncates positive products, but rounds negative ones down. So operands of B are 2^-30 too large,
// which is less than g, and less than the last place of a product: it changes nothing in the truncated value of a positive product, and
// takes every negative one below its own, by just g. How many are negative is counted, and made good.
//
// Internal to tensor_core.cpp.
#pragma once

#include <algorithm>

#include "tensor_core_grid_operands.hpp"

namespace wmmadiag {
namespace {

constexpr int outputs_of_unit = 16, units_together = 8;  // 16 sums of doubles at a time: twice what hides a sum's latency

// Sixteen outputs from a row's begin, of one row or of two. Their doubles are two vectors of eight.
template <Element Type, bool HalfSum, int N>
struct GridSum {
    using E = GridExponents<Type>;
    static constexpr int in_place(int exponent) { return (exponent + 127) << 23; }

    const SumShape* shape;
    __m512i sum;        // f32 bits: C, and then each step's result
    __m512i exponent;   // of the step: the largest one, as a float's
    __m512i largest{};  // magnitude of a sum
    __mmask16 bad{};    // what the scalar definition must compute
    __m512d total[2];

    // `products`: the largest exponents of products, as a float's; `negative`: how many are negative. Both that and C, in units of the grid,
    // are added to begin with, in the last places of the doubles: what is added up is looked at modulo 2^32.
    [[gnu::always_inline]] void align(__m512i products, __m512i negative) {
        __m512i of_c = _mm512_and_si512(sum, _mm512_set1_epi32(0x7f800000));
        if constexpr (Type == Element::bf16) bad |= _mm512_cmpgt_epi32_mask(of_c, _mm512_set1_epi32(in_place(greatest_exponent)));
        if constexpr (HalfSum) {
            // As in `step_outputs`.
            const __mmask16 zero = _mm512_testn_epi32_mask(of_c, of_c);
            of_c = _mm512_mask_mov_epi32(_mm512_max_epi32(of_c, _mm512_set1_epi32(in_place(-14))), zero,
                                         _mm512_set1_epi32(in_place(shape->zero_exponent)));
        }
        exponent = _mm512_max_epi32(products, of_c);
        const __m512i scale =
            _mm512_sub_epi32(_mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(shape->fraction_bits + 254) << 23)), exponent);
        __m512i low = _mm512_add_epi32(negative, _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_castsi512_ps(sum), _mm512_castsi512_ps(scale))));
        // The high words of 1.5 * 2^52 * g.
        const int bias = 1023 + 52 - 127 - shape->fraction_bits;
        __m512i high = _mm512_add_epi32(_mm512_srli_epi32(exponent, 3), _mm512_set1_epi32(bias << 20 | 1 << 19));
        if constexpr (N == 8) {  // a row to each of the two
            const __m512i rows = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
            high = _mm512_permutexvar_epi64(rows, high), low = _mm512_permutexvar_epi64(rows, low);
        }
        total[0] = _mm512_castsi512_pd(_mm512_unpacklo_epi32(low, high));
        total[1] = _mm512_castsi512_pd(_mm512_unpackhi_epi32(low, high));
    }

    // Before `align`, where some products of the step have exponents below E::least: with a C that is as small, the sum's grid may be
    // another than this way's; with zeros alone it does not matter.
    void note_tiny(__mmask16 tiny, __mmask16 zero) {
        const __m512i magnitude = _mm512_and_si512(sum, _mm512_set1_epi32(0x7fffffff));
        const __mmask16 small = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(in_place(E::least)));
        const __mmask16 nothing = zero & _mm512_testn_epi32_mask(magnitude, magnitude);
        bad |= static_cast<__mmask16>(tiny & small & ~nothing);
    }

    // What the doubles have added up, in units of the grid.
    [[gnu::always_inline]] __m512i added() const {
        const __m512 low = _mm512_shuffle_ps(_mm512_castpd_ps(total[0]), _mm512_castpd_ps(total[1]), _MM_SHUFFLE(2, 0, 2, 0));
        const __m512i words = _mm512_castps_si512(low);
        return N == 8 ? _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), words) : words;
    }

    [[gnu::always_inline]] void finish() {
        using F = typename Vectors<16>::F;
        using U = typename Vectors<16>::U;
        const __m512i all = added();
        largest = _mm512_max_epu32(largest, _mm512_abs_epi32(all));
        const F unit = (F)_mm512_sub_epi32(exponent, _mm512_set1_epi32(shape->fraction_bits << 23));
        if constexpr (HalfSum) sum = (__m512i)finish_half<16>((U)all, unit);
        else sum = (__m512i)finish_float<16>((U)all, unit);
    }

    // 16 products and C may be too many for 31 bits; then this is at least 2^31 - 2^(F + 1), wrapped or not. So it is for Inf and NaN as C.
    [[gnu::always_inline]] static __mmask16 too_large(__m512i magnitude) {
        return _mm512_movepi32_mask(_mm512_add_epi32(magnitude, _mm512_set1_epi32(1 << 27)));
    }
};

// Four vectors of four lines each of squares, those of four squares or of twice two, to the four units of these lines; or back.
template <int N, bool back>
[[gnu::always_inline]] inline void turn_lines(__m512i (&v)[4]) {
    constexpr int even = 0x88, odd = 0xdd, one = N == 8 && back ? even : 0x44, other = N == 8 && back ? odd : 0xee;
    const __m512i a = _mm512_shuffle_i32x4(v[0], v[1], one), b = _mm512_shuffle_i32x4(v[0], v[1], other);
    const __m512i c = _mm512_shuffle_i32x4(v[2], v[3], one), d = _mm512_shuffle_i32x4(v[2], v[3], other);
    if constexpr (N == 16) {
        v[0] = _mm512_shuffle_i32x4(a, c, even), v[1] = _mm512_shuffle_i32x4(a, c, odd);
        v[2] = _mm512_shuffle_i32x4(b, d, even), v[3] = _mm512_shuffle_i32x4(b, d, odd);
    } else {
        const auto turn = [](__m512i x) { return back ? x : _mm512_shuffle_i32x4(x, x, _MM_SHUFFLE(3, 1, 2, 0)); };
        v[0] = turn(a), v[1] = turn(b), v[2] = turn(c), v[3] = turn(d);
    }
}

// Calls f(16 bytes of a square, of a unit's row, or of half a row where numbers are narrow; first number of a unit) for all of a matrix.
template <int N, class F>
[[gnu::always_inline]] inline void each_line(int m, bool narrow, F&& f) {
    const RowPlaces<N> place(narrow);
    const int step = narrow ? 8 : 4;
    for (int row = 0; row < m; ++row)
        for (int column = 0; column < N; column += step) f(place.square(row, column), place.byte(row, column), row * N + column);
}

// Calls f(square, byte, v) for the vectors of four lines that are the four units from a row's begin.
template <int N, class F>
[[gnu::always_inline]] inline void each_four_lines(int row, F&& f) {
    const RowPlaces<N> place(false);
    for (int v = 0; v < 4; ++v) f(place.square(row, N == 8 ? v % 2 * 4 : v * 4), place.byte(N == 8 ? row + v / 2 * 4 : row, 0), v);
}

// C as f32 bits, row after row: what units are.
template <int N>
[[gnu::always_inline]] inline void load_units(const MmaRule& rule, const std::byte* const* squares, __m512i* unit) {
    const auto line = [&](int square, int byte, int at) {
        if (rule.c == Element::f16) store(reinterpret_cast<float*>(unit) + at, load_c<8>(true, squares[square] + byte, 0));
        else std::memcpy(reinterpret_cast<float*>(unit) + at, squares[square] + byte, square_bytes);
    };
    if (N == 32 || rule.c == Element::f16) return each_line<N>(rule.m, rule.c == Element::f16, line);
    for (int at = 0; at < rule.m * N / outputs_of_unit; at += 4) {
        __m512i four[4];
        each_four_lines<N>(at * outputs_of_unit / N, [&](int square, int byte, int v) { four[v] = load<__m512i>(squares[square] + byte); });
        turn_lines<N, false>(four);
        for (int v = 0; v < 4; ++v) unit[at + v] = four[v];
    }
}

// Units, as bits of D's type in 32-bit lanes, to D.
template <int N>
[[gnu::always_inline]] inline void store_units(const MmaRule& rule, const __m512i* unit, std::byte* const* squares) {
    const auto line = [&](int square, int byte, int at) {
        const auto* from = reinterpret_cast<const std::int32_t*>(unit) + at;
        if (rule.d == Element::f16) store(squares[square] + byte, _mm256_cvtepi32_epi16(load<__m256i>(from)));
        else std::memcpy(squares[square] + byte, from, square_bytes);
    };
    if (N == 32 || rule.d == Element::f16) return each_line<N>(rule.m, rule.d == Element::f16, line);
    for (int at = 0; at < rule.m * N / outputs_of_unit; at += 4) {
        __m512i four[4]{unit[at], unit[at + 1], unit[at + 2], unit[at + 3]};
        turn_lines<N, true>(four);
        each_four_lines<N>(at * outputs_of_unit / N, [&](int square, int byte, int v) { store(squares[square] + byte, four[v]); });
    }
}

// Computes those outputs in `bad` by the scalar definition that are not what they should be, and those of which Inf or NaN is an operand.
template <Element Type, int N, int K>
[[gnu::noinline, gnu::cold]] __m512i redo_unit(const MmaRule& rule, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines,
                                               const std::byte* const* c, int row, int column, __mmask16 bad, __m512i results) {
    constexpr std::uint16_t infinity = format_of(Type).exponent_bits == 8 ? 0x7f80 : 0x7c00;
    const bool narrow_c = rule.c == Element::f16;
    const RowPlaces<N> place(narrow_c);
    const auto line_of = [&](const std::byte* const* squares, const BLines& lines, int line, std::uint16_t (&to)[K]) {
        constexpr int chunks = K / halves_of_line;
        for (int chunk = 0; chunk < chunks; ++chunk)
            std::memcpy(to + halves_of_line * chunk,
                        squares[line / square_lines * chunks + chunk] + lines[static_cast<std::size_t>(line % square_lines)], square_bytes);
        return std::any_of(to, to + K, [](std::uint16_t bits) { return (bits & infinity) == infinity; });
    };
    alignas(64) std::int32_t result[outputs_of_unit];
    store(result, results);
    for (int i = 0; i < outputs_of_unit; ++i) {
        const int r = row + (N == 8 ? i / 8 : 0), j = column + (N == 8 ? i % 8 : i);
        std::uint16_t row_a[K], column_b[K];
        const bool special_row = line_of(a, plain_b_lines, r, row_a), special_column = line_of(b, b_lines, j, column_b);
        if (!special_row && !special_column && (bad >> i & 1) == 0) continue;
        std::uint32_t addend = 0;
        std::memcpy(&addend, c[place.square(r, j)] + place.byte(r, j), narrow_c ? 2 : 4);
        result[i] = static_cast<std::int32_t>(float_output(rule, row_a, column_b, addend));
    }
    return load<__m512i>(result);
}

template <Element Type, bool HalfSum, int N, int K>
void mma_grid(const MmaRule& rule, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines, const std::byte* const* c,
              std::byte* const* d) {
    using E = GridExponents<Type>;
    using Operands = GridOperands<Type, N, K>;
    using Sum = GridSum<Type, HalfSum, N>;
    constexpr int together = units_together * outputs_of_unit, chunks = Operands::chunks;
    const int step = rule.step == halves_of_line ? 1 : chunks;  // in chunks
    Operands operands;
    operands.take_a(rule.m, a);
    operands.take_b(b, b_lines);
    constexpr int most = 512 / together;
    __m512i units[most * units_together];  // C, and then D, which may be among all others: it is stored last
    load_units<N>(rule, c, units);
    const bool ordinary = operands.ordinary();
    const SumShape shape = sum_shape(rule);
    alignas(64) typename E::Lane largest_of[most][chunks][together];
    alignas(64) std::uint8_t negative_of[most][chunks][together];
    bool tiny_of[most];
    const int blocks = rule.m * N / together;
    for (int block = 0; block < blocks; ++block) {
        __m512i least = E::most();
        for (int part = 0; part < together; part += Operands::outputs_of_search) {
            const int row = (block * together + part) / N;
            operands.search(row, step, part, largest_of[block], least);
            operands.count_negative(row, step, part, negative_of[block]);
        }
        tiny_of[block] = E::some_tiny(least);
    }
    for (int block = 0; block < blocks; ++block) {
        const int begin = block * together / N;
        const auto row_of = [&](int output) { return begin + output / N; };
        const auto& largest = largest_of[block];
        const auto& negative = negative_of[block];
        const bool tiny = tiny_of[block];
        Sum s[units_together];
        __m512i* unit = units + block * units_together;
        unrolled<units_together>([&](auto u) __attribute__((always_inline)) { s[u].shape = &shape, s[u].sum = unit[u]; });
        unrolled<chunks>([&](auto chunk) __attribute__((always_inline)) {
            if (chunk % step == 0) {
                const int last = chunk + step - 1;
                if (!ordinary || (!HalfSum && tiny)) [[unlikely]]
                    for (int u = 0; u < units_together; ++u) {
                        const auto lanes = E::look(largest[last] + 16 * u);
                        if (!HalfSum) s[u].note_tiny(lanes.tiny, lanes.zero);
                        s[u].bad |= lanes.large;
                    }
                unrolled<units_together>([&](auto u) __attribute__((always_inline)) {
                    s[u].align(E::in_place(largest[last] + 16 * u), _mm512_cvtepu8_epi32(load<__m128i>(negative[last] + 16 * u)));
                });
            }
            unrolled<8>([&](auto p) __attribute__((always_inline)) {
                unrolled<2 * units_together>([&](auto half) __attribute__((always_inline)) {
                    constexpr int output = 8 * half;
                    __m512d& total = s[half / 2].total[half % 2];
                    total = _mm512_fmadd_round_pd(_mm512_set1_pd(operands.a[row_of(output)][8 * chunk + p]),
                                                  _mm512_load_pd(&operands.b[Operands::place(8 * chunk + p)][output % N]), total,
                                                  _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
                });
            });
            if ((chunk + 1) % step == 0) unrolled<units_together>([&](auto u) __attribute__((always_inline)) { s[u].finish(); });
        });
        __m512i largest_sum = s[0].largest;
        __mmask16 bad = s[0].bad;
        for (int u = 1; u < units_together; ++u) largest_sum = _mm512_max_epu32(largest_sum, s[u].largest), bad |= s[u].bad;
        const bool careful = !ordinary || (bad | Sum::too_large(largest_sum)) != 0;
        unrolled<units_together>([&](auto u) __attribute__((always_inline)) {
            unit[u] = s[u].sum;
            if (rule.d == Element::f16) unit[u] = (__m512i)float_bits_to_half<16>((typename Vectors<16>::I)unit[u]);
            if (careful) [[unlikely]]
                unit[u] = redo_unit<Type, N, K>(rule, a, b, b_lines, c, row_of(16 * u), 16 * u % N,
                                                static_cast<__mmask16>(s[u].bad | Sum::too_large(s[u].largest)), unit[u]);
        });
    }
    store_units<N>(rule, units, d);
}

}  // namespace
}  // namespace wmmadiag
