// f32 and f64 arithmetic with IEEE rounding (PTX ISA 9.7.3).
//
// Each operation has a plain row function (nearest even, no .ftz, no .sat) and a general one, which runs under the instruction's
// rounding mode. .ftz flushes operands and results; .sat clamps to [0, 1].
#include <cmath>

#include "formats.hpp"
#include "rounding.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class T>
constexpr auto add = [](T a, T b) -> T { return a + b; };
template <class T>
constexpr auto sub = [](T a, T b) -> T { return a - b; };
template <class T>
constexpr auto mul = [](T a, T b) -> T { return a * b; };
template <class T>
constexpr auto div = [](T a, T b) -> T { return a / b; };
template <class T>
constexpr auto rcp = [](T a) -> T { return T{1} / a; };
constexpr auto sqrt32 = [](float a) -> float { return __builtin_sqrtf(a); };
constexpr auto sqrt64 = [](double a) -> double { return __builtin_sqrt(a); };

[[gnu::always_inline]] inline float before(Modifiers m, float x) { return flush_if(m.ftz(), x); }
[[gnu::always_inline]] inline double before(Modifiers, double x) { return x; }

template <class... Operands>
[[gnu::always_inline]] inline float after(Modifiers m, float r, Operands...) {
    const float flushed = flush_if(m.ftz(), r);
    return m.sat() ? saturate(flushed) : canonical(flushed);
}
template <class... Operands>
[[gnu::always_inline]] inline double after(Modifiers, double r, Operands... operands) {
    return settle(r, operands...);
}

template <auto f, class T>
constexpr auto plain1 = [](T a) -> T { return settle(f(a), a); };
template <auto f, class T>
constexpr auto general1 = [](Modifiers m, T a) -> T { return after(m, f(before(m, a)), a); };
template <auto f, class T>
constexpr auto plain2 = [](T a, T b) -> T { return settle(f(a, b), a, b); };
template <auto f, class T>
constexpr auto general2 = [](Modifiers m, T a, T b) -> T { return after(m, f(before(m, a), before(m, b)), a, b); };

template <auto f, class T, unsigned Pack = 1>
constexpr LaneOp unary(std::string_view name) {
    return row<lane_function<plain1<f, T>, Pack>, &rounded<lane_function<general1<f, T>, Pack>>>(name);
}
template <auto f, class T, unsigned Pack = 1>
constexpr LaneOp binary(std::string_view name) {
    return row<lane_function<plain2<f, T>, Pack>, &rounded<lane_function<general2<f, T>, Pack>>>(name);
}

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)

constexpr auto fma32 = [](float a, float b, float c) -> float { return settle(__builtin_fmaf(a, b, c)); };
constexpr auto fma32_general = [](Modifiers m, float a, float b, float c) -> float {
    return after(m, __builtin_fmaf(before(m, a), before(m, b), before(m, c)));
};
template <unsigned Pack>
constexpr LaneFunction fma32_plain = lane_function<fma32, Pack>;
template <unsigned Pack>
constexpr LaneFunction fma32_rounded = &rounded<lane_function<fma32_general, Pack>>;

#else

// No fused multiply-add on this CPU: the product is exact in f64, the sum is rounded to odd, and only the narrowing to f32 rounds, in the
// instruction's mode.
template <unsigned Pack>
void fma32_rounded(const LaneArgs& args) {
    if (args.active != all_lanes) return into_scratch<sizeof(float) * Pack>(args, &fma32_rounded<Pack>);
    constexpr std::size_t count = std::size_t{lanes} * Pack;
    const Modifiers m = args.modifiers;
    const LaneArgs local = args;
    alignas(64) std::array<double, count> sums;
    for (std::size_t e = 0; e < count; ++e) {
        const auto operand = [&](unsigned i) { return double{before(m, load<float>(local.s[i], e))}; };
        sums[e] = add_to_odd(operand(0) * operand(1), operand(2));
    }
    const RoundingScope scope(m.rounding());
#pragma GCC ivdep
    for (std::size_t e = 0; e < count; ++e) store<float>(local.d, e, after(m, static_cast<float>(sums[e])));
}
template <unsigned Pack>
constexpr LaneFunction fma32_plain = &fma32_rounded<Pack>;

#endif

template <unsigned Pack>
constexpr LaneOp fma32_op(std::string_view name) {
    return row<fma32_plain<Pack>, fma32_rounded<Pack>>(name);
}

constexpr auto fma64 = [](double a, double b, double c) -> double { return settle(__builtin_fma(a, b, c), a, b, c); };

constexpr std::array table{
    binary<add<float>, float>("add.f32"), binary<add<double>, double>("add.f64"), binary<add<float>, float, 2>("add.f32x2"),
    binary<sub<float>, float>("sub.f32"), binary<sub<double>, double>("sub.f64"), binary<sub<float>, float, 2>("sub.f32x2"),
    binary<mul<float>, float>("mul.f32"), binary<mul<double>, double>("mul.f64"), binary<mul<float>, float, 2>("mul.f32x2"),
    fma32_op<1>("fma.f32"), fma32_op<2>("fma.f32x2"),
    row<lane_function<fma64>, &rounded<lane_function<fma64>>>("fma.f64"),
    binary<div<float>, float>("div.f32"), binary<div<double>, double>("div.f64"),
    unary<rcp<float>, float>("rcp.f32"), unary<rcp<double>, double>("rcp.f64"),
    unary<sqrt32, float>("sqrt.f32"), unary<sqrt64, double>("sqrt.f64"),
};

}  // namespace

std::span<const LaneOp> float_ops() { return table; }

}  // namespace wmmadiag
