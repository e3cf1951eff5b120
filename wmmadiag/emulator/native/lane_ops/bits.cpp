// Bit counting, bit fields, masks, permutes and shifts (PTX ISA 9.7.1 and 9.7.8). Each follows the ISA's pseudo-code.
#include <algorithm>
#include <limits>

#include "lanes.hpp"
#include "tables.hpp"

namespace wmmadiag {
namespace {

using namespace lanewise;

template <class T>
constexpr u32 width = 8 * sizeof(T);

template <class T>
constexpr auto popc = [](T a) -> u32 { return static_cast<u32>(std::popcount(a)); };
template <class T>
constexpr auto clz = [](T a) -> u32 { return static_cast<u32>(std::countl_zero(a)); };

// Position of the most significant bit that is not a copy of the sign; all ones if there is none.
template <class T>
constexpr u32 leading(T a) {
    using U = std::make_unsigned_t<T>;
    const U bits = a < 0 ? static_cast<U>(~static_cast<U>(a)) : static_cast<U>(a);
    return width<T> - 1 - static_cast<u32>(std::countl_zero(bits));  // wraps to all ones for 0
}
template <class T>
constexpr auto bfind = [](T a) -> u32 { return leading(a); };
template <class T>
constexpr auto bfind_shiftamt = [](T a) -> u32 {
    const u32 position = leading(a);
    return position == ~0u ? position : width<T> - 1 - position;
};

template <class T>
constexpr T swap_groups(T a, T low, unsigned by) {
    return static_cast<T>(((a >> by) & low) | ((a & low) << by));
}
template <class T>
constexpr auto brev = [](T a) -> T {
    constexpr T ones = static_cast<T>(~T{0});
    a = swap_groups<T>(a, ones / 3, 1);   // 0x5555...
    a = swap_groups<T>(a, ones / 5, 2);   // 0x3333...
    a = swap_groups<T>(a, ones / 17, 4);  // 0x0f0f...
    return sizeof(T) == 4 ? static_cast<T>(__builtin_bswap32(static_cast<u32>(a))) : static_cast<T>(__builtin_bswap64(a));
};

// `length` low ones; any length.
template <class T>
constexpr T ones(u32 length) {
    return length >= width<T> ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
}
template <class T>
constexpr T shift_left(T a, u32 by) {
    return by >= width<T> ? T{0} : static_cast<T>(a << by);
}
template <class T>
constexpr T shift_right(T a, u32 by) {  // arithmetic for signed types
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(by, width<T> - 1));
    return by >= width<T> ? T{0} : static_cast<T>(a >> by);
}

// Position and length of a bit field. The ISA restricts them to 0..255: 32-bit forms use the low 8 bits of the operand, 64-bit ones, which
// are instruction sequences, clamp it (recorded on sm_90).
template <class T>
constexpr u32 field_operand(u32 value) {
    return sizeof(T) == 8 ? std::min(value, 0xffu) : value & 0xff;
}

template <class T>
constexpr auto bfe = [](T a, u32 b, u32 c) -> T {
    using U = std::make_unsigned_t<T>;
    const u32 position = field_operand<T>(b);
    const u32 length = field_operand<T>(c);
    const U sign_source = shift_right(static_cast<U>(a), std::min(position + length - 1, width<T> - 1)) & 1;
    const U sign = std::is_signed_v<T> && length != 0 ? static_cast<U>(U{0} - sign_source) : U{0};
    const u32 room = position >= width<T> ? 0 : width<T> - position;
    const U field = ones<U>(std::min(length, room));
    return static_cast<T>((shift_right(static_cast<U>(a), position) & field) | (sign & ~field));
};
template <class T>
constexpr auto bfi = [](T a, T b, u32 c, u32 d) -> T {
    const u32 position = field_operand<T>(c);
    const T field = shift_left(ones<T>(field_operand<T>(d)), position);
    return (b & ~field) | (shift_left(a, position) & field);
};

constexpr auto fns = [](u32 mask, u32 base, s32 offset) -> u32 {
    if (offset == std::numeric_limits<s32>::min()) return 0;  // recorded on sm_90, as is a base out of range
    if (base >= 32) return ~0u;
    if (offset == 0) return (mask >> base) & 1 ? base : ~0u;
    const int step = offset > 0 ? 1 : -1;
    s64 left = (offset > 0 ? s64{offset} : -s64{offset}) - 1;
    for (int at = static_cast<int>(base); at >= 0 && at < 32; at += step)
        if ((mask >> at) & 1 && left-- == 0) return static_cast<u32>(at);
    return ~0u;
};

constexpr auto bmsk_clamp = [](u32 a, u32 b) -> u32 { return shift_left(ones<u32>(b), a); };
constexpr auto bmsk_wrap = [](u32 a, u32 b) -> u32 { return shift_left(ones<u32>(b & 31), a & 31); };

// Keep the low `length` bits (at most 32), extended by the sign bit or by zeros.
template <class T>
constexpr u32 extend(u32 a, u32 length) {
    const u32 field = ones<u32>(length);
    const u32 sign = std::is_signed_v<T> && length != 0 ? (shift_right(a, std::min(length, 32u) - 1) & 1) : 0;
    return (a & field) | ((0 - sign) & ~field);
}
template <class T>
constexpr auto szext_clamp = [](u32 a, u32 b) -> u32 { return extend<T>(a, b); };
template <class T>
constexpr auto szext_wrap = [](u32 a, u32 b) -> u32 { return extend<T>(a, b & 31); };

// prmt: the selectors of the named modes (PTX ISA, "prmt", byte 3 first), by mode and by the low two bits of c.
constexpr std::array<std::array<u16, 4>, 6> prmt_selectors{{
    {0x3210, 0x4321, 0x5432, 0x6543},  // f4e: forward four-byte extract
    {0x5670, 0x6701, 0x7012, 0x0123},  // b4e: backward
    {0x0000, 0x1111, 0x2222, 0x3333},  // rc8: replicate a byte
    {0x3210, 0x3211, 0x3222, 0x3333},  // ecl: edge clamp left
    {0x0000, 0x1110, 0x2210, 0x3210},  // ecr: edge clamp right
    {0x1010, 0x3232, 0x1010, 0x3232},  // rc16: replicate a half
}};
constexpr u32 permute(u32 a, u32 b, u32 selector) {
    const u64 bytes = (u64{b} << 32) | a;
    u32 d = 0;
    for (unsigned i = 0; i < 4; ++i) {
        const u32 nibble = (selector >> (4 * i)) & 0xf;
        const u32 byte = static_cast<u32>(bytes >> (8 * (nibble & 7))) & 0xff;
        d |= ((nibble & 8) != 0 ? ((byte & 0x80) != 0 ? 0xffu : 0u) : byte) << (8 * i);
    }
    return d;
}
constexpr auto prmt = [](u32 a, u32 b, u32 c) -> u32 { return permute(a, b, c); };
constexpr auto prmt_mode = [](Modifiers m, u32 a, u32 b, u32 c) -> u32 {
    const unsigned mode = std::min<unsigned>(m.mode(), prmt_selectors.size());
    return permute(a, b, mode == 0 ? c : prmt_selectors[mode - 1][c & 3]);
};

template <class T>
constexpr auto shl = [](T a, u32 b) -> T { return shift_left(a, b); };
template <class T>
constexpr auto shr = [](T a, u32 b) -> T { return shift_right(a, b); };

constexpr u32 funnel_left(u32 a, u32 b, u32 n) { return static_cast<u32>((((u64{b} << 32) | a) << n) >> 32); }
constexpr u32 funnel_right(u32 a, u32 b, u32 n) { return static_cast<u32>(((u64{b} << 32) | a) >> n); }
constexpr auto shf_l_wrap = [](u32 a, u32 b, u32 c) -> u32 { return funnel_left(a, b, c & 31); };
constexpr auto shf_l_clamp = [](u32 a, u32 b, u32 c) -> u32 { return funnel_left(a, b, std::min(c, 32u)); };
constexpr auto shf_r_wrap = [](u32 a, u32 b, u32 c) -> u32 { return funnel_right(a, b, c & 31); };
constexpr auto shf_r_clamp = [](u32 a, u32 b, u32 c) -> u32 { return funnel_right(a, b, std::min(c, 32u)); };

constexpr std::array table{
    op<popc<u32>>("popc.b32"),
    op<popc<u64>>("popc.b64"),
    op<clz<u32>>("clz.b32"),
    op<clz<u64>>("clz.b64"),
    op<bfind<u32>>("bfind.u32"),
    op<bfind<s32>>("bfind.s32"),
    op<bfind<u64>>("bfind.u64"),
    op<bfind<s64>>("bfind.s64"),
    op<bfind_shiftamt<u32>>("bfind.shiftamt.u32"),
    op<bfind_shiftamt<s32>>("bfind.shiftamt.s32"),
    op<bfind_shiftamt<u64>>("bfind.shiftamt.u64"),
    op<bfind_shiftamt<s64>>("bfind.shiftamt.s64"),
    op<brev<u32>>("brev.b32"),
    op<brev<u64>>("brev.b64"),
    op<bfe<u32>>("bfe.u32"),
    op<bfe<s32>>("bfe.s32"),
    op<bfe<u64>>("bfe.u64"),
    op<bfe<s64>>("bfe.s64"),
    op<bfi<u32>>("bfi.b32"),
    op<bfi<u64>>("bfi.b64"),
    op<fns>("fns.b32"),
    op<bmsk_clamp>("bmsk.clamp.b32"),
    op<bmsk_wrap>("bmsk.wrap.b32"),
    op<szext_clamp<u32>>("szext.clamp.u32"),
    op<szext_clamp<s32>>("szext.clamp.s32"),
    op<szext_wrap<u32>>("szext.wrap.u32"),
    op<szext_wrap<s32>>("szext.wrap.s32"),
    row<lane_function<prmt>, lane_function<prmt_mode>>("prmt.b32"),
    op<shf_l_wrap>("shf.l.wrap.b32"),
    op<shf_l_clamp>("shf.l.clamp.b32"),
    op<shf_r_wrap>("shf.r.wrap.b32"),
    op<shf_r_clamp>("shf.r.clamp.b32"),
    op<shl<u16>>("shl.b16"),
    op<shl<u32>>("shl.b32"),
    op<shl<u64>>("shl.b64"),
    op<shr<u16>>("shr.b16"),
    op<shr<u32>>("shr.b32"),
    op<shr<u64>>("shr.b64"),
    op<shr<u16>>("shr.u16"),
    op<shr<u32>>("shr.u32"),
    op<shr<u64>>("shr.u64"),
    op<shr<s16>>("shr.s16"),
    op<shr<s32>>("shr.s32"),
    op<shr<s64>>("shr.s64"),
};

}  // namespace

std::span<const LaneOp> bit_ops() { return table; }

}  // namespace wmmadiag
