// Operations on floats that do not round: abs, neg, copysign, testp, min, max (PTX ISA 9.7.3 to 9.7.5).
//
// They work on the bits, alike for all formats. As sign-magnitude integers turned into two's complement, the values of a format are
// in numeric order with -0 below +0, which is the order that min and max want.
#include "formats.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class Format>
using Bits = typename Format::Bits;

template <class Format>
[[gnu::always_inline]] inline Bits<Format> before(Modifiers m, Bits<Format> x) {
    return pick(m.ftz(), flush_bits<Format>(x), x);
}

// NaN of a result: canonical, in f64 the operand's own made quiet, sign included (recorded on sm_90).
template <class Format>
[[gnu::always_inline]] inline Bits<Format> nan_result(Bits<Format> operand) {
    constexpr Bits<Format> quiet_bit = Bits<Format>{1} << (Format::mantissa - 1);
    return sizeof(Bits<Format>) == 8 ? operand | quiet_bit : Format::nan;
}

template <class Format>
constexpr auto abs = [](Modifiers m, Bits<Format> a) -> Bits<Format> {
    const Bits<Format> x = before<Format>(m, a);
    return pick<Bits<Format>>(is_nan<Format>(x), nan_result<Format>(x), x & Format::magnitude);
};
template <class Format>
constexpr auto neg = [](Modifiers m, Bits<Format> a) -> Bits<Format> {
    const Bits<Format> x = before<Format>(m, a);
    return pick<Bits<Format>>(is_nan<Format>(x), nan_result<Format>(x), x ^ Format::sign);
};
template <class Format>
constexpr auto copysign = [](Bits<Format> a, Bits<Format> b) -> Bits<Format> { return (a & Format::sign) | (b & Format::magnitude); };

template <class Format>
[[gnu::always_inline]] inline std::make_signed_t<Bits<Format>> order(Bits<Format> x) {
    using S = std::make_signed_t<Bits<Format>>;
    const S bits = static_cast<S>(x);
    return static_cast<S>(bits ^ ((bits >> (8 * sizeof(S) - 1)) & static_cast<S>(Format::magnitude)));
}

// One operand NaN: the other one, or with .NaN a NaN. Both NaN: a NaN.
template <class Format, bool Max>
[[gnu::always_inline]] inline Bits<Format> extreme(bool propagate, Bits<Format> a, Bits<Format> b) {
    const bool nan_a = is_nan<Format>(a), nan_b = is_nan<Format>(b);
    const bool first = Max ? order<Format>(a) > order<Format>(b) : order<Format>(a) < order<Format>(b);
    const Bits<Format> number = pick(nan_b | (first & !nan_a), a, b);
    const bool nan = (nan_a & nan_b) | (propagate & (nan_a | nan_b));
    return pick(nan, nan_result<Format>(pick(nan_b, b, a)), number);
}

// .xorsign.abs: the extreme of the magnitudes, with the product's sign; a NaN result stays canonical.
template <class Format>
[[gnu::always_inline]] inline Bits<Format> magnitude_if(Modifiers m, Bits<Format> x) {
    return pick<Bits<Format>>(m.abs(), x & Format::magnitude, x);
}
template <class Format>
[[gnu::always_inline]] inline Bits<Format> sign_if(Modifiers m, Bits<Format> r, Bits<Format> signs) {
    return pick<Bits<Format>>(m.xorsign() & !is_nan<Format>(r), (r & Format::magnitude) | (signs & Format::sign), r);
}

template <class Format, bool Max>
constexpr auto plain2 = [](Bits<Format> a, Bits<Format> b) -> Bits<Format> { return extreme<Format, Max>(false, a, b); };
template <class Format, bool Max>
constexpr auto extreme2 = [](Modifiers m, Bits<Format> a, Bits<Format> b) -> Bits<Format> {
    const Bits<Format> x = magnitude_if<Format>(m, before<Format>(m, a));
    const Bits<Format> y = magnitude_if<Format>(m, before<Format>(m, b));
    return sign_if<Format>(m, extreme<Format, Max>(m.nan(), x, y), a ^ b);
};
template <bool Max>
constexpr auto extreme3 = [](Modifiers m, u32 a, u32 b, u32 c) -> u32 {
    const u32 x = magnitude_if<F32>(m, before<F32>(m, a));
    const u32 y = magnitude_if<F32>(m, before<F32>(m, b));
    const u32 z = magnitude_if<F32>(m, before<F32>(m, c));
    return sign_if<F32>(m, extreme<F32, Max>(m.nan(), extreme<F32, Max>(m.nan(), x, y), z), a ^ b ^ c);
};

// Two sources; f32 also three.
template <LaneFunction two, bool Max>
void two_or_three(const LaneArgs& args) {
    (args.s[2] == nullptr ? two : lane_function<extreme3<Max>>)(args);
}

template <class Format, bool Max, unsigned Pack = 1>
constexpr LaneOp extreme_op(std::string_view name) {
    constexpr LaneFunction plain = lane_function<plain2<Format, Max>, Pack>;
    constexpr LaneFunction general = lane_function<extreme2<Format, Max>, Pack>;
    if constexpr (std::is_same_v<Format, F32>) return row<&two_or_three<plain, Max>, &two_or_three<general, Max>>(name);
    return row<plain, general>(name);
}

enum class Test : unsigned { finite, infinite, number, notanumber, normal, subnormal };

// testp writes a predicate.
template <class Format>
void testp(const LaneArgs& args) {
    const Test test = static_cast<Test>(args.modifiers.mode());
    Mask result = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        const Bits<Format> x = load<Bits<Format>>(args.s[0], l) & Format::magnitude;
        const Bits<Format> exponent = x & Format::infinity;
        const bool finite = exponent != Format::infinity;
        const bool yes = test == Test::finite       ? finite
                         : test == Test::infinite   ? x == Format::infinity
                         : test == Test::number     ? x <= Format::infinity
                         : test == Test::notanumber ? x > Format::infinity
                         : test == Test::normal     ? finite && (exponent != 0 || x == 0)  // zeros count as normal
                                                    : exponent == 0 && x != 0;
        result |= yes ? lane_bit[l] : 0u;
    }
    write_mask(args.d, args.active, result);
}

constexpr std::array table{
    op<abs<F32>>("abs.f32"),
    op<abs<F64>>("abs.f64"),
    op<abs<F16>>("abs.f16"),
    op<abs<BF16>>("abs.bf16"),
    op<abs<F16>, 2>("abs.f16x2"),
    op<abs<BF16>, 2>("abs.bf16x2"),
    op<neg<F32>>("neg.f32"),
    op<neg<F64>>("neg.f64"),
    op<neg<F16>>("neg.f16"),
    op<neg<BF16>>("neg.bf16"),
    op<neg<F16>, 2>("neg.f16x2"),
    op<neg<BF16>, 2>("neg.bf16x2"),
    op<copysign<F32>>("copysign.f32"),
    op<copysign<F64>>("copysign.f64"),
    extreme_op<F32, false>("min.f32"),
    extreme_op<F64, false>("min.f64"),
    extreme_op<F16, false>("min.f16"),
    extreme_op<F16, false, 2>("min.f16x2"),
    extreme_op<BF16, false>("min.bf16"),
    extreme_op<BF16, false, 2>("min.bf16x2"),
    extreme_op<F32, true>("max.f32"),
    extreme_op<F64, true>("max.f64"),
    extreme_op<F16, true>("max.f16"),
    extreme_op<F16, true, 2>("max.f16x2"),
    extreme_op<BF16, true>("max.bf16"),
    extreme_op<BF16, true, 2>("max.bf16x2"),
    row<&testp<F32>>("testp.f32"),
    row<&testp<F64>>("testp.f64"),
};

}  // namespace

std::span<const LaneOp> float_bit_ops() { return table; }

}  // namespace wmmadiag
