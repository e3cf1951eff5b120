// Operands of products row after row (tensor_core_rows.hpp): values as floats, exponents in as few bits as their format allows, B turned.
//
// Internal to tensor_core.cpp.
#pragma once

#include "tensor_core_float.hpp"

namespace wmmadiag {
namespace {

constexpr int square_lines = 8, square_bytes = 16, halves_of_line = 8;

template <class Lane, int Count>
struct VectorOf {
    typedef Lane V __attribute__((vector_size(Count * sizeof(Lane))));
};

// Calls f(integral constant) for 0 .. Count - 1.
template <int Count, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
    [&]<int... i>(std::integer_sequence<int, i...>)
        __attribute__((always_inline)) { (f(std::integral_constant<int, i>{}), ...); }(std::make_integer_sequence<int, Count>{});
}

// The `Unit` bytes that lie there, repeated.
template <class V, int Unit>
[[gnu::always_inline]] inline V repeat(const void* from) {
    if constexpr (sizeof(V) == Unit) return load<V>(from);
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64 && Unit == 32) return (V)_mm512_broadcast_i64x4(load<__m256i>(from));
    if constexpr (sizeof(V) == 64 && Unit == 16) return (V)_mm512_broadcast_i32x4(load<__m128i>(from));
    if constexpr (sizeof(V) == 64 && Unit == 8) return (V)_mm512_set1_epi64(load<std::int64_t>(from));
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32 && Unit == 16) return (V)_mm256_broadcastsi128_si256(load<__m128i>(from));
    if constexpr (sizeof(V) == 32 && Unit == 8) return (V)_mm256_set1_epi64x(load<std::int64_t>(from));
#endif
#if defined(__SSE2__)
    if constexpr (sizeof(V) == 16 && Unit == 8) return (V)_mm_set1_epi64x(load<std::int64_t>(from));
    if constexpr (sizeof(V) == 16 && Unit == 4) return (V)_mm_set1_epi32(load<std::int32_t>(from));
#endif
    V out;
    for (std::size_t at = 0; at < sizeof(V); at += Unit) std::memcpy(reinterpret_cast<char*>(&out) + at, from, Unit);
    return out;
}

// x + y, of 8-bit lanes with saturation.
template <class V>
[[gnu::always_inline]] inline V add_exponents(const V& x, const V& y) {
    if constexpr (sizeof(x[0]) == 1) {
#if defined(__AVX512BW__)
        if constexpr (sizeof(V) == 64) return (V)_mm512_adds_epi8((__m512i)x, (__m512i)y);
#endif
#if defined(__AVX2__)
        if constexpr (sizeof(V) == 32) return (V)_mm256_adds_epi8((__m256i)x, (__m256i)y);
#endif
#if defined(__SSE2__)
        if constexpr (sizeof(V) == 16) return (V)_mm_adds_epi8((__m128i)x, (__m128i)y);
#endif
        V out{};
        for (std::size_t i = 0; i < sizeof(V); ++i) {
            const int sum = x[i] + y[i];
            out[i] = static_cast<std::int8_t>(sum > 127 ? 127 : sum < -128 ? -128 : sum);
        }
        return out;
    }
    return x + y;
}

template <class V>
[[gnu::always_inline]] inline V larger(const V& x, const V& y) {
    return x > y ? x : y;
}

// Whether a lane is negative.
template <int Width>
[[gnu::always_inline]] inline bool any_negative(const typename Vectors<Width>::I& x) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return _mm512_movepi32_mask((__m512i)x) != 0;
#endif
    return any<Width>(x < 0);
}

// The float that lies there, in all lanes.
template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::F everywhere(const float* from) {
#if defined(__AVX512F__)
    if constexpr (Width == 16) return (typename Vectors<Width>::F)_mm512_set1_ps(*from);
#endif
#if defined(__AVX2__)
    if constexpr (Width == 8) return (typename Vectors<Width>::F)_mm256_broadcast_ss(from);
#endif
    return *from - typename Vectors<Width>::F{};
}

template <int Width>
[[gnu::always_inline]] inline typename Vectors<Width>::I joined(const typename Vectors<Width / 2>::I& low,
                                                                const typename Vectors<Width / 2>::I& high) {
    return [&]<int... i>(std::integer_sequence<int, i...>)
               __attribute__((always_inline)) { return __builtin_shufflevector(low, high, i...); }(std::make_integer_sequence<int, Width>{});
}

// Four words from each of Width / 4 places, side by side.
template <int Width, class At>
[[gnu::always_inline]] inline typename Vectors<Width>::I gather_fours(At&& at, int first = 0) {
    if constexpr (Width == 4) return load<typename Vectors<4>::I>(at(first));
    else return joined<Width>(gather_fours<Width / 2>(at, first), gather_fours<Width / 2>(at, first + Width / 8));
}

template <int Width, class At>
[[gnu::always_inline]] inline void scatter_fours(const typename Vectors<Width>::I& v, At&& at) {
    unrolled<Width / 4>([&](auto i)
                            __attribute__((always_inline)) { store(at(i), __builtin_shufflevector(v, v, 4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3)); });
}

// How exponents are kept while the largest is looked for: in 8 bits where the format's are few. A product with a zero is below all
// others; of Inf and NaN nothing is known.
template <Element Type>
struct RowExponents {
    static constexpr bool narrow = Type == Element::f16;
    using Lane = std::conditional_t<narrow, std::int8_t, std::int16_t>;
    static constexpr int zero = narrow ? -113 : zero_mark;
    static constexpr int least_product = -28;    // narrow: of products that are not zero
    static constexpr int largest_of_zero = -98;  // narrow: zero + 15
};

template <Element Type, int N, int K>
struct RowOperands {
    using Lane = typename RowExponents<Type>::Lane;
    static constexpr int Count = (native_width == 4 ? 16 : 32) / static_cast<int>(sizeof(Lane));  // exponents in a vector
    static constexpr int rows = Count > N ? Count / N : 1;                                        // whose largest are looked for together
    static constexpr int parts = N > Count ? N / Count : 1;                                       // vectors of one row
    static constexpr int chunks = K / halves_of_line;
    static constexpr int some = native_width == 4 ? 8 : 16;  // operands whose exponents are taken at once
    using E = typename VectorOf<Lane, Count>::V;
    using H = typename Vectors<some>::H;

    alignas(64) float a[max_m][K];
    alignas(64) float b[K][N];
    alignas(64) Lane a_exponent[chunks][max_m][halves_of_line];
    alignas(64) Lane b_exponent[K][parts * Count];  // repeated for each of `rows`
    int largest_a, largest_b;                       // magnitudes, as bits

    static typename VectorOf<Lane, some>::V exponents_of(const H& bits, H& largest) {
        constexpr Format format = format_of(Type);
        constexpr int bias = (1 << (format.exponent_bits - 1)) - 1;
        const H magnitude = bits & std::int16_t{0x7fff};
        largest = larger(largest, magnitude);
        const H exponent = larger(magnitude >> format.fraction_bits, H{} + std::int16_t{1}) - std::int16_t{bias};
        return __builtin_convertvector(magnitude == 0 ? H{} + static_cast<std::int16_t>(RowExponents<Type>::zero) : exponent,
                                       typename VectorOf<Lane, some>::V);
    }

    static int largest_of(const H& all) {
        alignas(64) std::int16_t each[some];
        store(each, all);
        int largest = 0;
        for (const int one : each) largest = one > largest ? one : largest;
        return largest;
    }

    // A: squares in the order [m / 8][k / 8].
    [[gnu::always_inline]] void take_a(int m, const std::byte* const* squares) {
        constexpr int part = native_width < 8 ? native_width : 8;
        H all{};
        for (int row = 0; row < m; row += square_lines)
            for (int chunk = 0; chunk < chunks; ++chunk) {
                const std::byte* square = squares[row / square_lines * chunks + chunk];
                for (int line = 0; line < square_lines; ++line)
                    for (int at = 0; at < halves_of_line; at += part)
                        store(&a[row + line][chunk * halves_of_line + at],
                              values<Type, part>(load<typename Vectors<part>::UH>(square + line * square_bytes + 2 * at)));
                for (int at = 0; at < square_lines * halves_of_line; at += some)
                    store(&a_exponent[chunk][row][0] + at, exponents_of(load<H>(square + 2 * at), all));
            }
        largest_a = largest_of(all);
    }

    // B: likewise, [n / 8][k / 8].
    [[gnu::always_inline]] void take_b(const std::byte* const* squares, const BLines& lines) {
        alignas(64) std::uint16_t turned[K][N];
        alignas(64) Lane exponent[K * N];
        for (int j = 0; j < N; j += square_lines)
            for (int p = 0; p < K; p += halves_of_line) {
                const std::byte* square = squares[j / square_lines * chunks + p / halves_of_line];
                transpose_8x8([&](int i) { return square + lines[static_cast<std::size_t>(i)]; }, [&](int i) { return &turned[p + i][j]; });
            }
        const std::uint16_t* bits = &turned[0][0];
        H all{};
        for (int at = 0; at < K * N; at += native_width)
            store(&b[0][0] + at, values<Type, native_width>(load<typename Vectors<native_width>::UH>(bits + at)));
        for (int at = 0; at < K * N; at += some) store(exponent + at, exponents_of(load<H>(bits + at), all));
        for (int p = 0; p < K; ++p)
            for (int part = 0; part < parts; ++part)
                store(b_exponent[p] + part * Count,
                      repeat<E, static_cast<int>((N < Count ? N : Count) * sizeof(Lane))>(exponent + p * N + part * Count));
        largest_b = largest_of(all);
    }

    // Where, of eight lanes for each row, repeated, the one of product p is for lane i; in the same 16 bytes.
    static constexpr int spread(int i, int p) {
        constexpr int block = 16 / static_cast<int>(sizeof(Lane));
        const int row = rows == 1 ? 0 : N == 8 ? i / 8 % (block / 8) : i / block % 2;
        return i / block * block + row * 8 + p;
    }

    template <int p, int... i>
    [[gnu::always_inline]] static E spread_to_lanes(const E& eights, std::integral_constant<int, p>, std::integer_sequence<int, i...>) {
#if defined(__AVX2__)
        if constexpr (sizeof(E) == 32 && sizeof(Lane) == 1) {
            constexpr typename VectorOf<char, 32>::V within{static_cast<char>(spread(i, p) % 16)...};
            return (E)_mm256_shuffle_epi8((__m256i)eights, (__m256i)within);
        }
#endif
        return __builtin_shufflevector(eights, eights, spread(i, p)...);
    }

    // The largest exponent of each step's products, of `rows` rows.
    template <int Step>
    [[gnu::always_inline]] void search(int row, Lane (&largest)[K / Step][parts * Count]) const {
        unrolled<parts>([&](auto part) __attribute__((always_inline)) {
            E e_max{};
            unrolled<K>([&](auto p) __attribute__((always_inline)) {
                const E eights = repeat<E, static_cast<int>(rows * 8 * sizeof(Lane))>(a_exponent[p / 8][row]);
                const E ours = spread_to_lanes(eights, std::integral_constant<int, p % 8>{}, std::make_integer_sequence<int, Count>{});
                const E e = add_exponents(ours, load<E>(b_exponent[p] + part * Count));
                e_max = p % Step == 0 ? e : larger(e, e_max);
                if constexpr (p % Step == Step - 1) store(largest[p / Step] + part * Count, e_max);
            });
        });
    }

    // Whether all products have exponents for the short way; not known of each output.
    [[nodiscard]] bool ordinary() const {
        constexpr Format format = format_of(Type);
        constexpr int bias = (1 << (format.exponent_bits - 1)) - 1, infinity = ((1 << format.exponent_bits) - 1) << format.fraction_bits;
        if (largest_a >= infinity || largest_b >= infinity) return false;
        return Type == Element::f16 || (largest_a >> format.fraction_bits) + (largest_b >> format.fraction_bits) - 2 * bias <= greatest_exponent;
    }
};

}  // namespace
}  // namespace wmmadiag
