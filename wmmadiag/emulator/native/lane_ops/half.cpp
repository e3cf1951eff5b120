// f16 and bf16 arithmetic (PTX ISA 9.7.4), scalar and packed, nearest even; and mixed precision, where an f32 accumulates halves.
//
// Sums and products of halves rounded to f32 and then to the half format are as if rounded once (f32 has more than 2p + 2 bits). In fma the
// product is exact (in f32 for f16, in f64 for bf16, whose exponents need it) and the sum is rounded to odd.
#include "formats.hpp"
#include "rounding.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class Format>
[[gnu::always_inline]] inline float operand(Modifiers m, u16 bits) {
    return widen<Format>(pick(m.ftz(), flush_bits<Format>(bits), bits));
}

// .ftz of f16, then .sat (clamp to [0, 1], NaN to +0) or .relu (negative to +0, NaN stays). `exact` is the value before rounding, or as
// good: .ftz keeps what rounds up to the smallest normal with 11 bits and no lower limit of the exponent (see flush_tiny).
template <class Format, class Float>
[[gnu::always_inline]] inline u16 result(Modifiers m, u16 rounded, Float exact) {
    constexpr u16 one = Format::mantissa == F16::mantissa ? 0x3c00 : 0x3f80;
    constexpr auto limit = std::bit_cast<decltype(bits_of(exact))>(static_cast<Float>(0x1.ffep-15));
    const bool tiny = (bits_of(exact) << 1) < (limit << 1);
    const u16 bits = pick(m.ftz() & tiny, static_cast<u16>(rounded & Format::sign), rounded);
    const bool nan = is_nan<Format>(bits);
    const bool negative = (bits & Format::sign) != 0;
    const u16 saturated = pick(nan | negative, u16{0}, bits > one ? one : bits);
    const u16 rectified = pick(negative & !nan, u16{0}, bits);
    return pick(m.sat(), saturated, pick(m.relu(), rectified, bits));
}

constexpr auto add = [](float a, float b) { return a + b; };
constexpr auto sub = [](float a, float b) { return a - b; };
constexpr auto mul = [](float a, float b) { return a * b; };

template <class Format, auto f>
constexpr auto plain = [](u16 a, u16 b) -> u16 { return narrow<Format>(f(widen<Format>(a), widen<Format>(b))); };
template <class Format, auto f>
constexpr auto general = [](Modifiers m, u16 a, u16 b) -> u16 {
    const float exact = f(operand<Format>(m, a), operand<Format>(m, b));
    return result<Format>(m, narrow<Format>(exact), exact);
};

// .oob: the NaN that stands for an element out of bounds, as a factor, makes the result zero. Its bits are the same in f16 and bf16
// (recorded on sm_90).
[[gnu::always_inline]] inline bool out_of_bounds(u16 bits) { return (bits & 0x7fff) == 0x7ff7; }

[[gnu::always_inline]] inline u16 narrow_odd(float x, F16) { return narrow_f16(x); }
[[gnu::always_inline]] inline u16 narrow_odd(double x, BF16) { return narrow_once<BF16>(x); }

template <class Format>
using Wide = std::conditional_t<Format::mantissa == F16::mantissa, float, double>;

template <class Format>
constexpr auto fma = [](u16 a, u16 b, u16 c) -> u16 {
    using W = Wide<Format>;
    return narrow_odd(add_to_odd<W>(W{widen<Format>(a)} * widen<Format>(b), widen<Format>(c)), Format{});
};
template <class Format>
constexpr auto fma_general = [](Modifiers m, u16 a, u16 b, u16 c) -> u16 {
    using W = Wide<Format>;
    const W exact = add_to_odd<W>(W{operand<Format>(m, a)} * operand<Format>(m, b), operand<Format>(m, c));
    const u16 r = result<Format>(m, narrow_odd(exact, Format{}), exact);
    return pick(m.oob() & (out_of_bounds(a) | out_of_bounds(b)), u16{0}, r);
};

template <class Format, auto f, unsigned Pack = 1>
constexpr LaneOp binary(std::string_view name) {
    return row<lane_function<plain<Format, f>, Pack>, lane_function<general<Format, f>, Pack>>(name);
}
template <class Format, unsigned Pack = 1>
constexpr LaneOp fma_op(std::string_view name) {
    return row<lane_function<fma<Format>, Pack>, lane_function<fma_general<Format>, Pack>>(name);
}

// Mixed precision: the halves are widened, the rest is f32 arithmetic under the instruction's rounding mode.
[[gnu::always_inline]] inline float single_result(Modifiers m, float r) { return pick(m.sat(), saturate(r), canonical(r)); }
template <class Format, auto f>
constexpr auto mixed = [](Modifiers m, u16 a, float c) -> float { return single_result(m, f(widen<Format>(a), c)); };
template <class Format>
constexpr auto mixed_fma =
    [](Modifiers m, u16 a, u16 b, float c) -> float { return single_result(m, __builtin_fmaf(widen<Format>(a), widen<Format>(b), c)); };
template <auto f>
constexpr LaneOp mixed_op(std::string_view name) {
    return row<lane_function<f>, &rounded<lane_function<f>>>(name);
}

constexpr std::array table{
    binary<F16, add>("add.f16"),
    binary<F16, add, 2>("add.f16x2"),
    binary<BF16, add>("add.bf16"),
    binary<BF16, add, 2>("add.bf16x2"),
    binary<F16, sub>("sub.f16"),
    binary<F16, sub, 2>("sub.f16x2"),
    binary<BF16, sub>("sub.bf16"),
    binary<BF16, sub, 2>("sub.bf16x2"),
    binary<F16, mul>("mul.f16"),
    binary<F16, mul, 2>("mul.f16x2"),
    binary<BF16, mul>("mul.bf16"),
    binary<BF16, mul, 2>("mul.bf16x2"),
    fma_op<F16>("fma.f16"),
    fma_op<F16, 2>("fma.f16x2"),
    fma_op<BF16>("fma.bf16"),
    fma_op<BF16, 2>("fma.bf16x2"),
    mixed_op<mixed<F16, add>>("add.f32.f16"),
    mixed_op<mixed<BF16, add>>("add.f32.bf16"),
    mixed_op<mixed<F16, sub>>("sub.f32.f16"),
    mixed_op<mixed<BF16, sub>>("sub.f32.bf16"),
    mixed_op<mixed_fma<F16>>("fma.f32.f16"),
    mixed_op<mixed_fma<BF16>>("fma.f32.bf16"),
};

}  // namespace

std::span<const LaneOp> half_ops() { return table; }

}  // namespace wmmadiag
