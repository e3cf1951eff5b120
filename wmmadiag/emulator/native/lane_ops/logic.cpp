// Bitwise logic, predicates, moves and selects (PTX ISA 9.7.8 and 9.7.9).
#include "lanes.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class T>
constexpr auto bit_and = [](T a, T b) -> T { return a & b; };
template <class T>
constexpr auto bit_or = [](T a, T b) -> T { return a | b; };
template <class T>
constexpr auto bit_xor = [](T a, T b) -> T { return a ^ b; };
template <class T>
constexpr auto bit_not = [](T a) -> T { return static_cast<T>(~a); };
template <class T>
constexpr auto cnot = [](T a) -> T { return a == 0 ? T{1} : T{0}; };
template <class T>
constexpr auto mov = [](T a) -> T { return a; };

// d = table[a:b:c] for each bit, as a tree of multiplexers.
constexpr u32 choose(u32 selector, u32 one, u32 zero) { return (selector & one) | (~selector & zero); }
constexpr auto lop3 = [](u32 a, u32 b, u32 c, u32 table) -> u32 {
    const auto entry = [table](unsigned index) { return 0u - ((table >> index) & 1u); };
    const u32 high = choose(b, choose(c, entry(7), entry(6)), choose(c, entry(5), entry(4)));
    const u32 low = choose(b, choose(c, entry(3), entry(2)), choose(c, entry(1), entry(0)));
    return choose(a, high, low);
};

// lop3 with a predicate result: the table in `mode`, q the last source, p = (d != 0) op q.
void lop3_bool(const LaneArgs& args) {
    const Modifiers m = args.modifiers;
    const Mask q = read_mask(args.s[3], m.neg_c());
    Mask p = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        const u32 value = lop3(load<u32>(args.s[0], l), load<u32>(args.s[1], l), load<u32>(args.s[2], l), m.mode());
        p |= value != 0 ? lane_bit[l] : 0u;
        if (lane_of(args.active, l)) store<u32>(args.d, l, value);
    }
    write_mask(args.d2, args.active, m.bool_op() == BoolOp::or_ ? p | q : p & q);
}

// Predicates: whole masks.
template <auto f>
void on_masks(const LaneArgs& args) {
    const Modifiers m = args.modifiers;
    write_mask(args.d, args.active, f(read_mask(args.s[0], m.neg_a()), read_mask(args.s[1], m.neg_b())));
}

// The third source is a predicate.
template <class T>
void selp(const LaneArgs& args) {
    if (args.active != all_lanes) return into_scratch<sizeof(T)>(args, &selp<T>);
    const Mask chosen = read_mask(args.s[2], args.modifiers.neg_c());
    void* const d = args.d;
    const void* const a = args.s[0];
    const void* const b = args.s[1];
#pragma GCC ivdep
    for (unsigned l = 0; l < lanes; ++l) store<T>(d, l, lane_of(chosen, l) ? load<T>(a, l) : load<T>(b, l));
}

template <class T>
constexpr auto slct_s32 = [](T a, T b, s32 c) -> T { return c >= 0 ? a : b; };
// A NaN selects b. With .ftz a negative subnormal counts as -0, which is >= 0.
template <class T>
constexpr auto slct_f32 = [](Modifiers m, T a, T b, float c) -> T {
    const bool flushed = m.ftz() && (std::bit_cast<u32>(c) & 0x7f800000u) == 0;
    return flushed || c >= 0.0f ? a : b;
};

constexpr std::array table{
    op<bit_and<u16>>("and.b16"),
    op<bit_and<u32>>("and.b32"),
    op<bit_and<u64>>("and.b64"),
    op<bit_or<u16>>("or.b16"),
    op<bit_or<u32>>("or.b32"),
    op<bit_or<u64>>("or.b64"),
    op<bit_xor<u16>>("xor.b16"),
    op<bit_xor<u32>>("xor.b32"),
    op<bit_xor<u64>>("xor.b64"),
    op<bit_not<u16>>("not.b16"),
    op<bit_not<u32>>("not.b32"),
    op<bit_not<u64>>("not.b64"),
    op<cnot<u16>>("cnot.b16"),
    op<cnot<u32>>("cnot.b32"),
    op<cnot<u64>>("cnot.b64"),
    op<lop3>("lop3.b32"),
    row<&lop3_bool>("lop3.bool.b32"),
    row<&on_masks<bit_and<Mask>>>("and.pred"),
    row<&on_masks<bit_or<Mask>>>("or.pred"),
    row<&on_masks<bit_xor<Mask>>>("xor.pred"),
    row<&on_masks<[](Mask a, Mask) { return ~a; }>>("not.pred"),
    row<&on_masks<[](Mask a, Mask) { return a; }>>("mov.pred"),
    op<mov<u16>>("mov.b8"),
    op<mov<u16>>("mov.b16"),
    op<mov<u32>>("mov.b32"),
    op<mov<u64>>("mov.b64"),
    op<mov<Bytes16>>("mov.b128"),
    row<&selp<u16>>("selp.b16"),
    row<&selp<u32>>("selp.b32"),
    row<&selp<u64>>("selp.b64"),
    op<slct_s32<u16>>("slct.b16.s32"),
    op<slct_s32<u32>>("slct.b32.s32"),
    op<slct_s32<u64>>("slct.b64.s32"),
    op<slct_f32<u16>>("slct.b16.f32"),
    op<slct_f32<u32>>("slct.b32.f32"),
    op<slct_f32<u64>>("slct.b64.f32"),
};

}  // namespace

std::span<const LaneOp> logic_ops() { return table; }

}  // namespace wmmadiag
