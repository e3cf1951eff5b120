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

// ---- f32. `scaled` is the same operation with a result 2^24 larger (see flush_tiny). A sum below 2^-126 is exact, so that its
// result can be scaled; a root is never tiny.

constexpr auto same = [](auto f, auto... operands) -> float { return f(operands...) * up_24; };
constexpr auto larger = [](auto f, float a, auto... operands) -> float { return f(a * up_24, operands...); };
constexpr auto smaller = [](auto f, float a) -> float { return f(a * (1 / up_24)); };

[[gnu::always_inline]] inline float after(Modifiers m, float r, float scaled) {
    const float flushed = flush_tiny(m.ftz(), r, scaled);
    return pick(m.sat(), saturate(flushed), canonical(flushed));
}

template <auto f>
constexpr auto plain32_1 = [](float a) -> float { return canonical(f(a)); };
template <auto f, auto scaled>
constexpr auto general32_1 = [](Modifiers m, float a) -> float {
    const float x = flush_if(m.ftz(), a);
    return after(m, f(x), scaled(f, x));
};
template <auto f>
constexpr auto plain32_2 = [](float a, float b) -> float { return canonical(f(a, b)); };
template <auto f, auto scaled>
constexpr auto general32_2 = [](Modifiers m, float a, float b) -> float {
    const float x = flush_if(m.ftz(), a), y = flush_if(m.ftz(), b);
    return after(m, f(x, y), scaled(f, x, y));
};

template <auto f, auto scaled>
constexpr LaneOp unary32(std::string_view name) {
    return row<lane_function<plain32_1<f>>, &rounded<lane_function<general32_1<f, scaled>>>>(name);
}
template <auto f, auto scaled, unsigned Pack = 1>
constexpr LaneOp binary32(std::string_view name) {
    return row<lane_function<plain32_2<f>, Pack>, &rounded<lane_function<general32_2<f, scaled>, Pack>>>(name);
}

// ---- f64: rounding only.

template <auto f>
constexpr auto settled_1 = [](double a) -> double { return settle(f(a), a); };
template <auto f>
constexpr auto settled_2 = [](double a, double b) -> double { return settle(f(a, b), a, b); };
constexpr auto div64 = [](double a, double b) -> double { return settle(a / b, b, a); };  // here a's NaN comes first

template <auto f>
constexpr LaneOp op64(std::string_view name) {
    return row<lane_function<f>, &rounded<lane_function<f>>>(name);
}

// ---- fma.

#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)

constexpr auto fma32 = [](float a, float b, float c) -> float { return canonical(__builtin_fmaf(a, b, c)); };
constexpr auto fma32_general = [](Modifiers m, float a, float b, float c) -> float {
    const float x = flush_if(m.ftz(), a), y = flush_if(m.ftz(), b), z = flush_if(m.ftz(), c);
    return after(m, __builtin_fmaf(x, y, z), __builtin_fmaf(x * up_24, y, z * up_24));
};
template <unsigned Pack>
constexpr LaneFunction fma32_plain = lane_function<fma32, Pack>;
template <unsigned Pack>
constexpr LaneFunction fma32_directed = &rounded<fma32_plain<Pack>>;
template <unsigned Pack>
constexpr LaneFunction fma32_full = &rounded<lane_function<fma32_general, Pack>>;

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
        const auto operand = [&](unsigned i) { return double{flush_if(m.ftz(), load<float>(local.s[i], e))}; };
        const double product = operand(0) * operand(1), addend = operand(2);
        const double sum = add_to_odd(product, addend);
        const u64 either = (bits_of(product) | bits_of(addend)) & F64::sign;  // the sign of an exact zero toward -Inf
        const bool zero = (bits_of(sum) & F64::magnitude) == 0;
        sums[e] = pick((m.rounding() == Rounding::rm) & zero, float_of(either), sum);
    }
    const RoundingScope scope(m.rounding());
#pragma GCC ivdep
    for (std::size_t e = 0; e < count; ++e) {
        const float r = static_cast<float>(sums[e]), scaled = static_cast<float>(sums[e] * up_24);
        store<float>(local.d, e, after(m, r, scaled));
    }
}
template <unsigned Pack>
constexpr LaneFunction fma32_plain = &fma32_rounded<Pack>;
template <unsigned Pack>
constexpr LaneFunction fma32_directed = &fma32_rounded<Pack>;
template <unsigned Pack>
constexpr LaneFunction fma32_full = &fma32_rounded<Pack>;

#endif

// expf is a chain of fma.rm: directed rounding alone has its own function.
template <unsigned Pack>
constexpr LaneOp fma32_op(std::string_view name) {
    return {name, [](Modifiers m) -> LaneFunction {
                if (m.word == 0) return fma32_plain<Pack>;
                return m.ftz() || m.sat() ? fma32_full<Pack> : fma32_directed<Pack>;
            }};
}

// The NaN kept is b's, then c's, then a's.
constexpr auto fma64 = [](double a, double b, double c) -> double { return settle(__builtin_fma(a, b, c), a, c, b); };

constexpr std::array table{
    binary32<add<float>, same>("add.f32"),
    binary32<add<float>, same, 2>("add.f32x2"),
    op64<settled_2<add<double>>>("add.f64"),
    binary32<sub<float>, same>("sub.f32"),
    binary32<sub<float>, same, 2>("sub.f32x2"),
    op64<settled_2<sub<double>>>("sub.f64"),
    binary32<mul<float>, larger>("mul.f32"),
    binary32<mul<float>, larger, 2>("mul.f32x2"),
    op64<settled_2<mul<double>>>("mul.f64"),
    fma32_op<1>("fma.f32"),
    fma32_op<2>("fma.f32x2"),
    op64<fma64>("fma.f64"),
    binary32<div<float>, larger>("div.f32"),
    op64<div64>("div.f64"),
    unary32<rcp<float>, smaller>("rcp.f32"),
    op64<settled_1<rcp<double>>>("rcp.f64"),
    unary32<sqrt32, same>("sqrt.f32"),
    op64<settled_1<sqrt64>>("sqrt.f64"),
};

}  // namespace

std::span<const LaneOp> float_ops() { return table; }

}  // namespace wmmadiag
