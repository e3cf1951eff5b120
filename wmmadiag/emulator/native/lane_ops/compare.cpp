// setp and set (PTX ISA 9.7.6, 9.7.7).
//
// Every comparison is one of five relations, with the operands swapped or the result inverted where needed:
//   gt(a, b) = lt(b, a);  ge = not lt for integers;  the unordered forms are the inverse of the opposite ordered form.
#include "formats.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

enum class Relation : std::uint8_t { lt, le, eq, ne, num };

struct Plan {
    Relation relation;
    bool swapped;
    bool inverted;
};

constexpr Plan float_plan(Compare compare) {
    switch (compare) {
        case Compare::eq: return {Relation::eq, false, false};
        case Compare::ne: return {Relation::ne, false, false};
        case Compare::lt: return {Relation::lt, false, false};
        case Compare::le: return {Relation::le, false, false};
        case Compare::gt: return {Relation::lt, true, false};
        case Compare::ge: return {Relation::le, true, false};
        case Compare::equ: return {Relation::ne, false, true};
        case Compare::neu: return {Relation::eq, false, true};
        case Compare::ltu: return {Relation::le, true, true};
        case Compare::leu: return {Relation::lt, true, true};
        case Compare::gtu: return {Relation::le, false, true};
        case Compare::geu: return {Relation::lt, false, true};
        case Compare::num: return {Relation::num, false, false};
        default: return {Relation::num, false, true};
    }
}

constexpr Plan integer_plan(Compare compare) {
    switch (compare) {
        case Compare::ne: return {Relation::eq, false, true};
        case Compare::lt: return {Relation::lt, false, false};
        case Compare::le: return {Relation::lt, true, true};
        case Compare::gt: return {Relation::lt, true, false};
        case Compare::ge: return {Relation::lt, false, true};
        default: return {Relation::eq, false, false};
    }
}

// As tables: a lane function looks its plan up at run time.
using Plans = std::array<Plan, 16>;
constexpr Plans plans_of(Plan (*plan)(Compare)) {
    Plans all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = plan(static_cast<Compare>(i));
    return all;
}
constexpr Plans float_plans = plans_of(float_plan), integer_plans = plans_of(integer_plan);
constexpr Plan planned(const Plans& plans, Compare compare) { return plans[static_cast<std::size_t>(compare) & 15]; }

// An operand type: how many values a register holds, and one value of it. f16 and bf16 compare as f32, which is exact.
template <class T>
struct Integer {
    static constexpr unsigned halves = 1;
    static constexpr Plan plan(Compare compare) { return planned(integer_plans, compare); }
    static T read(const void* source, std::size_t element, bool) { return load<T>(source, element); }
};
template <bool Flushes>
struct F32Operand {
    static constexpr unsigned halves = 1;
    static constexpr Plan plan(Compare compare) { return planned(float_plans, compare); }
    static float read(const void* source, std::size_t element, bool ftz) {
        const float x = load<float>(source, element);
        return Flushes ? flush_if(ftz, x) : x;
    }
};
using Single = F32Operand<true>;
struct Double {
    static constexpr unsigned halves = 1;
    static constexpr Plan plan(Compare compare) { return planned(float_plans, compare); }
    static double read(const void* source, std::size_t element, bool) { return load<double>(source, element); }
};
template <class Format, unsigned Halves>
struct HalfPrecision {
    static constexpr unsigned halves = Halves;
    static constexpr Plan plan(Compare compare) { return planned(float_plans, compare); }
    static float read(const void* source, std::size_t element, bool ftz) {
        const u16 bits = load<u16>(source, element);
        return widen<Format>(ftz ? flush_bits<Format>(bits) : bits);
    }
};

template <Relation relation, class T>
[[gnu::always_inline]] inline bool holds(T a, T b) {
    if constexpr (relation == Relation::lt) return a < b;
    if constexpr (relation == Relation::le) return a <= b;
    if constexpr (relation == Relation::eq) return a == b;
    if constexpr (relation == Relation::ne) return a < b || a > b;
    return a == a && b == b;
}

// One bit per lane, for the given half of each register.
template <class Type, Relation relation>
Mask relate(const void* a, const void* b, bool ftz, unsigned half) {
    Mask result = 0;
    for (std::size_t l = 0; l < lanes; ++l) {
        const std::size_t e = l * Type::halves + half;
        result |= holds<relation>(Type::read(a, e, ftz), Type::read(b, e, ftz)) ? lane_bit[l] : 0u;
    }
    return result;
}

using Relate = Mask (*)(const void*, const void*, bool, unsigned);

template <class Type>
constexpr Relate relate_for(Relation relation) {
    constexpr bool integer = Type::plan(Compare::num).relation == Relation::eq;
    if constexpr (!integer) {
        if (relation == Relation::le) return &relate<Type, Relation::le>;
        if (relation == Relation::ne) return &relate<Type, Relation::ne>;
        if (relation == Relation::num) return &relate<Type, Relation::num>;
    }
    return relation == Relation::lt ? &relate<Type, Relation::lt> : &relate<Type, Relation::eq>;
}

constexpr Mask combine(BoolOp op, Mask value, Mask c) {
    switch (op) {
        case BoolOp::and_: return value & c;
        case BoolOp::or_: return value | c;
        case BoolOp::xor_: return value ^ c;
        default: return value;
    }
}

// The comparison of one half of the operands, before .BoolOp.
template <class Type>
Mask compare(const LaneArgs& args, Relate function, Plan plan, unsigned half) {
    const Mask found = function(args.s[plan.swapped ? 1 : 0], args.s[plan.swapped ? 0 : 1], args.modifiers.ftz(), half);
    return plan.inverted ? ~found : found;
}

template <class Type, Relation relation>
void setp(const LaneArgs& args) {
    const Modifiers m = args.modifiers;
    const Plan plan = Type::plan(m.compare());
    constexpr Relate function = relate_for<Type>(relation);
    const Mask c = read_mask(args.s[2], m.neg_c());
    const Mask p = compare<Type>(args, function, plan, 0);
    const Mask q = Type::halves == 2 ? compare<Type>(args, function, plan, 1) : ~p;
    write_mask(args.d, args.active, combine(m.bool_op(), p, c));
    write_mask(args.d2, args.active, combine(m.bool_op(), q, c));
}

template <class Type>
constexpr LaneOp setp_op(std::string_view name) {
    return {name, [](Modifiers m) -> LaneFunction {
                switch (Type::plan(m.compare()).relation) {
                    case Relation::lt: return &setp<Type, Relation::lt>;
                    case Relation::le: return &setp<Type, Relation::le>;
                    case Relation::ne: return &setp<Type, Relation::ne>;
                    case Relation::num: return &setp<Type, Relation::num>;
                    default: return &setp<Type, Relation::eq>;
                }
            }};
}

// set: the word that stands for true, zero for false. A packed destination takes each half's own result; a packed source
// with a 32-bit integer destination likewise gives 0xffff per half.
template <class Word, Word True, class Type>
void set(const LaneArgs& args) {
    if (args.active != all_lanes) return into_scratch<sizeof(Word) * Type::halves>(args, &set<Word, True, Type>);
    const Modifiers m = args.modifiers;
    const Plan plan = Type::plan(m.compare());
    const Relate function = relate_for<Type>(plan.relation);
    const Mask c = read_mask(args.s[2], m.neg_c());
    std::array<Mask, Type::halves> results{};
    for (unsigned h = 0; h < Type::halves; ++h) results[h] = combine(m.bool_op(), compare<Type>(args, function, plan, h), c);
    for (unsigned h = 0; h < Type::halves; ++h)
        for (unsigned l = 0; l < lanes; ++l) store<Word>(args.d, l * Type::halves + h, lane_of(results[h], l) ? True : Word{0});
}

template <Text name, class Type>
constexpr std::array set_ops{
    row<&set<u32, ~0u, Type>>(joined<"set.u32.", name>),         row<&set<u32, ~0u, Type>>(joined<"set.s32.", name>),
    row<&set<u32, 0x3f800000u, Type>>(joined<"set.f32.", name>), row<&set<u16, 0xffff, Type>>(joined<"set.u16.", name>),
    row<&set<u16, 0xffff, Type>>(joined<"set.s16.", name>),      row<&set<u16, 0x3c00, Type>>(joined<"set.f16.", name>),
    row<&set<u16, 0x3f80, Type>>(joined<"set.bf16.", name>),
};

template <Text name, class Type>
constexpr std::array set_packed_ops{
    row<&set<u16, 0xffff, Type>>(joined<"set.u32.", name>),
    row<&set<u16, 0xffff, Type>>(joined<"set.s32.", name>),
    row<&set<u16, 0x3c00, Type>>(joined<"set.f16x2.", name>),
    row<&set<u16, 0x3f80, Type>>(joined<"set.bf16x2.", name>),
};

// The most common one: no flushing where there is no .ftz.
constexpr LaneOp setp_f32{"setp.f32", [](Modifiers m) -> LaneFunction {
                              constexpr LaneOp flushing = setp_op<Single>("setp.f32"), plain = setp_op<F32Operand<false>>("setp.f32");
                              return (m.ftz() ? flushing : plain).select(m);
                          }};

using HalfType = HalfPrecision<F16, 1>;
using PackedHalf = HalfPrecision<F16, 2>;
using BrainType = HalfPrecision<BF16, 1>;
using PackedBrain = HalfPrecision<BF16, 2>;

constexpr std::array setp_ops{
    setp_op<Integer<u16>>("setp.b16"),   setp_op<Integer<u32>>("setp.b32"),
    setp_op<Integer<u64>>("setp.b64"),   setp_op<Integer<u16>>("setp.u16"),
    setp_op<Integer<u32>>("setp.u32"),   setp_op<Integer<u64>>("setp.u64"),
    setp_op<Integer<s16>>("setp.s16"),   setp_op<Integer<s32>>("setp.s32"),
    setp_op<Integer<s64>>("setp.s64"),   setp_f32,
    setp_op<Double>("setp.f64"),         setp_op<HalfType>("setp.f16"),
    setp_op<PackedHalf>("setp.f16x2"),   setp_op<BrainType>("setp.bf16"),
    setp_op<PackedBrain>("setp.bf16x2"),
};

constexpr auto table =
    concatenate(setp_ops, set_ops<"b16", Integer<u16>>, set_ops<"b32", Integer<u32>>, set_ops<"b64", Integer<u64>>, set_ops<"u16", Integer<u16>>,
                set_ops<"u32", Integer<u32>>, set_ops<"u64", Integer<u64>>, set_ops<"s16", Integer<s16>>, set_ops<"s32", Integer<s32>>,
                set_ops<"s64", Integer<s64>>, set_ops<"f32", Single>, set_ops<"f64", Double>, set_ops<"f16", HalfType>, set_ops<"bf16", BrainType>,
                set_packed_ops<"f16x2", PackedHalf>, set_packed_ops<"bf16x2", PackedBrain>);

}  // namespace

std::span<const LaneOp> compare_ops() { return table; }

}  // namespace wmmadiag
