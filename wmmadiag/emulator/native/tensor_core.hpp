// Tensor-core arithmetic: D = A·B + C of one tile, bit for bit as the chip adds it up.
//
// The rules (fractional bits kept, products per fused step, exponent of a zero term) come from the Python table
// wmmadiag/numerics/tensor_core.py; this file only computes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace wmmadiag {

enum class Element : std::uint8_t { f16, bf16, tf32, f32, f64, e4m3, e5m2, e3m2, e2m3, e2m1, s8, u8, s4, u4, b1, s32 };

enum class BitOp : std::uint8_t { none, xor_popc, and_popc };

// How one mma or wmma.mma instruction adds, on one architecture.
struct MmaRule {
    std::uint16_t m, n, k;
    Element a, b, c, d;          // d: f16, f32, f64, s32; c: likewise
    std::uint8_t fraction_bits;  // F: bits kept below 2^e_max; 0 for f64, integers and the software path
    std::uint8_t step;           // L: products per fused step (at most k)
    std::int16_t zero_exponent;  // e_zero
    bool satfinite;              // integers: clamp to s32
    BitOp bit_op;
    bool software;                  // m8n8k4 f16 on sm_80+: f32 multiply-adds, as `software_sum` writes them
    std::uint8_t result_bits = 23;  // fraction bits that an f32 result keeps: 23, or 13 (fp8 on sm_89)
    bool widen = false;             // no fp8 unit: fp8 is converted to f16 (subnormals become normal), k mod 4 in {0, 1} first, from
                                    // 0, then {2, 3}, then + C, rounded to nearest
};

// Operands are dense and packed as in registers: the elements of a row follow each other along k without gaps, low bits first.
//   a: m rows (rows of A) of k elements.  b: n rows (COLUMNS of B) of k elements.  c and d: m x n row-major.
//   f16, bf16: uint16_t bits.  tf32, f32: uint32_t bits (tf32 not yet truncated).  f64: uint64_t bits.
//   fp8/6/4: uint8_t bits, one element each, low bits.  s8, u8: uint8_t.  s4, u4: two in a byte.  b1: 32 in a uint32_t.  s32: uint32_t.
// So a register of an A or B fragment is always one whole word of `a` or `b` (all PTX fragments pack along k; m8n8k4.col excepted).
// Rows of A with rows of C, and columns of B with columns of C, may be permuted alike: outputs do not depend on each other.
// Pointers are aligned to 8 bytes at least; 64 is fastest. d may be c. No operand makes it fault.
using MmaFunction = void (*)(const MmaRule&, const void* a, const void* b, const void* c, void* d);

// The fastest function for this rule: vectorised where exact, scalar for the operands (NaN, Inf, extreme exponents) that need it.
MmaFunction select_mma(const MmaRule& rule);

// The same with the matrices in squares of 8 lines x 16 bytes, each 128 bytes that follow each other, as in a register of 32 lanes:
//   a: [m / 8][16 bytes of a row], b: [n / 8][16 bytes of a column], c and d: [m / 8][16 bytes of a row]. Squares of d may be those of the others.
// Columns of B lie in any order in their squares: column i of eight at b_lines[i].
using BLines = std::array<std::uint8_t, 8>;
inline constexpr BLines plain_b_lines{0, 16, 32, 48, 64, 80, 96, 112};
using MmaSquares = void (*)(const MmaRule&, const std::byte* const* a, const std::byte* const* b, const BLines& b_lines, const std::byte* const* c,
                            std::byte* const* d);

// nullptr for rules that have none: f16 and bf16 operands do, but for k = 4.
MmaSquares select_mma_squares(const MmaRule& rule);
inline constexpr unsigned squares_limit = 16;  // of one matrix

// The plain scalar definition, used by tests to check the fast paths.
void mma_reference(const MmaRule&, const void* a, const void* b, const void* c, void* d);

}  // namespace wmmadiag
