// cvt between scalar types (PTX ISA 9.7.9, "cvt").
//
// 8-bit values live in 16-bit registers: a source's upper half is ignored, a result is sign- or zero-extended into it.
#include <algorithm>

#include "formats.hpp"
#include "number.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class T>
using Register = std::conditional_t<sizeof(T) == 1, u16, std::make_unsigned_t<T>>;

// ---- integer to integer: truncate or extend; .sat clamps.

template <class D, class S>
constexpr auto resize = [](Register<S> a) -> Register<D> { return static_cast<Register<D>>(static_cast<D>(static_cast<S>(a))); };
template <class D, class S>
constexpr auto clamp = [](Register<S> a) -> Register<D> {
    const S value = static_cast<S>(a);
    const bool low = std::cmp_less(value, std::numeric_limits<D>::min());
    const bool high = std::cmp_greater(value, std::numeric_limits<D>::max());
    const D inside = static_cast<D>(value);
    return static_cast<Register<D>>(low ? std::numeric_limits<D>::min() : (high ? std::numeric_limits<D>::max() : inside));
};

// ---- anything with a float: through Number.

constexpr bool to_integer(Rounding r) { return r >= Rounding::rni; }

template <class T>
struct IntegerType {
    using Word = Register<T>;
    static constexpr bool flushes = false;
    static constexpr bool keeps_nan = false;
    static Number unpack(Word bits, bool) {
        const T value = static_cast<T>(bits);
        const bool negative = value < 0;
        const u64 wide = static_cast<u64>(static_cast<std::conditional_t<std::is_signed_v<T>, s64, u64>>(value));
        return unpack_integer(negative ? 0 - wide : wide, negative);
    }
    // NaN becomes 0, but where 64 bits are involved the top bit alone (recorded on sm_90).
    template <class Source>
    static Word pack(const Number& number, Modifiers m) {
        constexpr unsigned width = 8 * sizeof(T);
        constexpr T nan = static_cast<T>(width == 64 || Source::keeps_nan ? u64{1} << (width - 1) : 0);
        if (number.kind == Number::Kind::nan) return static_cast<Word>(nan);
        const Number integer = round_to_integer(number, m.rounding());
        return static_cast<Word>(static_cast<T>(clamp_to_integer(integer, width, std::is_signed_v<T>)));
    }
};

// .sat on a float result: to [0, 1], NaN and -0 to +0. `one` is 1.0.
constexpr u64 saturate_bits(u64 bits, const FloatShape& shape) {
    const u64 one = static_cast<u64>(-shape.min_exponent + 1) << shape.mantissa;
    const bool negative = ((bits >> (shape.bits - 1)) & 1) != 0;
    const bool nan = bits == shape.nan;
    return negative || nan ? 0 : std::min(bits, one);
}

template <class W, const FloatShape& Shape, unsigned Shift = 0>
struct FloatType {
    using Word = W;
    static constexpr bool flushes = Shape.bits == 32;    // .ftz concerns f32 operands and results only
    static constexpr bool keeps_nan = Shape.bits == 64;  // f64, to or from, keeps sign and payload of a NaN; others make it canonical

    static Number unpack(Word bits, bool ftz) {
        Number number = unpack_float(bits >> Shift, Shape);
        if (!flushes || !ftz) return number;
        if (number.kind == Number::Kind::finite && number.exponent < Shape.min_exponent) number.kind = Number::Kind::zero;
        return number.kind == Number::Kind::nan ? unpack_float(Shape.nan, Shape) : number;
    }
    template <class Source>
    static Word pack(const Number& number, Modifiers m) {
        const bool integral = to_integer(m.rounding());
        const Number value = integral ? round_to_integer(number, m.rounding()) : number;
        u64 bits = round_to_float(value, Shape, integral ? Rounding::rn : m.rounding(), m.satfinite());
        const bool nan = number.kind == Number::Kind::nan;
        const bool negative = ((bits >> (Shape.bits - 1)) & 1) != 0;
        if (nan && !m.sat() && (keeps_nan || Source::keeps_nan)) return static_cast<Word>(nan_bits(number));
        if (flushes && m.ftz() && is_tiny(number, m.rounding())) bits &= u64{1} << (Shape.bits - 1);
        if (m.relu() && negative && !nan) bits = 0;
        if (m.sat()) bits = saturate_bits(bits, Shape);
        return static_cast<Word>(bits << Shift);
    }

private:
    static u64 nan_bits(const Number& number) {
        const u64 quiet = u64{1} << (Shape.mantissa - 1);
        return (u64{number.negative} << (Shape.bits - 1)) | Shape.infinity | quiet | (number.significand >> (64 - Shape.mantissa));
    }
    // Below the smallest normal after rounding with no lower limit of the exponent (see flush_tiny): asked 32 binades higher.
    static bool is_tiny(Number number, Rounding rounding) {
        if (number.kind != Number::Kind::finite || number.exponent >= Shape.min_exponent) return false;
        number.exponent = std::max(number.exponent, Shape.min_exponent - 2) + 32;
        const u64 bits = round_to_float(number, Shape, rounding, false);
        return (bits & (Shape.infinity | ((u64{1} << Shape.mantissa) - 1))) < u64{33} << Shape.mantissa;
    }
};

using TF32 = FloatType<u32, tf32_shape, 13>;
using HalfType = FloatType<u16, f16_shape>;
using BrainType = FloatType<u16, bf16_shape>;
using SingleType = FloatType<u32, f32_shape>;
using DoubleType = FloatType<u64, f64_shape>;

template <class D, class S>
void convert(const LaneArgs& args) {
    using To = typename D::Word;
    using From = typename S::Word;
    if (args.active != all_lanes) return into_scratch<sizeof(To)>(args, &convert<D, S>);
    const Modifiers m = args.modifiers;
    constexpr bool to_half = std::is_same_v<D, HalfType> || std::is_same_v<D, BrainType>;
    constexpr bool flushes = S::flushes && !to_half;  // f32 to f16 ignores .ftz (recorded on sm_90)
    for (unsigned l = 0; l < lanes; ++l) store<To>(args.d, l, D::template pack<S>(S::unpack(load<From>(args.s[0], l), flushes && m.ftz()), m));
}

// ---- shortcuts: vectorised functions for common modifiers; nullptr means the general way.

constexpr bool only(Modifiers m, Modifiers allowed) { return (m.word & ~allowed.word) == 0; }
constexpr Modifiers rounding_modifier(Rounding r) { return {static_cast<u32>(r)}; }
constexpr Modifiers ftz_modifier{1u << fields[1].shift};
constexpr Modifiers sat_modifier{1u << fields[2].shift};

// A conversion to the same type, or from bf16 to f32, with no modifier moves the bits: NaN stays as it is (recorded on sm_90).
template <class W>
constexpr auto same_bits = [](W a) -> W { return a; };
constexpr auto f32_from_f16 = [](u16 a) -> float { return canonical(widen_f16(a)); };
constexpr auto f32_from_bf16 = [](u16 a) -> u32 { return u32{a} << 16; };
constexpr auto f16_from_f32 = [](float a) -> u16 { return narrow_f16(a); };
constexpr auto bf16_from_f32 = [](float a) -> u16 { return narrow_bf16(a); };
template <class S>
constexpr auto f32_from = [](S a) -> float { return static_cast<float>(a); };
template <class S>
constexpr auto f64_from = [](S a) -> double { return static_cast<double>(a); };
constexpr auto saturate_f32 = [](Modifiers m, float a) -> float { return saturate(flush_if(m.ftz(), a)); };
// To an integral value in the direction of `mode`. Truncation by way of s32 is exact below 2^23, above which all values are integral;
// the sign of a zero is the operand's.
[[gnu::always_inline]] inline float integral(float x, Rounding mode) {
    const u32 sign = bits_of(x) & F32::sign;
    const bool small = (bits_of(x) & F32::magnitude) < std::bit_cast<u32>(0x1p23f);
    const float inside = pick(small, x, 0.0f);
    const float cut = static_cast<float>(static_cast<s32>(inside));
    const float magic = float_of(std::bit_cast<u32>(0x1p23f) | sign);
    const float nearest = (inside + magic) - magic;
    const float lower = cut - pick(cut > inside, 1.0f, 0.0f);
    const float upper = cut + pick(cut < inside, 1.0f, 0.0f);
    const float directed = pick(mode == Rounding::rmi, lower, pick(mode == Rounding::rpi, upper, cut));
    const float rounded = pick(mode == Rounding::rni, nearest, directed);
    return pick(small, float_of((bits_of(rounded) & F32::magnitude) | sign), canonical(x));
}
constexpr auto integral_f32 = [](Modifiers m, float a) -> float { return integral(flush_if(m.ftz(), a), m.rounding()); };
constexpr auto s32_from_f32 = [](Modifiers m, float a) -> s32 {
    const float x = integral(flush_if(m.ftz(), a), m.rounding());
    const u32 magnitude = bits_of(x) & F32::magnitude;
    const bool fits = magnitude < std::bit_cast<u32>(0x1p31f);
    const u32 limit = 0x7fffffff + (bits_of(x) >> 31);
    const u32 number = static_cast<u32>(static_cast<s32>(pick(fits, x, 0.0f)));
    return static_cast<s32>(pick(is_nan(x), 0u, pick(fits, number, limit)));
};

// .rna to tf32 is integer arithmetic: NaN is truncated like Inf, and .satfinite steps back from either (recorded on sm_90).
constexpr auto tf32_away = [](Modifiers m, u32 a) -> u32 {
    const bool special = (a & F32::infinity) == F32::infinity;
    const u32 r = (special ? a : a + 0x1000) & 0xffffe000;
    return m.satfinite() && (r & F32::infinity) == F32::infinity ? r - 0x2000 : r;
};

template <class D, class S>
LaneFunction shortcut(Modifiers) {
    return nullptr;
}
template <>
LaneFunction shortcut<TF32, SingleType>(Modifiers m) {
    return m.rounding() == Rounding::rna ? lane_function<tf32_away> : nullptr;
}
template <>
LaneFunction shortcut<SingleType, HalfType>(Modifiers m) {  // f32 results from f16 are never subnormal: .ftz changes nothing
    return only(m, ftz_modifier) ? lane_function<f32_from_f16> : nullptr;
}
template <>
LaneFunction shortcut<SingleType, BrainType>(Modifiers m) {
    return m.word == 0 ? lane_function<f32_from_bf16> : nullptr;
}
template <>
LaneFunction shortcut<DoubleType, DoubleType>(Modifiers m) {
    return m.word == 0 ? lane_function<same_bits<u64>> : nullptr;
}
template <>
LaneFunction shortcut<HalfType, SingleType>(Modifiers m) {
    return only(m, ftz_modifier) ? lane_function<f16_from_f32> : nullptr;
}
template <>
LaneFunction shortcut<BrainType, SingleType>(Modifiers m) {
    return m.word == 0 ? lane_function<bf16_from_f32> : nullptr;
}
template <>
LaneFunction shortcut<SingleType, IntegerType<s32>>(Modifiers m) {
    return only(m, ftz_modifier) ? lane_function<f32_from<s32>> : nullptr;
}
template <>
LaneFunction shortcut<SingleType, IntegerType<u32>>(Modifiers m) {
    return only(m, ftz_modifier) ? lane_function<f32_from<u32>> : nullptr;
}
template <>
LaneFunction shortcut<DoubleType, IntegerType<s32>>(Modifiers m) {
    return m.word == 0 ? lane_function<f64_from<s32>> : nullptr;
}
template <>
LaneFunction shortcut<SingleType, SingleType>(Modifiers m) {
    if (m.word == 0) return lane_function<same_bits<u32>>;
    if (to_integer(m.rounding()) && only(m, {rounding_modifier(m.rounding()).word | ftz_modifier.word})) return lane_function<integral_f32>;
    return m.sat() && only(m, {ftz_modifier.word | sat_modifier.word}) ? lane_function<saturate_f32> : nullptr;
}
template <>
LaneFunction shortcut<IntegerType<s32>, SingleType>(Modifiers m) {
    return to_integer(m.rounding()) && only(m, {rounding_modifier(m.rounding()).word | ftz_modifier.word}) ? lane_function<s32_from_f32> : nullptr;
}

// ---- the table.

template <Text to, class D, Text from, class S>
constexpr LaneOp convert_op() {
    return {joined<"cvt.", to, ".", from>, [](Modifiers m) -> LaneFunction {
                const LaneFunction fast = shortcut<D, S>(m);
                return fast != nullptr ? fast : &convert<D, S>;
            }};
}
template <Text to, class D, Text from, class S>
constexpr LaneOp resize_op() {
    return {joined<"cvt.", to, ".", from>,
            [](Modifiers m) -> LaneFunction { return m.sat() ? lane_function<clamp<D, S>> : lane_function<resize<D, S>>; }};
}

// To one type from all of them.
template <Text to, class D>
constexpr std::array to_integer_ops{
    resize_op<to, D, "u8", u8>(),
    resize_op<to, D, "s8", s8>(),
    resize_op<to, D, "u16", u16>(),
    resize_op<to, D, "s16", s16>(),
    resize_op<to, D, "u32", u32>(),
    resize_op<to, D, "s32", s32>(),
    resize_op<to, D, "u64", u64>(),
    resize_op<to, D, "s64", s64>(),
    convert_op<to, IntegerType<D>, "f16", HalfType>(),
    convert_op<to, IntegerType<D>, "bf16", BrainType>(),
    convert_op<to, IntegerType<D>, "f32", SingleType>(),
    convert_op<to, IntegerType<D>, "f64", DoubleType>(),
};
template <Text to, class D>
constexpr std::array to_float_ops{
    convert_op<to, D, "u8", IntegerType<u8>>(),   convert_op<to, D, "s8", IntegerType<s8>>(),   convert_op<to, D, "u16", IntegerType<u16>>(),
    convert_op<to, D, "s16", IntegerType<s16>>(), convert_op<to, D, "u32", IntegerType<u32>>(), convert_op<to, D, "s32", IntegerType<s32>>(),
    convert_op<to, D, "u64", IntegerType<u64>>(), convert_op<to, D, "s64", IntegerType<s64>>(), convert_op<to, D, "f16", HalfType>(),
    convert_op<to, D, "bf16", BrainType>(),       convert_op<to, D, "f32", SingleType>(),       convert_op<to, D, "f64", DoubleType>(),
};

constexpr auto table = concatenate(to_integer_ops<"u8", u8>, to_integer_ops<"s8", s8>, to_integer_ops<"u16", u16>, to_integer_ops<"s16", s16>,
                                   to_integer_ops<"u32", u32>, to_integer_ops<"s32", s32>, to_integer_ops<"u64", u64>, to_integer_ops<"s64", s64>,
                                   to_float_ops<"f16", HalfType>, to_float_ops<"bf16", BrainType>, to_float_ops<"f32", SingleType>,
                                   to_float_ops<"f64", DoubleType>, std::array{convert_op<"tf32", TF32, "f32", SingleType>()});

}  // namespace

std::span<const LaneOp> convert_ops() { return table; }

}  // namespace wmmadiag
