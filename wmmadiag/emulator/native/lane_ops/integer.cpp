// Integer arithmetic (PTX ISA 9.7.1 and 9.7.2). Signed arithmetic wraps: it is done on the unsigned type.
#include <algorithm>
#include <limits>

#include "lanes.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class T>
using Unsigned = std::make_unsigned_t<T>;

// Unsigned type in which T's arithmetic neither promotes to int nor overflows.
template <class T>
using Wide = std::conditional_t<sizeof(T) <= 4, u32, u64>;

// The type of a full product.
template <class T>
using Product = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
    std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, s64, u64>, std::conditional_t<std::is_signed_v<T>, s128, u128>>>;

template <class T>
constexpr T wrap_add(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
}

template <class T>
constexpr T wrap_sub(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
}

template <class T>
constexpr T wrap_mul(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}

template <class T>
constexpr T high(T a, T b) {
    return static_cast<T>((static_cast<Product<T>>(a) * b) >> (8 * sizeof(T)));
}

constexpr s32 clamp32(s64 value) {
    return static_cast<s32>(std::clamp<s64>(value, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max()));
}

template <class T>
constexpr auto add = [](T a, T b) -> T { return wrap_add(a, b); };
template <class T>
constexpr auto sub = [](T a, T b) -> T { return wrap_sub(a, b); };
constexpr auto add_sat = [](s32 a, s32 b) -> s32 { return clamp32(s64{a} + b); };
constexpr auto sub_sat = [](s32 a, s32 b) -> s32 { return clamp32(s64{a} - b); };

template <class T>
constexpr auto mul_lo = [](T a, T b) -> T { return wrap_mul(a, b); };
template <class T>
constexpr auto mul_hi = [](T a, T b) -> T { return high(a, b); };
template <class T>
constexpr auto mul_wide = [](T a, T b) -> Product<T> { return static_cast<Product<T>>(a) * b; };
template <class T>
constexpr auto mad_lo = [](T a, T b, T c) -> T { return wrap_add(wrap_mul(a, b), c); };
template <class T>
constexpr auto mad_hi = [](T a, T b, T c) -> T { return wrap_add(high(a, b), c); };
constexpr auto mad_hi_sat = [](s32 a, s32 b, s32 c) -> s32 { return clamp32(s64{high(a, b)} + c); };
template <class T>
constexpr auto mad_wide = [](T a, T b, Product<T> c) -> Product<T> { return wrap_add(static_cast<Product<T>>(static_cast<Product<T>>(a) * b), c); };

// The low 24 bits of each operand, sign- or zero-extended.
template <class T>
constexpr auto product24(T a, T b) {
    constexpr auto low = [](T x) { return static_cast<Product<T>>(static_cast<T>(static_cast<T>(static_cast<u32>(x) << 8) >> 8)); };
    return low(a) * low(b);
}
template <class T>
constexpr auto mul24_lo = [](T a, T b) -> T { return static_cast<T>(product24(a, b)); };
template <class T>
constexpr auto mul24_hi = [](T a, T b) -> T { return static_cast<T>(product24(a, b) >> 16); };
template <class T>
constexpr auto mad24_lo = [](T a, T b, T c) -> T { return wrap_add(static_cast<T>(product24(a, b)), c); };
template <class T>
constexpr auto mad24_hi = [](T a, T b, T c) -> T { return wrap_add(static_cast<T>(product24(a, b) >> 16), c); };
constexpr auto mad24_hi_sat = [](s32 a, s32 b, s32 c) -> s32 { return clamp32((product24(a, b) >> 16) + c); };

template <class T>
constexpr auto sad = [](T a, T b, T c) -> T { return wrap_add(a < b ? wrap_sub(b, a) : wrap_sub(a, b), c); };

// Division by zero gives all ones and the remainder by zero too (undefined in the ISA; recorded on sm_90); the smallest integer
// divided by -1 is itself, remainder 0. The divisor is replaced so that the host never traps.
template <class T>
constexpr bool overflows(T a, T b) {
    return std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1);
}
template <class T>
constexpr auto div = [](T a, T b) -> T {
    if (b == 0) return static_cast<T>(-1);
    return static_cast<T>(a / (overflows(a, b) ? T{1} : b));
};
template <class T>
constexpr auto rem = [](T a, T b) -> T {
    if (b == 0) return static_cast<T>(-1);
    return static_cast<T>(a % (overflows(a, b) ? T{1} : b));
};

template <class T>
constexpr auto abs = [](T a) -> T { return a < 0 ? wrap_sub(T{0}, a) : a; };
template <class T>
constexpr auto neg = [](T a) -> T { return wrap_sub(T{0}, a); };
template <class T>
constexpr auto min = [](T a, T b) -> T { return a < b ? a : b; };
template <class T>
constexpr auto max = [](T a, T b) -> T { return a < b ? b : a; };
template <class T>
constexpr auto min_relu = [](T a, T b) -> T { return std::max<T>(min<T>(a, b), 0); };
template <class T>
constexpr auto max_relu = [](T a, T b) -> T { return std::max<T>(max<T>(a, b), 0); };

// Four bytes (dp4a) or two halves times two bytes (dp2a), summed onto c; the sum wraps.
template <class Part, class Word>
constexpr Word part(Word word, unsigned index) {
    return static_cast<Word>(static_cast<Part>(static_cast<u32>(word) >> (8 * sizeof(Part) * index)));
}
template <class T>
using Byte = std::conditional_t<std::is_signed_v<T>, s8, u8>;
template <class T>
using Half = std::conditional_t<std::is_signed_v<T>, s16, u16>;

template <class A, class B>
constexpr auto dp4a = [](A a, B b, u32 c) -> u32 {
    for (unsigned i = 0; i < 4; ++i) c += static_cast<u32>(part<Byte<A>>(a, i)) * static_cast<u32>(part<Byte<B>>(b, i));
    return c;
};
template <class A, class B, unsigned First>
constexpr auto dp2a = [](A a, B b, u32 c) -> u32 {
    for (unsigned i = 0; i < 2; ++i) c += static_cast<u32>(part<Half<A>>(a, i)) * static_cast<u32>(part<Byte<B>>(b, First + i));
    return c;
};

constexpr std::array arithmetic{
    op<add<u16>>("add.u16"),           op<add<u16>>("add.s16"),
    op<add<u32>>("add.u32"),           row<lane_function<add<s32>>, lane_function<add_sat>>("add.s32"),
    op<add<u64>>("add.u64"),           op<add<u64>>("add.s64"),
    op<add<u16>, 2>("add.u16x2"),      op<add<u16>, 2>("add.s16x2"),
    op<sub<u16>>("sub.u16"),           op<sub<u16>>("sub.s16"),
    op<sub<u32>>("sub.u32"),           row<lane_function<sub<s32>>, lane_function<sub_sat>>("sub.s32"),
    op<sub<u64>>("sub.u64"),           op<sub<u64>>("sub.s64"),
    op<sub<u16>, 2>("sub.u16x2"),      op<sub<u16>, 2>("sub.s16x2"),
    op<mul_lo<u16>>("mul.lo.u16"),     op<mul_lo<u16>>("mul.lo.s16"),
    op<mul_lo<u32>>("mul.lo.u32"),     op<mul_lo<u32>>("mul.lo.s32"),
    op<mul_lo<u64>>("mul.lo.u64"),     op<mul_lo<u64>>("mul.lo.s64"),
    op<mul_hi<u16>>("mul.hi.u16"),     op<mul_hi<s16>>("mul.hi.s16"),
    op<mul_hi<u32>>("mul.hi.u32"),     op<mul_hi<s32>>("mul.hi.s32"),
    op<mul_hi<u64>>("mul.hi.u64"),     op<mul_hi<s64>>("mul.hi.s64"),
    op<mul_wide<u16>>("mul.wide.u16"), op<mul_wide<s16>>("mul.wide.s16"),
    op<mul_wide<u32>>("mul.wide.u32"), op<mul_wide<s32>>("mul.wide.s32"),
    op<mad_lo<u16>>("mad.lo.u16"),     op<mad_lo<u16>>("mad.lo.s16"),
    op<mad_lo<u32>>("mad.lo.u32"),     op<mad_lo<u32>>("mad.lo.s32"),
    op<mad_lo<u64>>("mad.lo.u64"),     op<mad_lo<u64>>("mad.lo.s64"),
    op<mad_hi<u16>>("mad.hi.u16"),     op<mad_hi<s16>>("mad.hi.s16"),
    op<mad_hi<u32>>("mad.hi.u32"),     row<lane_function<mad_hi<s32>>, lane_function<mad_hi_sat>>("mad.hi.s32"),
    op<mad_hi<u64>>("mad.hi.u64"),     op<mad_hi<s64>>("mad.hi.s64"),
    op<mad_wide<u16>>("mad.wide.u16"), op<mad_wide<s16>>("mad.wide.s16"),
    op<mad_wide<u32>>("mad.wide.u32"), op<mad_wide<s32>>("mad.wide.s32"),
    op<mul24_lo<u32>>("mul24.lo.u32"), op<mul24_lo<s32>>("mul24.lo.s32"),
    op<mul24_hi<u32>>("mul24.hi.u32"), op<mul24_hi<s32>>("mul24.hi.s32"),
    op<mad24_lo<u32>>("mad24.lo.u32"), op<mad24_lo<s32>>("mad24.lo.s32"),
    op<mad24_hi<u32>>("mad24.hi.u32"), row<lane_function<mad24_hi<s32>>, lane_function<mad24_hi_sat>>("mad24.hi.s32"),
};

constexpr std::array other{
    op<sad<u16>>("sad.u16"),
    op<sad<s16>>("sad.s16"),
    op<sad<u32>>("sad.u32"),
    op<sad<s32>>("sad.s32"),
    op<sad<u64>>("sad.u64"),
    op<sad<s64>>("sad.s64"),
    op<div<u16>>("div.u16"),
    op<div<s16>>("div.s16"),
    op<div<u32>>("div.u32"),
    op<div<s32>>("div.s32"),
    op<div<u64>>("div.u64"),
    op<div<s64>>("div.s64"),
    op<rem<u16>>("rem.u16"),
    op<rem<s16>>("rem.s16"),
    op<rem<u32>>("rem.u32"),
    op<rem<s32>>("rem.s32"),
    op<rem<u64>>("rem.u64"),
    op<rem<s64>>("rem.s64"),
    op<abs<s16>>("abs.s16"),
    op<abs<s32>>("abs.s32"),
    op<abs<s64>>("abs.s64"),
    op<neg<s16>>("neg.s16"),
    op<neg<s32>>("neg.s32"),
    op<neg<s64>>("neg.s64"),
    op<min<u16>>("min.u16"),
    op<min<s16>>("min.s16"),
    op<min<u32>>("min.u32"),
    row<lane_function<min<s32>>, lane_function<min_relu<s32>>>("min.s32"),
    op<min<u64>>("min.u64"),
    op<min<s64>>("min.s64"),
    op<min<u16>, 2>("min.u16x2"),
    row<lane_function<min<s16>, 2>, lane_function<min_relu<s16>, 2>>("min.s16x2"),
    op<max<u16>>("max.u16"),
    op<max<s16>>("max.s16"),
    op<max<u32>>("max.u32"),
    row<lane_function<max<s32>>, lane_function<max_relu<s32>>>("max.s32"),
    op<max<u64>>("max.u64"),
    op<max<s64>>("max.s64"),
    op<max<u16>, 2>("max.u16x2"),
    row<lane_function<max<s16>, 2>, lane_function<max_relu<s16>, 2>>("max.s16x2"),
    op<dp4a<u32, u32>>("dp4a.u32.u32"),
    op<dp4a<u32, s32>>("dp4a.u32.s32"),
    op<dp4a<s32, u32>>("dp4a.s32.u32"),
    op<dp4a<s32, s32>>("dp4a.s32.s32"),
    op<dp2a<u32, u32, 0>>("dp2a.lo.u32.u32"),
    op<dp2a<u32, s32, 0>>("dp2a.lo.u32.s32"),
    op<dp2a<s32, u32, 0>>("dp2a.lo.s32.u32"),
    op<dp2a<s32, s32, 0>>("dp2a.lo.s32.s32"),
    op<dp2a<u32, u32, 2>>("dp2a.hi.u32.u32"),
    op<dp2a<u32, s32, 2>>("dp2a.hi.u32.s32"),
    op<dp2a<s32, u32, 2>>("dp2a.hi.s32.u32"),
    op<dp2a<s32, s32, 2>>("dp2a.hi.s32.s32"),
};

constexpr auto table = concatenate(arithmetic, other);

}  // namespace

std::span<const LaneOp> integer_ops() { return table; }

}  // namespace wmmadiag
