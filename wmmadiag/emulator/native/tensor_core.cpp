// Tensor-core arithmetic: choice of the function for a rule, integers, single bits and f64. See tensor_core.hpp.
//
// Compiled once for each instruction set (baseline, AVX2, AVX-512, aarch64) with the same results; so all that it includes has
// internal linkage.
#include "tensor_core.hpp"

#include "tensor_core_scalar.hpp"
#include "tensor_core_squares.hpp"

namespace wmmadiag {
namespace {

bool is_integer(const MmaRule& rule) { return rule.d == Element::s32; }

template <class T>
T load_element(const void* from, std::size_t index) {
    T out;
    std::memcpy(&out, static_cast<const char*>(from) + index * sizeof(T), sizeof(T));
    return out;
}

template <class T>
void store_element(void* to, std::size_t index, T value) {
    std::memcpy(static_cast<char*>(to) + index * sizeof(T), &value, sizeof(T));
}

// Element p of a packed row of s8, u8, s4 or u4.
std::int32_t integer_element(Element type, const std::uint8_t* row, int p) {
    if (type == Element::u8) return row[p];
    if (type == Element::s8) return static_cast<std::int8_t>(row[p]);
    const int nibble = (row[p / 2] >> (4 * (p % 2))) & 15;
    return type == Element::s4 && nibble >= 8 ? nibble - 16 : nibble;
}

// The exact sum (at most 2^31 + 2^24 in magnitude), wrapped to s32 or clamped.
std::uint32_t integer_result(std::int64_t sum, bool satfinite) {
    constexpr std::int64_t most = 0x7fffffff, least = -most - 1;
    if (satfinite) sum = sum > most ? most : sum < least ? least : sum;
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(sum));
}

void mma_integer(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    const int m = rule.m, n = rule.n, k = rule.k;
    const std::size_t row_bytes = static_cast<std::size_t>(k) * element_size_bits(rule.a) / 8;
    std::int16_t x[32 * 64], y[32 * 64];
    for (int i = 0; i < m; ++i)
        for (int p = 0; p < k; ++p)
            x[i * k + p] =
                static_cast<std::int16_t>(integer_element(rule.a, static_cast<const std::uint8_t*>(a) + static_cast<std::size_t>(i) * row_bytes, p));
    for (int j = 0; j < n; ++j)
        for (int p = 0; p < k; ++p)
            y[j * k + p] =
                static_cast<std::int16_t>(integer_element(rule.b, static_cast<const std::uint8_t*>(b) + static_cast<std::size_t>(j) * row_bytes, p));
    for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
            std::int32_t sum = 0;
            for (int p = 0; p < k; ++p) sum += std::int32_t{x[i * k + p]} * y[j * k + p];
            const std::size_t at = static_cast<std::size_t>(i * n + j);
            store_element(d, at, integer_result(sum + std::int64_t{load_element<std::int32_t>(c, at)}, rule.satfinite));
        }
}

void mma_bits(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    const std::size_t words = rule.k / 32u;
    for (std::size_t i = 0; i < rule.m; ++i)
        for (std::size_t j = 0; j < rule.n; ++j) {
            std::uint32_t sum = load_element<std::uint32_t>(c, i * rule.n + j);
            for (std::size_t w = 0; w < words; ++w) {
                const std::uint32_t x = load_element<std::uint32_t>(a, i * words + w);
                const std::uint32_t y = load_element<std::uint32_t>(b, j * words + w);
                sum += static_cast<std::uint32_t>(std::popcount(rule.bit_op == BitOp::and_popc ? x & y : x ^ y));
            }
            store_element(d, i * rule.n + j, sum);
        }
}

bool is_nan(std::uint64_t bits) { return (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u; }

// a * b + c to nearest even. A NaN operand is handed on, quieted: b's before c's before a's; otherwise an invalid operation gives
// the canonical NaN (recorded on an H200, 434 of 434 outputs). Hosts differ in this, so it is written out.
std::uint64_t fma_f64(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    constexpr std::uint64_t quiet = std::uint64_t{1} << 51, canonical = 0xfff8000000000000u;
    if (is_nan(b)) return b | quiet;
    if (is_nan(c)) return c | quiet;
    if (is_nan(a)) return a | quiet;
    const double sum = std::fma(std::bit_cast<double>(a), std::bit_cast<double>(b), std::bit_cast<double>(c));
    return sum != sum ? canonical : std::bit_cast<std::uint64_t>(sum);
}

void mma_f64(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    for (std::size_t i = 0; i < rule.m; ++i)
        for (std::size_t j = 0; j < rule.n; ++j) {
            const std::uint64_t addend = load_element<std::uint64_t>(c, i * rule.n + j);
            double plain = std::bit_cast<double>(addend);
            for (std::size_t p = 0; p < rule.k; ++p)
                plain = std::fma(load_element<double>(a, i * rule.k + p), load_element<double>(b, j * rule.k + p), plain);
            std::uint64_t sum = std::bit_cast<std::uint64_t>(plain);
            if (plain != plain) {  // which NaN?
                sum = addend;
                for (std::size_t p = 0; p < rule.k; ++p)
                    sum = fma_f64(load_element<std::uint64_t>(a, i * rule.k + p), load_element<std::uint64_t>(b, j * rule.k + p), sum);
            }
            store_element(d, i * rule.n + j, sum);
        }
}

void mma_float_scalar(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    const std::size_t n = rule.n;
    const std::size_t size_a = rule.k * element_size_bits(rule.a) / 8, size_b = rule.k * element_size_bits(rule.b) / 8;
    for (std::size_t i = 0; i < rule.m; ++i)
        for (std::size_t j = 0; j < n; ++j) {
            const char* row = static_cast<const char*>(a) + i * size_a;
            const char* column = static_cast<const char*>(b) + j * size_b;
            const std::uint32_t addend =
                rule.c == Element::f16 ? load_element<std::uint16_t>(c, i * n + j) : load_element<std::uint32_t>(c, i * n + j);
            const std::uint32_t result = float_output(rule, row, column, addend);
            if (rule.d == Element::f16) store_element(d, i * n + j, static_cast<std::uint16_t>(result));
            else store_element(d, i * n + j, result);
        }
}

}  // namespace

MmaSquares select_mma_squares(const MmaRule& rule) { return select_squares(rule); }

MmaFunction select_mma(const MmaRule& rule) {
    if (rule.d == Element::f64) return mma_f64;
    if (is_integer(rule)) return rule.a == Element::b1 ? mma_bits : mma_integer;
    if (select_squares(rule) != nullptr) return mma_by_squares;
    const MmaFunction fast = select_float(rule);
    return fast != nullptr ? fast : mma_float_scalar;
}

void mma_reference(const MmaRule& rule, const void* a, const void* b, const void* c, void* d) {
    if (rule.d == Element::f64) return mma_f64(rule, a, b, c, d);
    if (is_integer(rule)) return rule.a == Element::b1 ? mma_bits(rule, a, b, c, d) : mma_integer(rule, a, b, c, d);
    mma_float_scalar(rule, a, b, c, d);
}

}  // namespace wmmadiag
