// The .approx and .full instructions (PTX ISA 9.7.3, 9.7.4): operand flushing and result formats around approximations.hpp.
#include "approximations.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

// f32 -> f32. The value function takes the f32 operand (widened where it wants f64).
template <auto f>
constexpr auto single = [](Modifiers m, float a) -> float { return canonical(narrow_f32(m.ftz(), f(flush_if(m.ftz(), a)))); };
// The same for the half formats.
template <class Format, auto f>
constexpr auto half = [](Modifiers m, u16 a) -> u16 {
    const u16 r = narrow_once<Format>(f(widen<Format>(pick(m.ftz(), flush_bits<Format>(a), a))));
    return pick(m.ftz(), flush_bits<Format>(r), r);
};

constexpr auto ex2 = [](double x) { return exp2_value(x); };
constexpr auto lg2 = [](double x) { return log2_value(x); };
constexpr auto sine = [](float x) { return sine_value(x); };
constexpr auto cosine = [](float x) { return cosine_value(x); };
constexpr auto hyperbolic = [](double x) { return tanh_value(x); };
constexpr auto reciprocal = [](double x) { return rcp_value(x); };
constexpr auto root = [](double x) { return sqrt_value(x); };
constexpr auto reciprocal_root = [](double x) { return rsqrt_value(x); };

// a times the rounded reciprocal of b. Where |b| > 2^126 the reciprocal is subnormal and counts as zero, so that Inf / b is NaN there, as
// the PTX ISA says. A subnormal b is scaled, together with a (recorded on sm_90).
constexpr auto div_approx = [](Modifiers m, float a, float b) -> float {
    const float x = flush_if(m.ftz(), a), y = flush_if(m.ftz(), b);
    const float scale = (bits_of(y) & F32::infinity) == 0 ? up_24 : 1.0f;
    const float r = flush(static_cast<float>(rcp_value(y * scale)));
    return canonical(narrow_f32(m.ftz(), double{x * scale} * r));
};
// Full range: the same with both operands scaled so that no reciprocal is subnormal.
constexpr auto div_full = [](Modifiers m, float a, float b) -> float {
    const float x = flush_if(m.ftz(), a), y = flush_if(m.ftz(), b);
    const u32 magnitude = bits_of(y) & F32::magnitude;
    const float large = magnitude > std::bit_cast<u32>(0x1p126f) ? 0x1p-2f : 1.0f;
    const float scale = (bits_of(y) & F32::infinity) == 0 ? up_24 : large;
    const float r = static_cast<float>(rcp_value(y * scale));
    return canonical(narrow_f32(m.ftz(), double{x * scale} * r));
};

// rcp and rsqrt .approx.ftz.f64 look at the operand's upper half only and give the upper half of the result, truncated, with a NaN of
// their own; subnormals are flushed.
template <auto f>
constexpr auto upper_half = [](u64 a) -> u64 {
    constexpr u64 upper = 0xffffffff00000000;
    constexpr u64 nan = 0x7fffffff00000000;
    const u64 bits = std::bit_cast<u64>(f(std::bit_cast<double>(flush_bits<F64>(a & upper))));
    return is_nan<F64>(bits) ? nan : flush_bits<F64>(bits & upper);
};
constexpr auto rsqrt64 = [](double a) -> double { return settle(rsqrt_exact(a), a); };

constexpr std::array table{
    op<single<ex2>>("ex2.approx.f32"),
    op<half<F16, ex2>>("ex2.approx.f16"),
    op<half<F16, ex2>, 2>("ex2.approx.f16x2"),
    op<half<BF16, ex2>>("ex2.approx.bf16"),
    op<half<BF16, ex2>, 2>("ex2.approx.bf16x2"),
    op<single<lg2>>("lg2.approx.f32"),
    op<single<sine>>("sin.approx.f32"),
    op<single<cosine>>("cos.approx.f32"),
    op<single<hyperbolic>>("tanh.approx.f32"),
    op<half<F16, hyperbolic>>("tanh.approx.f16"),
    op<half<F16, hyperbolic>, 2>("tanh.approx.f16x2"),
    op<half<BF16, hyperbolic>>("tanh.approx.bf16"),
    op<half<BF16, hyperbolic>, 2>("tanh.approx.bf16x2"),
    op<single<reciprocal>>("rcp.approx.f32"),
    op<upper_half<reciprocal>>("rcp.approx.f64"),
    op<single<root>>("sqrt.approx.f32"),
    op<single<reciprocal_root>>("rsqrt.approx.f32"),
    row<lane_function<rsqrt64>, lane_function<upper_half<reciprocal_root>>>("rsqrt.approx.f64"),
    op<div_approx>("div.approx.f32"),
    op<div_full>("div.full.f32"),
};

}  // namespace

std::span<const LaneOp> approximate_ops() { return table; }

}  // namespace wmmadiag
