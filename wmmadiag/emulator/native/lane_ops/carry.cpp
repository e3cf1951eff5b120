// Extended-precision integer arithmetic (PTX ISA 9.7.2): the carry flag is a predicate.
//
// With .cc the carry-out (for subtraction the borrow-out) goes to the second destination; addc, subc and madc read the flag as their last
// source. Signed and unsigned forms compute the same bits, multiplications' high halves aside.
#include "lanes.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

// Runs f(a..., carry_in) -> {value, carry_out} on each lane. The flag is read whole before it is written.
template <class T, std::size_t Sources, bool CarryIn, auto f>
void with_carry(const LaneArgs& args) {
    const Mask carry = CarryIn ? read_mask(args.s[Sources]) : 0;
    Mask out = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        std::array<T, 3> s{};
        for (std::size_t i = 0; i < Sources; ++i) s[i] = load<T>(args.s[i], l);
        T value{};
        const bool flag = f(s[0], s[1], s[2], lane_of(carry, l), value);
        out |= flag ? lane_bit[l] : 0u;
        if (lane_of(args.active, l)) store<T>(args.d, l, value);
    }
    write_mask(args.d2, args.active, out);
}

template <class T>
constexpr bool add_carry(T a, T b, bool carry, T& sum) {
    T partial{};
    const bool first = __builtin_add_overflow(a, b, &partial);
    const bool second = __builtin_add_overflow(partial, static_cast<T>(carry), &sum);
    return first || second;
}

template <class T>
constexpr auto add = [](T a, T b, T, bool carry, T& d) { return add_carry(a, b, carry, d); };
template <class T>
constexpr auto sub = [](T a, T b, T, bool borrow, T& d) {
    T partial{};
    const bool first = __builtin_sub_overflow(a, b, &partial);
    const bool second = __builtin_sub_overflow(partial, static_cast<T>(borrow), &d);
    return first || second;
};
template <class T>
constexpr auto mad_lo = [](T a, T b, T c, bool carry, T& d) { return add_carry(static_cast<T>(u128{a} * b), c, carry, d); };
template <class T>
constexpr auto mad_hi = [](T a, T b, T c, bool carry, T& d) { return add_carry(static_cast<T>((u128{a} * b) >> (8 * sizeof(T))), c, carry, d); };
template <class T>
constexpr auto mad_hi_signed = [](T a, T b, T c, bool carry, T& d) {
    using S = std::make_signed_t<T>;
    const s128 product = s128{static_cast<S>(a)} * static_cast<S>(b);
    return add_carry(static_cast<T>(static_cast<u128>(product) >> (8 * sizeof(T))), c, carry, d);
};

template <class T, std::size_t Sources, bool CarryIn, auto f>
constexpr LaneOp flag_op(std::string_view name) {
    return row<&with_carry<T, Sources, CarryIn, f>>(name);
}

constexpr std::array table{
    flag_op<u32, 2, false, add<u32>>("add.cc.u32"),       flag_op<u32, 2, false, add<u32>>("add.cc.s32"),
    flag_op<u64, 2, false, add<u64>>("add.cc.u64"),       flag_op<u64, 2, false, add<u64>>("add.cc.s64"),
    flag_op<u32, 2, true, add<u32>>("addc.u32"),          flag_op<u32, 2, true, add<u32>>("addc.s32"),
    flag_op<u64, 2, true, add<u64>>("addc.u64"),          flag_op<u64, 2, true, add<u64>>("addc.s64"),
    flag_op<u32, 2, true, add<u32>>("addc.cc.u32"),       flag_op<u32, 2, true, add<u32>>("addc.cc.s32"),
    flag_op<u64, 2, true, add<u64>>("addc.cc.u64"),       flag_op<u64, 2, true, add<u64>>("addc.cc.s64"),
    flag_op<u32, 2, false, sub<u32>>("sub.cc.u32"),       flag_op<u32, 2, false, sub<u32>>("sub.cc.s32"),
    flag_op<u64, 2, false, sub<u64>>("sub.cc.u64"),       flag_op<u64, 2, false, sub<u64>>("sub.cc.s64"),
    flag_op<u32, 2, true, sub<u32>>("subc.u32"),          flag_op<u32, 2, true, sub<u32>>("subc.s32"),
    flag_op<u64, 2, true, sub<u64>>("subc.u64"),          flag_op<u64, 2, true, sub<u64>>("subc.s64"),
    flag_op<u32, 2, true, sub<u32>>("subc.cc.u32"),       flag_op<u32, 2, true, sub<u32>>("subc.cc.s32"),
    flag_op<u64, 2, true, sub<u64>>("subc.cc.u64"),       flag_op<u64, 2, true, sub<u64>>("subc.cc.s64"),
    flag_op<u32, 3, false, mad_lo<u32>>("mad.lo.cc.u32"), flag_op<u32, 3, false, mad_lo<u32>>("mad.lo.cc.s32"),
    flag_op<u64, 3, false, mad_lo<u64>>("mad.lo.cc.u64"), flag_op<u64, 3, false, mad_lo<u64>>("mad.lo.cc.s64"),
    flag_op<u32, 3, true, mad_lo<u32>>("madc.lo.u32"),    flag_op<u32, 3, true, mad_lo<u32>>("madc.lo.s32"),
    flag_op<u64, 3, true, mad_lo<u64>>("madc.lo.u64"),    flag_op<u64, 3, true, mad_lo<u64>>("madc.lo.s64"),
    flag_op<u32, 3, true, mad_lo<u32>>("madc.lo.cc.u32"), flag_op<u32, 3, true, mad_lo<u32>>("madc.lo.cc.s32"),
    flag_op<u64, 3, true, mad_lo<u64>>("madc.lo.cc.u64"), flag_op<u64, 3, true, mad_lo<u64>>("madc.lo.cc.s64"),
    flag_op<u32, 3, false, mad_hi<u32>>("mad.hi.cc.u32"), flag_op<u32, 3, false, mad_hi_signed<u32>>("mad.hi.cc.s32"),
    flag_op<u64, 3, false, mad_hi<u64>>("mad.hi.cc.u64"), flag_op<u64, 3, false, mad_hi_signed<u64>>("mad.hi.cc.s64"),
    flag_op<u32, 3, true, mad_hi<u32>>("madc.hi.u32"),    flag_op<u32, 3, true, mad_hi_signed<u32>>("madc.hi.s32"),
    flag_op<u64, 3, true, mad_hi<u64>>("madc.hi.u64"),    flag_op<u64, 3, true, mad_hi_signed<u64>>("madc.hi.s64"),
    flag_op<u32, 3, true, mad_hi<u32>>("madc.hi.cc.u32"), flag_op<u32, 3, true, mad_hi_signed<u32>>("madc.hi.cc.s32"),
    flag_op<u64, 3, true, mad_hi<u64>>("madc.hi.cc.u64"), flag_op<u64, 3, true, mad_hi_signed<u64>>("madc.hi.cc.s64"),
};

}  // namespace

std::span<const LaneOp> carry_ops() { return table; }

}  // namespace wmmadiag
