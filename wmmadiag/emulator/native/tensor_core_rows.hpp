// f16 and bf16 products into f32 or f16 sums, row after row, with all matrices as they lie in lanes' registers: squares of 8 lines x 16
// bytes (MmaSquares).
//
// A vector of outputs is a part of a row. What can be decided for a whole product is: without Inf and NaN, and with exponents that stay
// clear of float's ends, an output takes a third of the steps of `step_outputs`. Where one does not fit into that after all, its vector
// is computed again, carefully.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_row_operands.hpp"

namespace wmmadiag {
namespace {

// Exponents as `step_outputs` takes them, or as they are.
template <Element Type, int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I widened_exponents(const typename RowExponents<Type>::Lane* from, bool marked) {
    using I = typename Vectors<Width>::I;
    using H = typename Vectors<Width>::H;
    if constexpr (!RowExponents<Type>::narrow) return __builtin_convertvector(load<H>(from), I);
    const auto all = [&] {
#if defined(__AVX512F__)
        if constexpr (Width == 16) return (I)_mm512_cvtepi8_epi32(load<__m128i>(from));
#endif
#if defined(__AVX2__)
        if constexpr (Width == 8) return (I)_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(static_cast<const void*>(from))));
#endif
        return __builtin_convertvector(load<typename VectorOf<std::int8_t, Width>::V>(from), I);
    };
    const I e = all();
    return marked && RowExponents<Type>::narrow ? (e < RowExponents<Type>::least_product ? I{} + zero_mark : e) : e;
}

// C's or D's squares: [m / 8][16 bytes of a row].
template <int N>
struct RowPlaces {
    int shift;  // numbers of a row in a square, as a power of two

    explicit RowPlaces(bool narrow) : shift(narrow ? 3 : 2) {}
    [[nodiscard]] int squares() const { return N >> shift; }  // of a row
    [[nodiscard]] int square(int row, int column) const { return ((row / square_lines * N) >> shift) + (column >> shift); }
    [[nodiscard]] int byte(int row, int column) const { return row % square_lines * square_bytes + ((column & ((1 << shift) - 1)) << (4 - shift)); }
};

template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I load_row(bool narrow, const std::byte* const* squares, int within) {
    if (!narrow) return gather_fours<Width>([&](int i) { return squares[i] + within; });
    if constexpr (Width <= 8) return load_c<Width>(true, squares[0] + within, 0);
    alignas(64) std::uint16_t halves[Width];
    for (int i = 0; i < Width; i += 8) std::memcpy(halves + i, squares[i / 8] + within, square_bytes);
    return load_c<Width>(true, halves, 0);
}

// One vector of outputs by `step_outputs`, bits of rule.d; those that this cannot do by the scalar definition.
template <Element Type, bool HalfSum, int N, int K, int Step, int Width>
[[gnu::noinline, gnu::cold]] typename Vectors<Width>::I careful_outputs(const MmaRule& rule, const RowOperands<Type, N, K>& operands,
                                                                        const typename RowExponents<Type>::Lane* largest, int pitch, int row,
                                                                        int column, const std::byte* const* a, const std::byte* const* b,
                                                                        const BLines& b_lines, const std::byte* const* c) {
    using V = Vectors<Width>;
    using I = typename V::I;
    constexpr int chunks = K / halves_of_line;
    constexpr std::uint16_t infinity = format_of(Type).exponent_bits == 8 ? 0x7f80 : 0x7c00;
    const bool narrow_c = rule.c == Element::f16, narrow_d = rule.d == Element::f16;
    const RowPlaces<N> place(narrow_c);
    const auto line_of = [&](const std::byte* const* squares, const BLines& lines, int line, std::uint16_t (&to)[K]) {
        bool special = false;
        for (int chunk = 0; chunk < chunks; ++chunk)
            std::memcpy(to + halves_of_line * chunk,
                        squares[line / square_lines * chunks + chunk] + lines[static_cast<std::size_t>(line % square_lines)], square_bytes);
        for (const auto bits : to) special |= (bits & infinity) == infinity;
        return special;
    };
    std::uint16_t row_a[K], column_b[Width][K];
    const bool special_row = line_of(a, plain_b_lines, row, row_a);
    alignas(64) std::int32_t bad_lanes[Width], result[Width];
    for (int lane = 0; lane < Width; ++lane) bad_lanes[lane] = -static_cast<int>(line_of(b, b_lines, column + lane, column_b[lane]) || special_row);
    I bad = load<I>(bad_lanes);
    const SumShape shape = sum_shape(rule);
    I sum = load_row<Width>(narrow_c, c + place.square(row, column), place.byte(row, column));
    for (int step = 0; step < K / Step; ++step) {
        const auto product = [&](int p) __attribute__((always_inline)) {
            return load<typename V::F>(&operands.b[step * Step + p][column]) * operands.a[row][step * Step + p];
        };
        sum = step_outputs<Type, HalfSum, Width, Step>(shape, product, widened_exponents<Type, Width>(largest + step * pitch, true), sum, bad);
    }
    store(result, narrow_d ? float_bits_to_half<Width>(sum) : sum);
    store(bad_lanes, bad);
    for (int lane = 0; lane < Width; ++lane) {
        if (bad_lanes[lane] == 0) continue;
        std::uint32_t addend = 0;
        std::memcpy(&addend, c[place.square(row, column + lane)] + place.byte(row, column + lane), narrow_c ? 2 : 4);
        result[lane] = static_cast<std::int32_t>(float_output(rule, row_a, column_b[lane], addend));
    }
    return load<I>(result);
}

// Some vectors of outputs of one row on the short way: step after step. `negative` gets a negative lane where an output needs care.
template <Element Type, bool HalfSum, int Width, int Vectors_, int Step>
struct ShortSum {
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    using U = typename V::U;
    static constexpr int in_place(int exponent) { return (exponent + 127) << 23; }

    const SumShape& shape;
    I sum[Vectors_];  // f32 bits: C, and then each step's result
    I negative{};
    U largest{};  // magnitude of a sum, in units
    F scale[Vectors_], unit[Vectors_];

    explicit ShortSum(const SumShape& of) : shape(of) {}

    [[gnu::always_inline]] void align(int v, I products) {
        constexpr int least = RowExponents<Type>::narrow ? RowExponents<Type>::largest_of_zero + 1 : least_exponent + 1;
        if constexpr (!RowExponents<Type>::narrow) products = larger(products, I{} + least_exponent);
        I c_exponent = sum[v] & 0x7f800000;
        negative |= in_place(greatest_exponent) - c_exponent;
        if constexpr (HalfSum) {
            // As in `step_outputs`.
            const I normal = larger(c_exponent, I{} + in_place(-14));
            c_exponent = c_exponent == 0 ? I{} + in_place(shape.zero_exponent) : normal;
        }
        const I e_max = larger((I)((U)(products + 127) << 23), c_exponent);
        if constexpr (!HalfSum) negative |= e_max - in_place(least);  // C and all products tiny or zero
        scale[v] = (F)((U{} + (static_cast<std::uint32_t>(shape.fraction_bits + 254) << 23)) - (U)e_max);
        unit[v] = (F)(e_max - (shape.fraction_bits << 23));
    }

    // The sum of a step's products, in units.
    [[gnu::always_inline]] void finish(int v, U total) {
        total += (U)truncate<Width>((F)sum[v] * scale[v]);
        U magnitude = absolute(total);
        // 16 products and C may be too many for 31 bits; then this is at least 2^31 - 2^(F + 1), wrapped or not.
        if constexpr (Step >= 16) largest = larger(largest, magnitude);
        if constexpr (HalfSum) {
            sum[v] = finish_half<Width>(total, unit[v]);
        } else {
            magnitude &= ~(magnitude >> 24);  // as in `finish_float`
            sum[v] = (I)(__builtin_convertvector(signed_like(magnitude, total), F) * unit[v]);
        }
    }

    [[gnu::always_inline]] bool careful() const {
        I all = negative;
        if constexpr (Step >= 16) all |= (I)(largest + (std::uint32_t{1} << 27));
        return any_negative<Width>(all);
    }

    [[gnu::always_inline]] static U absolute(const U& x) {
#if defined(__AVX512F__)
        if constexpr (Width == 16) return (U)_mm512_abs_epi32((__m512i)x);
#endif
#if defined(__AVX2__)
        if constexpr (Width == 8) return (U)_mm256_abs_epi32((__m256i)x);
#endif
        return (I)x < 0 ? 0u - x : x;
    }
    [[gnu::always_inline]] static I signed_like(const U& magnitude, const U& x) {
#if defined(__AVX2__)
        if constexpr (Width == 8) return (I)_mm256_sign_epi32((__m256i)magnitude, (__m256i)x);
#endif
        return (I)x < 0 ? (I)(0u - magnitude) : (I)magnitude;  // the least integer has no negative
    }
};

template <Element Type, bool HalfSum, int N, int K, int Step>
void mma_rows(const MmaRule& rule, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines, const std::byte* const* c,
              std::byte* const* d) {
    constexpr int Width = native_width < N ? native_width : N;
    // Vectors of outputs that are computed together, of several rows where one has too few: the steps of one wait for each other.
    constexpr int across = N / Width < 4 ? N / Width : 4, down = 4 / across, together = across * down;
    using Operands = RowOperands<Type, N, K>;
    using V = Vectors<Width>;
    using F = typename V::F;
    using I = typename V::I;
    using U = typename V::U;
    using Lane = typename Operands::Lane;
    constexpr int pitch = Operands::parts * Operands::Count, searched = Operands::rows;
    constexpr int block = searched > down ? searched : down;
    Operands operands;
    operands.take_a(rule.m, a);
    operands.take_b(b, b_lines);
    const bool ordinary = operands.ordinary(), narrow_c = rule.c == Element::f16, narrow_d = rule.d == Element::f16;
    const SumShape shape = sum_shape(rule);
    const RowPlaces<N> place_c(narrow_c), place_d(narrow_d);
    alignas(64) std::byte out[max_m / square_lines * (N / 4)][square_lines * square_bytes];  // d may be among a, b and c
    for (int group = 0; group < rule.m; group += block) {
        keep_in_memory(operands);
        alignas(64) Lane largest[block / searched][K / Step][pitch];
        for (int i = 0; i < block / searched; ++i) operands.template search<Step>(group + i * searched, largest[i]);
        for (int part = 0; part < block / down * (N / (across * Width)); ++part) {
            const int first = part / (N / (across * Width)) * down, column = part % (N / (across * Width)) * across * Width;
            const auto row_of = [&](int v) { return first + v / across; };  // in this group
            const auto column_of = [&](int v) { return column + v % across * Width; };
            const auto exponents = [&](int v) { return largest[row_of(v) / searched][0] + row_of(v) % searched * N + column_of(v); };
            ShortSum<Type, HalfSum, Width, together, Step> s(shape);
            unrolled<together>([&](auto v) __attribute__((always_inline)) {
                const int row = group + row_of(v), at = column_of(v);
                s.sum[v] = load_row<Width>(narrow_c, c + place_c.square(row, at), place_c.byte(row, at));
            });
            unrolled<K / Step>([&](auto step) __attribute__((always_inline)) {
                U total[together]{};
                unrolled<together>(
                    [&](auto v) __attribute__((always_inline)) { s.align(v, widened_exponents<Type, Width>(exponents(v) + step * pitch, false)); });
                unrolled<Step>([&](auto i) __attribute__((always_inline)) {
                    constexpr int p = step * Step + i;
                    F ours[down], theirs[across];
                    unrolled<down>([&](auto r) __attribute__((always_inline)) { ours[r] = everywhere<Width>(&operands.a[group + first + r][p]); });
                    unrolled<across>([&](auto q) __attribute__((always_inline)) { theirs[q] = load<F>(&operands.b[p][column + q * Width]); });
                    unrolled<together>([&](auto v) __attribute__((always_inline)) {
                        total[v] += (U)truncate<Width>(ours[v / across] * theirs[v % across] * s.scale[v]);
                        keep_in_order(total[v]);
                    });
                });
                unrolled<together>([&](auto v) __attribute__((always_inline)) { s.finish(v, total[v]); });
            });
            const bool careful = !ordinary || s.careful();
            unrolled<together>([&](auto v) __attribute__((always_inline)) {
                const int row = group + row_of(v), at = column_of(v);
                I result = s.sum[v];
                if (narrow_d) result = float_bits_to_half<Width>(result);
                if (careful) [[unlikely]]
                    result = careful_outputs<Type, HalfSum, N, K, Step, Width>(rule, operands, exponents(v), pitch, row, at, a, b, b_lines, c);
                std::byte* to = &out[place_d.square(row, at)][place_d.byte(row, at)];
                if (!narrow_d) return scatter_fours<Width>(result, [&](int i) { return to + i * square_lines * square_bytes; });
                const auto halves = __builtin_convertvector(result, typename V::UH);
                if constexpr (Width <= 8) return store(to, halves);
                else
                    for (int i = 0; i < Width / 8; ++i)
                        std::memcpy(to + i * square_lines * square_bytes, reinterpret_cast<const std::byte*>(&halves) + i * square_bytes,
                                    square_bytes);
            });
        }
    }
    for (int at = 0; at < rule.m / square_lines * place_d.squares(); ++at) std::memcpy(d[at], out[at], sizeof out[at]);
}

}  // namespace
}  // namespace wmmadiag
