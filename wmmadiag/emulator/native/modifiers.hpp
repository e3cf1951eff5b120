// The modifiers of a PTX instruction that its semantics read at run time, packed into one word.
//
// The Python side (wmmadiag/emulator/modifiers.py) packs it by the field table below, which bindings.cpp exports.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace wmmadiag {

enum class Rounding : std::uint8_t { rn, rz, rm, rp, rna, rni, rzi, rmi, rpi };

// setp / set / slct comparison. The unsigned-only lo, ls, hi, hs are lt, le, gt, ge on an unsigned type.
enum class Compare : std::uint8_t { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

enum class BoolOp : std::uint8_t { none, and_, or_, xor_ };

struct Field {
    std::string_view name;
    unsigned shift;
    unsigned bits;
};

// One row per modifier. A value that a form does not have is 0.
inline constexpr std::array fields{
    Field{"rounding", 0, 4},                           // Rounding
    Field{"ftz", 4, 1},                                // subnormal f32 inputs and results become sign-preserving zero
    Field{"sat", 5, 1},                                // float: clamp to [0, 1], NaN becomes +0; integer add/sub/mad: clamp to the type; cvt: .sat
    Field{"compare", 6, 4},                            // Compare
    Field{"bool", 10, 2},                              // BoolOp
    Field{"nan", 12, 1},                               // min/max .NaN: a NaN operand gives the canonical NaN
    Field{"abs", 13, 1},                               // .abs (fma/min/max .xorsign.abs, ...)
    Field{"xorsign", 14, 1},                           // .xorsign
    Field{"relu", 15, 1},                              // .relu: clamp below at +0, NaN becomes the canonical NaN
    Field{"satfinite", 16, 1}, Field{"neg_a", 17, 1},  // a negated predicate operand (!p) in position a, b, c
    Field{"neg_b", 18, 1},     Field{"neg_c", 19, 1}, Field{"cc", 20, 1},  // writes the carry flag (add.cc, ...): the flag is a predicate in d2
    Field{"mode", 21, 8},  // lop3 table, prmt mode (0 none, 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16), testp kind, ...
    Field{"oob", 29, 1},   // fma .oob
};

struct Modifiers {
    std::uint32_t word = 0;

    template <unsigned Index>
    [[nodiscard]] constexpr unsigned get() const {
        return (word >> fields[Index].shift) & ((1u << fields[Index].bits) - 1u);
    }
    [[nodiscard]] constexpr Rounding rounding() const { return static_cast<Rounding>(get<0>()); }
    [[nodiscard]] constexpr bool ftz() const { return get<1>() != 0; }
    [[nodiscard]] constexpr bool sat() const { return get<2>() != 0; }
    [[nodiscard]] constexpr Compare compare() const { return static_cast<Compare>(get<3>()); }
    [[nodiscard]] constexpr BoolOp bool_op() const { return static_cast<BoolOp>(get<4>()); }
    [[nodiscard]] constexpr bool nan() const { return get<5>() != 0; }
    [[nodiscard]] constexpr bool abs() const { return get<6>() != 0; }
    [[nodiscard]] constexpr bool xorsign() const { return get<7>() != 0; }
    [[nodiscard]] constexpr bool relu() const { return get<8>() != 0; }
    [[nodiscard]] constexpr bool satfinite() const { return get<9>() != 0; }
    [[nodiscard]] constexpr bool neg_a() const { return get<10>() != 0; }
    [[nodiscard]] constexpr bool neg_b() const { return get<11>() != 0; }
    [[nodiscard]] constexpr bool neg_c() const { return get<12>() != 0; }
    [[nodiscard]] constexpr bool cc() const { return get<13>() != 0; }
    [[nodiscard]] constexpr unsigned mode() const { return get<14>(); }
    [[nodiscard]] constexpr bool oob() const { return get<15>() != 0; }
};

}  // namespace wmmadiag
