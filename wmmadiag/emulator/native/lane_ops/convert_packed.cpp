// cvt to and from packed types, and cvt.pack (PTX ISA 9.7.9).
#include <algorithm>

#include "formats.hpp"
#include "number.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;
using Kind = Number::Kind;

// One value into a packed element: .relu clears negative values (NaN stays NaN).
u64 pack_element(Number number, const FloatShape& shape, Modifiers m) {
    if (m.relu() && number.negative && number.kind != Kind::nan) return 0;
    return round_to_float(number, shape, m.rounding(), m.satfinite());
}

// d = {a, b}: a in the upper element, b in the lower, each `Step` bits apart.
template <class Word, const FloatShape& Shape, unsigned Step>
constexpr auto from_singles = [](Modifiers m, u32 a, u32 b) -> Word {
    const auto element = [m](u32 x) { return pack_element(unpack_float(m.ftz() ? flush_bits<F32>(x) : x, f32_shape), Shape, m); };
    return static_cast<Word>((element(a) << Step) | element(b));
};
// The two elements of one register to the two of another.
template <class Word, const FloatShape& To, unsigned Step, class Source, const FloatShape& From, unsigned SourceStep>
constexpr auto elementwise = [](Modifiers m, Source a) -> Word {
    const auto element = [m](u64 x) { return pack_element(unpack_float(x & ((u64{1} << From.bits) - 1), From), To, m); };
    return static_cast<Word>((element(u64{a} >> SourceStep) << Step) | element(a));
};

constexpr auto f16x2_fast = [](float a, float b) -> u32 { return (u32{narrow_f16(a)} << 16) | narrow_f16(b); };
constexpr auto bf16x2_fast = [](float a, float b) -> u32 { return (u32{narrow_bf16(a)} << 16) | narrow_bf16(b); };

// ue8m0: an unsigned power of two, 2^(bits - 127); 0xff is NaN. Rounds toward zero or up; the magnitude counts, Inf saturates.
u64 pack_scale(const Number& number, Rounding rounding) {
    if (number.kind == Kind::nan) return 0xff;
    if (number.kind == Kind::zero) return 0;
    if (number.kind == Kind::infinite) return 0xfe;
    const bool up = rounding == Rounding::rp && number.significand != u64{1} << 63;
    return static_cast<u64>(std::clamp(number.exponent + 127 + (up ? 1 : 0), 0, 0xfe));
}
constexpr auto scales_from_singles = [](Modifiers m, u32 a, u32 b) -> u16 {
    const auto element = [m](u32 x) { return pack_scale(unpack_float(x, f32_shape), m.rounding()); };
    return static_cast<u16>((element(a) << 8) | element(b));
};
constexpr auto scales_from_bf16x2 = [](Modifiers m, u32 a) -> u16 {
    const auto element = [m](u32 x) { return pack_scale(unpack_float(x & 0xffff, bf16_shape), m.rounding()); };
    return static_cast<u16>((element(a >> 16) << 8) | element(a));
};
constexpr auto bf16x2_from_scales = [](u16 a) -> u32 {
    const auto element = [](u32 scale) -> u32 { return scale == 0xff ? 0x7fff : (scale == 0 ? 0x0040 : scale << 7); };
    return (element(a >> 8) << 16) | element(a & 0xff);
};

template <Text name, const FloatShape& Shape, class Word, unsigned Step>
constexpr std::array narrow_ops{
    op<from_singles<Word, Shape, Step>>(joined<"cvt.", name, ".f32">),
    op<elementwise<Word, Shape, Step, u32, f16_shape, 16>>(joined<"cvt.", name, ".f16x2">),
    op<elementwise<Word, Shape, Step, u32, bf16_shape, 16>>(joined<"cvt.", name, ".bf16x2">),
    op<elementwise<u32, f16_shape, 16, Word, Shape, Step>>(joined<"cvt.f16x2.", name>),
    op<elementwise<u32, bf16_shape, 16, Word, Shape, Step>>(joined<"cvt.bf16x2.", name>),
};

// cvt.pack: a and b saturated to `Bits` bits, a above b; below 16 bits c is shifted in above both.
template <unsigned Bits, bool Signed>
constexpr u32 saturated(s32 value) {
    constexpr s32 low = Signed ? -(1 << (Bits - 1)) : 0;
    constexpr s32 high = Signed ? (1 << (Bits - 1)) - 1 : (1 << Bits) - 1;
    return static_cast<u32>(std::clamp(value, low, high)) & ((1u << Bits) - 1);
}
template <unsigned Bits, bool Signed>
constexpr auto pack_pair = [](s32 a, s32 b) -> u32 { return (saturated<Bits, Signed>(a) << Bits) | saturated<Bits, Signed>(b); };
template <unsigned Bits, bool Signed>
constexpr auto pack_onto = [](s32 a, s32 b, u32 c) -> u32 { return (c << (2 * Bits)) | pack_pair<Bits, Signed>(a, b); };

constexpr std::array table_of_pairs{
    row<lane_function<f16x2_fast>, lane_function<from_singles<u32, f16_shape, 16>>>("cvt.f16x2.f32"),
    row<lane_function<bf16x2_fast>, lane_function<from_singles<u32, bf16_shape, 16>>>("cvt.bf16x2.f32"),
    op<scales_from_singles>("cvt.ue8m0x2.f32"),
    op<scales_from_bf16x2>("cvt.ue8m0x2.bf16x2"),
    op<bf16x2_from_scales>("cvt.bf16x2.ue8m0x2"),
    op<pack_pair<16, true>>("cvt.pack.s16.s32"),
    op<pack_pair<16, false>>("cvt.pack.u16.s32"),
    op<pack_onto<8, true>>("cvt.pack.s8.s32.b32"),
    op<pack_onto<8, false>>("cvt.pack.u8.s32.b32"),
    op<pack_onto<4, true>>("cvt.pack.s4.s32.b32"),
    op<pack_onto<4, false>>("cvt.pack.u4.s32.b32"),
    op<pack_onto<2, true>>("cvt.pack.s2.s32.b32"),
    op<pack_onto<2, false>>("cvt.pack.u2.s32.b32"),
};

constexpr auto table =
    concatenate(table_of_pairs, narrow_ops<"e4m3x2", e4m3_shape, u16, 8>, narrow_ops<"e5m2x2", e5m2_shape, u16, 8>,
                narrow_ops<"e2m3x2", e2m3_shape, u16, 8>, narrow_ops<"e3m2x2", e3m2_shape, u16, 8>, narrow_ops<"e2m1x2", e2m1_shape, u16, 4>);

}  // namespace

std::span<const LaneOp> packed_convert_ops() { return table; }

}  // namespace wmmadiag
