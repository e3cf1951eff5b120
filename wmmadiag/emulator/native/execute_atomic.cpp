// atom, red: lanes in order, one after another.
#include <array>
#include <cmath>

#include "access.hpp"
#include "lane_ops/formats.hpp"

namespace wmmadiag {

namespace {

using lanewise::bits_of, lanewise::F32, lanewise::F64, lanewise::float_of, lanewise::flush, lanewise::is_nan, lanewise::u64;

// Written by lower.py into the code bits: operation, then type in the next byte.
enum class AtomicOp : std::uint8_t { add, min, max, inc, dec, and_, or_, xor_, exch, cas };
enum class AtomicType : std::uint8_t { u32, s32, u64, s64, f32, f64, f16, bf16, f16x2, bf16x2, b16, b128 };

template <class T>
T combine(AtomicOp op, T old, T b, T c) {
    switch (op) {
        case AtomicOp::add:
            if constexpr (std::is_floating_point_v<T>) return old + b;
            else return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(b));
        case AtomicOp::min: return std::min(old, b);
        case AtomicOp::max: return std::max(old, b);
        case AtomicOp::exch: return b;
        case AtomicOp::cas: return old == b ? c : old;
        default: break;
    }
    if constexpr (std::is_unsigned_v<T>) {
        switch (op) {
            case AtomicOp::inc: return old >= b ? T{0} : static_cast<T>(old + 1);
            case AtomicOp::dec: return old == 0 || old > b ? b : static_cast<T>(old - 1);
            case AtomicOp::and_: return old & b;
            case AtomicOp::or_: return old | b;
            case AtomicOp::xor_: return old ^ b;
            default: break;
        }
    }
    return old;
}

// A sum that is no number. In f64 shared memory keeps the last NaN among the operands and makes it quiet, as add.f64 does; global
// memory keeps it as it is (recorded on sm_90).
float nan_sum(float, float, bool) { return float_of(F32::nan); }
double nan_sum(double old, double b, bool global) {
    constexpr u64 quiet = 0x0008000000000000;
    const u64 kept = is_nan(b) ? bits_of(b) : is_nan(old) ? bits_of(old) : F64::nan;
    return float_of(global ? kept : kept | quiet);
}

// Packed and 16-bit float addition borrows the lane operation of the same name: one place for the semantics.
template <class T>
Flow through_lane_op(Warp& warp, const Inst& inst, Mask active, const Addresses& addresses, const char* name) {
    const auto function = find_lane_op(name)->select({});
    const auto* b = warp.at<T>(inst.extra[1]);
    auto* d = inst.extra[0] == no_operand ? nullptr : warp.at<T>(inst.extra[0]);
    return access(warp, inst.space, active, addresses, sizeof(T), sizeof(T), AccessKind::atomic, [&](unsigned lane, std::byte* p) {
        alignas(64) T old[lanes]{}, value[lanes]{}, sum[lanes]{};
        std::memcpy(&old[0], p, sizeof(T));
        value[0] = b[lane];
        function({1u, {}, sum, nullptr, {old, value, nullptr, nullptr}});
        std::memcpy(p, &sum[0], sizeof(T));
        if (d != nullptr) d[lane] = old[0];
    });
}

// extra: per element d, b, c.
template <class T>
Flow apply(Warp& warp, const Inst& inst, Mask active, const Addresses& addresses, AtomicOp op) {
    const unsigned count = inst.count;
    const auto bytes = static_cast<std::uint32_t>(sizeof(T)) * count;
    // Global f32 addition flushes subnormals, shared does not (PTX ISA, atom).
    const bool may_flush = std::is_same_v<T, float> && op == AtomicOp::add && inst.space != Space::shared;
    const auto flow = access(warp, inst.space, active, addresses, bytes, bytes, AccessKind::atomic, [&](unsigned lane, std::byte* p) {
        for (unsigned i = 0; i < count; ++i) {
            const auto* slots = inst.extra + 3 * std::size_t{i};
            T old;
            std::memcpy(&old, p + i * sizeof(T), sizeof(T));
            T b = warp.at<T>(slots[1])[lane];
            const T c = slots[2] == no_operand ? T{} : warp.at<T>(slots[2])[lane];
            T result = combine(op, old, b, c);
            if constexpr (std::is_same_v<T, float>) {
                if (may_flush && (inst.space == Space::global || space_of(warp.at<std::uint64_t>(inst.s[0])[lane]) == Space::global))
                    result = flush(flush(old) + flush(b));
            }
            if constexpr (std::is_floating_point_v<T>) {
                if (op == AtomicOp::add && is_nan(result)) {
                    const bool global = inst.space == Space::global ||
                                        (inst.space == Space::generic && space_of(warp.at<std::uint64_t>(inst.s[0])[lane]) == Space::global);
                    result = nan_sum(old, b, global);
                }
            }
            std::memcpy(p + i * sizeof(T), &result, sizeof(T));
            if (slots[0] != no_operand) warp.at<T>(slots[0])[lane] = old;
        }
    });
    if (flow != Flow::next || active == 0 || count != 1 || inst.extra[0] == no_operand) return flow;
    std::uint64_t value = 0;
    std::memcpy(&value, warp.at<T>(inst.extra[0]) + std::countr_zero(active), sizeof(T));
    return warp.polled(inst, value);
}

struct Quad {
    std::uint64_t low, high;
    bool operator==(const Quad&) const = default;
};

Flow apply128(Warp& warp, const Inst& inst, Mask active, const Addresses& addresses, AtomicOp op) {
    return access(warp, inst.space, active, addresses, 16, 16, AccessKind::atomic, [&](unsigned lane, std::byte* p) {
        Quad old;
        std::memcpy(&old, p, sizeof old);
        const Quad b = warp.at<Quad>(inst.extra[1])[lane];
        const Quad result = op == AtomicOp::exch ? b : old == b ? warp.at<Quad>(inst.extra[2])[lane] : old;
        std::memcpy(p, &result, sizeof result);
        if (inst.extra[0] != no_operand) warp.at<Quad>(inst.extra[0])[lane] = old;
    });
}

Flow atomic(Warp& warp, const Inst& inst, Mask active) {
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const auto op = static_cast<AtomicOp>(inst.code & 0xff);
    switch (static_cast<AtomicType>(inst.code >> 8)) {
        case AtomicType::u32: return apply<std::uint32_t>(warp, inst, active, addresses, op);
        case AtomicType::s32: return apply<std::int32_t>(warp, inst, active, addresses, op);
        case AtomicType::u64: return apply<std::uint64_t>(warp, inst, active, addresses, op);
        case AtomicType::s64: return apply<std::int64_t>(warp, inst, active, addresses, op);
        case AtomicType::f32: return apply<float>(warp, inst, active, addresses, op);
        case AtomicType::f64: return apply<double>(warp, inst, active, addresses, op);
        case AtomicType::b16: return apply<std::uint16_t>(warp, inst, active, addresses, op);
        case AtomicType::b128: return apply128(warp, inst, active, addresses, op);
        case AtomicType::f16: return through_lane_op<std::uint16_t>(warp, inst, active, addresses, "add.f16");
        case AtomicType::bf16: return through_lane_op<std::uint16_t>(warp, inst, active, addresses, "add.bf16");
        case AtomicType::f16x2: return through_lane_op<std::uint32_t>(warp, inst, active, addresses, "add.f16x2");
        case AtomicType::bf16x2: return through_lane_op<std::uint32_t>(warp, inst, active, addresses, "add.bf16x2");
    }
    return warp.fail(FaultKind::unsupported, active, "this atomic");
}

constexpr std::array atomic_table{Operation{"atom", atomic}};

}  // namespace

std::span<const Operation> atomic_operations() { return atomic_table; }

}  // namespace wmmadiag
