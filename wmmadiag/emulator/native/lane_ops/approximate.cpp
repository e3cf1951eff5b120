// The .approx and .full instructions (PTX ISA 9.7.3, 9.7.4): operand flushing and result formats around approximations.hpp.
#include "approximations.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

// f32 -> f32. The value function takes the f32 operand (widened where it wants f64).
template <auto f>
constexpr auto single = [](Modifiers m, float a) -> float {
    return canonical(flush_if(m.ftz(), static_cast<float>(f(flush_if(m.ftz(), a)))));
};
// The same for the half formats.
template <class Format, auto f>
constexpr auto half = [](Modifiers m, u16 a) -> u16 {
    const u16 r = narrow_once<Format>(f(widen<Format>(m.ftz() ? flush_bits<Format>(a) : a)));
    return m.ftz() ? flush_bits<Format>(r) : r;
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
// the PTX ISA says.
constexpr auto div_approx = [](Modifiers m, float a, float b) -> float {
    const float r = flush(static_cast<float>(rcp_value(flush_if(m.ftz(), b))));
    return canonical(flush_if(m.ftz(), flush_if(m.ftz(), a) * r));
};
// Full range: the quotient rounded once (the ISA allows 2 ulp).
constexpr auto div_full = [](Modifiers m, float a, float b) -> float {
    return canonical(flush_if(m.ftz(), flush_if(m.ftz(), a) / flush_if(m.ftz(), b)));
};

// rcp and rsqrt .approx.ftz.f64 look at the operand's upper half only and give the upper half of the result; subnormals are flushed.
template <auto f>
constexpr auto upper_half = [](u64 a) -> u64 {
    constexpr u64 upper = 0xffffffff00000000;
    const u64 x = flush_bits<F64>(a & upper);
    const double value = settle(f(std::bit_cast<double>(x)), std::bit_cast<double>(x));
    const u64 bits = std::bit_cast<u64>(value);
    const u64 rounded = is_nan<F64>(bits) ? bits : bits + 0x7fffffff + ((bits >> 32) & 1);
    return flush_bits<F64>(rounded & upper);
};
constexpr auto rsqrt64 = [](double a) -> double { return settle(rsqrt_value(a), a); };

constexpr std::array table{
    op<single<ex2>>("ex2.approx.f32"),
    op<half<F16, ex2>>("ex2.approx.f16"), op<half<F16, ex2>, 2>("ex2.approx.f16x2"),
    op<half<BF16, ex2>>("ex2.approx.bf16"), op<half<BF16, ex2>, 2>("ex2.approx.bf16x2"),
    op<single<lg2>>("lg2.approx.f32"), op<single<sine>>("sin.approx.f32"), op<single<cosine>>("cos.approx.f32"),
    op<single<hyperbolic>>("tanh.approx.f32"),
    op<half<F16, hyperbolic>>("tanh.approx.f16"), op<half<F16, hyperbolic>, 2>("tanh.approx.f16x2"),
    op<half<BF16, hyperbolic>>("tanh.approx.bf16"), op<half<BF16, hyperbolic>, 2>("tanh.approx.bf16x2"),
    op<single<reciprocal>>("rcp.approx.f32"), op<upper_half<reciprocal>>("rcp.approx.f64"),
    op<single<root>>("sqrt.approx.f32"), op<single<reciprocal_root>>("rsqrt.approx.f32"),
    row<lane_function<rsqrt64>, lane_function<upper_half<reciprocal_root>>>("rsqrt.approx.f64"),
    op<div_approx>("div.approx.f32"), op<div_full>("div.full.f32"),
};

}  // namespace

std::span<const LaneOp> approximate_ops() { return table; }

}  // namespace wmmadiag
