// The .approx and .full instructions (PTX ISA 9.7.3, 9.7.4) as what ptxas makes of them: one operation of the special-function unit
// (approximations.hpp), which flushes subnormals, and around it, where .ftz is not asked for, a scaling that keeps them.
#include "approximations.hpp"
#include "exponential_vector.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

[[gnu::always_inline]] inline bool is_subnormal(float a) { return (bits_of(a) & F32::infinity) == 0; }  // or zero
// up_24 for a subnormal, which then is none.
[[gnu::always_inline]] inline float lift(float a) { return pick(is_subnormal(a), up_24, 1.0f); }
// The same, and 1/4 above 2^126, where the reciprocal is subnormal.
[[gnu::always_inline]] inline float center(float a) {
    const bool large = (bits_of(a) & F32::magnitude) > std::bit_cast<u32>(0x1p126f);
    return pick(is_subnormal(a), up_24, pick(large, 0.25f, 1.0f));
}

constexpr auto ex2_ftz = [](float a) -> float { return ex2_unit(a); };
constexpr auto ex2 = [](float a) -> float {
    const bool low = (bits_of(a) > std::bit_cast<u32>(-126.0f)) & (bits_of(a) <= (F32::sign | F32::infinity));
    const float r = ex2_unit(pick(low, a * 0.5f, a));
    return pick(low, r * r, r);
};
constexpr auto lg2_ftz = [](float a) -> float { return lg2_unit(a); };
constexpr auto lg2 = [](float a) -> float { return canonical(lg2_unit(a * lift(a)) - pick(is_subnormal(a), 24.0f, 0.0f)); };
constexpr auto rcp_ftz = [](float a) -> float { return rcp_unit(a); };
constexpr auto rcp = [](float a) -> float { return canonical(rcp_unit(a * center(a)) * center(a)); };
constexpr auto root_ftz = [](float a) -> float { return sqrt_unit(a); };
constexpr auto root = [](float a) -> float { return canonical(sqrt_unit(a * lift(a)) * pick(is_subnormal(a), 0x1p-12f, 1.0f)); };
constexpr auto rsqrt_ftz = [](float a) -> float { return rsqrt_unit(a); };
constexpr auto rsqrt = [](float a) -> float { return canonical(rsqrt_unit(a * lift(a)) * pick(is_subnormal(a), 0x1p12f, 1.0f)); };
// With or without .ftz: a product that is subnormal is no turn at all.
constexpr auto sine = [](float a) -> float { return sine_unit(turns(a), 0); };
constexpr auto cosine = [](float a) -> float { return sine_unit(turns(a), 1); };
constexpr auto hyperbolic = [](float a) -> float { return tanh_unit(a); };  // keeps subnormals

// The half formats: the same function, its result truncated. What is too large becomes Inf.
template <class Format>
[[gnu::always_inline]] inline u16 truncate_half(float r) {
    const u32 bits = bits_of(r), magnitude = bits & F32::magnitude;
    if constexpr (Format::mantissa == BF16::mantissa) return static_cast<u16>(bits >> 16);
    const u32 subnormal = static_cast<u32>(static_cast<s32>(float_of(pick(magnitude < 0x38800000, magnitude, 0u)) * 0x1p24f));
    const u32 finite = pick(magnitude < 0x38800000, subnormal, (magnitude - 0x38000000) >> 13);
    const u32 large = pick(magnitude > F32::infinity, u32{F16::nan}, u32{F16::infinity});
    return static_cast<u16>(pick(magnitude < 0x47800000, finite, large) | pick(magnitude > F32::infinity, 0u, (bits >> 16) & F16::sign));
}
template <class Format, auto f>
constexpr auto half = [](u16 a) -> u16 { return truncate_half<Format>(f(widen<Format>(a))); };

// a times the unit's reciprocal of b. Where |b| > 2^126 the reciprocal is flushed, so that Inf / b is NaN there, as the PTX ISA says.
constexpr auto div_approx = [](Modifiers m, float a, float b) -> float {
    const float scale = pick(m.ftz(), 1.0f, lift(b));
    const float x = flush_if(m.ftz(), a);
    return canonical(narrow_f32(m.ftz(), double{x * scale} * rcp_unit(b * scale)));
};
// Full range: the same with both operands scaled so that no reciprocal is subnormal.
constexpr auto div_full = [](Modifiers m, float a, float b) -> float {
    const float x = flush_if(m.ftz(), a), y = flush_if(m.ftz(), b);
    const float scale = center(y);
    return canonical(narrow_f32(m.ftz(), double{flush_if(m.ftz(), x * scale)} * rcp_unit(y * scale)));
};

// The unit's f64 operations (RCP64H, RSQ64H) take an f64's upper half and give one: 20 bits of fraction, the f32 function's truncated.
// The lower half of the result is zero. Subnormals are flushed.
constexpr u64 upper = 0xffffffff00000000, upper_nan = 0x7fffffff00000000;
[[gnu::always_inline]] inline u64 upper_fraction(u64 a) { return (a >> 32) & 0xfffff; }
[[gnu::always_inline]] inline s64 exponent_f64(u64 a) { return static_cast<s64>((a >> 52) & 0x7ff); }

constexpr auto rcp64_ftz = [](u64 a) -> u64 {
    const u32 f = static_cast<u32>(upper_fraction(a)) << 3;
    const s64 e = exponent_f64(a);
    const u64 twice = bits_of(interpolate(rcp_table, f >> 16, (f & 0xffff) << 1)) & upper;
    const s64 r = static_cast<s64>(twice) + (1022 - e) * (s64{1} << 52);
    const u64 finite = pick(r < (s64{1} << 52), u64{0}, static_cast<u64>(r));
    const u64 magnitude = pick(e == 0, F64::infinity, pick(e == 0x7ff, u64{0}, finite)) | (a & F64::sign);
    return pick((e == 0x7ff) & (f != 0), upper_nan, magnitude);
};
constexpr auto rsqrt64_ftz = [](u64 a) -> u64 {
    const u32 f = static_cast<u32>(upper_fraction(a)) << 3;
    const s64 e = exponent_f64(a);
    const Halved h = halve_exponent(static_cast<u32>(e), f);
    const double value = pick((f | (~e & 1)) == 0, 2.0, interpolate(rsqrt_table, h.segment, h.x));
    const u64 finite = (bits_of(value) & upper) + static_cast<u64>((511 - ((e + 1) >> 1)) * (s64{1} << 52));
    const u64 positive = pick(e == 0x7ff, pick(f == 0, u64{0}, upper_nan), finite);
    return pick(e == 0, (a & F64::sign) | F64::infinity, pick((a & F64::sign) != 0, upper_nan, positive));
};
// Without .ftz one step of third order follows; subnormals are scaled, other special operands kept out.
constexpr auto rsqrt64 = [](double a) -> double {
    const u64 magnitude = bits_of(a) & F64::magnitude;
    const bool tiny = magnitude < (u64{1} << 52);
    const double x = a * pick(tiny, 0x1p54, 1.0);
    const double y = float_of(rsqrt64_ftz(bits_of(x)));
    const double residual = __builtin_fma(-(y * y), x, 1.0);
    const double step = __builtin_fma(residual, 0.375, 0.5);
    const double better = __builtin_fma(step, y * residual, y) * pick(tiny, 0x1p27, 1.0);
    const double infinity = float_of((bits_of(a) & F64::sign) | F64::infinity);
    const double positive = pick(magnitude == F64::infinity, 0.0, better);
    const double number = pick((bits_of(a) & F64::sign) != 0, float_of(F64::nan), positive);
    return settle(pick(magnitude == 0, infinity, number), a);
};

// One function with .ftz, another without.
template <auto kept, auto flushed>
constexpr LaneOp either(std::string_view name) {
    return {name, [](Modifiers m) -> LaneFunction { return m.ftz() ? lane_function<flushed> : lane_function<kept>; }};
}

#if defined(WMMADIAG_VECTOR_EX2)
constexpr LaneOp ex2_f32{"ex2.approx.f32", [](Modifiers m) -> LaneFunction { return m.ftz() ? ex2_lanes<true> : ex2_lanes<false>; }};
#else
constexpr LaneOp ex2_f32 = either<ex2, ex2_ftz>("ex2.approx.f32");
#endif

constexpr std::array table{
    ex2_f32,
    op<half<F16, ex2_ftz>>("ex2.approx.f16"),
    op<half<F16, ex2_ftz>, 2>("ex2.approx.f16x2"),
    op<half<BF16, ex2_ftz>>("ex2.approx.bf16"),
    op<half<BF16, ex2_ftz>, 2>("ex2.approx.bf16x2"),
    either<lg2, lg2_ftz>("lg2.approx.f32"),
    op<sine>("sin.approx.f32"),
    op<cosine>("cos.approx.f32"),
    op<hyperbolic>("tanh.approx.f32"),
    op<half<F16, hyperbolic>>("tanh.approx.f16"),
    op<half<F16, hyperbolic>, 2>("tanh.approx.f16x2"),
    op<half<BF16, hyperbolic>>("tanh.approx.bf16"),
    op<half<BF16, hyperbolic>, 2>("tanh.approx.bf16x2"),
    either<rcp, rcp_ftz>("rcp.approx.f32"),
    op<rcp64_ftz>("rcp.approx.f64"),
    either<root, root_ftz>("sqrt.approx.f32"),
    either<rsqrt, rsqrt_ftz>("rsqrt.approx.f32"),
    either<rsqrt64, rsqrt64_ftz>("rsqrt.approx.f64"),
    op<div_approx>("div.approx.f32"),
    op<div_full>("div.full.f32"),
};

}  // namespace

std::span<const LaneOp> approximate_ops() { return table; }

}  // namespace wmmadiag
