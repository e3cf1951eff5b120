// Operations between the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync.
#include <array>

#include "block.hpp"

namespace wmmadiag {

namespace {

void assign(Warp& warp, Operand predicate, Mask active, Mask value) {
    if (predicate == no_operand) return;
    auto& p = *warp.at<Mask>(predicate);
    p = (p & ~active) | (value & active);
}

// The member mask of a .sync operation: the same in all active lanes, or the operation is undefined.
bool members_of(Warp& warp, Operand operand, Mask active, Mask& members) {
    const auto* mask = warp.at<std::uint32_t>(operand);
    members = mask[std::countr_zero(active)];
    for (Mask m = active; m != 0; m &= m - 1) {
        if (mask[std::countr_zero(m)] != members) {
            warp.fail(FaultKind::bad_operand, m & -m, "the member mask differs between the lanes that run together");
            return false;
        }
    }
    return true;
}

enum class ShuffleMode : std::uint8_t { up, down, bfly, idx };

// s: value, lane operand b, clamp-and-segment operand c, member mask.
Flow shuffle(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[3], active, members)) return Flow::fault;
    if (const auto flow = warp.converge(active, members); flow != Flow::next) return flow;
    const auto* value = warp.at<std::uint32_t>(inst.s[0]);
    const auto* b = warp.at<std::uint32_t>(inst.s[1]);
    const auto* c = warp.at<std::uint32_t>(inst.s[2]);
    std::uint32_t result[lanes];
    Mask inside = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        const std::uint32_t offset = b[lane] & 0x1f, clamp = c[lane] & 0x1f, segment = (c[lane] >> 8) & 0x1f;
        const std::uint32_t limit = (lane & segment) | (clamp & ~segment), first = lane & segment;
        std::uint32_t from = 0;
        bool ok = false;
        switch (static_cast<ShuffleMode>(inst.code)) {
            case ShuffleMode::up:
                from = lane - offset;
                ok = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(limit);
                break;
            case ShuffleMode::down:
                from = lane + offset;
                ok = from <= limit;
                break;
            case ShuffleMode::bfly:
                from = lane ^ offset;
                ok = from <= limit;
                break;
            case ShuffleMode::idx:
                from = first | (offset & ~segment);
                ok = from <= limit;
                break;
        }
        if (!ok) from = lane;
        if (ok) inside |= Mask{1} << lane;
        result[lane] = value[from & 0x1f];
    }
    if (inst.d != no_operand) {
        auto* d = warp.at<std::uint32_t>(inst.d);
        for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = result[std::countr_zero(m)];
    }
    assign(warp, inst.d2, active, inside);
    return Flow::next;
}

enum class VoteMode : std::uint8_t { all, any, uni, ballot };

// s: predicate, member mask; guard_invert-like negation of the predicate is in the modifiers.
Flow vote(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[1], active, members)) return Flow::fault;
    if (const auto flow = warp.converge(active, members); flow != Flow::next) return flow;
    const Mask voters = active & members;
    const Mask p = *warp.at<Mask>(inst.s[0]) ^ (inst.modifiers.neg_a() ? all_lanes : 0);
    const Mask yes = p & voters;
    switch (static_cast<VoteMode>(inst.code)) {
        case VoteMode::all: assign(warp, inst.d, active, yes == voters ? all_lanes : 0); break;
        case VoteMode::any: assign(warp, inst.d, active, yes != 0 ? all_lanes : 0); break;
        case VoteMode::uni: assign(warp, inst.d, active, yes == voters || yes == 0 ? all_lanes : 0); break;
        case VoteMode::ballot: {
            auto* d = warp.at<std::uint32_t>(inst.d);
            for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = yes;
        }
    }
    return Flow::next;
}

// s: value, member mask. code 0: any, 1: all. bytes: 4 or 8.
Flow match(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[1], active, members)) return Flow::fault;
    if (const auto flow = warp.converge(active, members); flow != Flow::next) return flow;
    const Mask here = active & members;
    const auto value = [&](unsigned lane) -> std::uint64_t {
        return inst.bytes == 8 ? warp.at<std::uint64_t>(inst.s[0])[lane] : warp.at<std::uint32_t>(inst.s[0])[lane];
    };
    Mask result[lanes]{};
    bool all = true;
    for (Mask m = here; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        for (Mask n = here; n != 0; n &= n - 1)
            if (value(static_cast<unsigned>(std::countr_zero(n))) == value(lane)) result[lane] |= n & -n;
        all &= result[lane] == here;
    }
    auto* d = warp.at<std::uint32_t>(inst.d);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        d[lane] = inst.code == 0 ? result[lane] : all ? here : 0;
    }
    if (inst.code == 1) assign(warp, inst.d2, active, all ? all_lanes : 0);
    return Flow::next;
}

// Written by lower.py into the code bits.
enum class ReduceOp : std::uint8_t { add, min_u, max_u, min_s, max_s, and_, or_, xor_, min_f, max_f };

Flow redux(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[1], active, members)) return Flow::fault;
    if (const auto flow = warp.converge(active, members); flow != Flow::next) return flow;
    const auto* value = warp.at<std::uint32_t>(inst.s[0]);
    const auto op = static_cast<ReduceOp>(inst.code);
    const Mask here = active & members;
    std::uint32_t sum = 0;
    bool first = true;
    bool saw_nan = false;
    for (Mask m = here; m != 0; m &= m - 1) {
        std::uint32_t v = value[std::countr_zero(m)];
        if (op == ReduceOp::min_f || op == ReduceOp::max_f) {
            if (inst.modifiers.abs()) v &= 0x7fffffffu;
            const auto f = std::bit_cast<float>(v), s = std::bit_cast<float>(sum);
            const bool nan = f != f;
            saw_nan |= nan;
            if (nan) continue;
            // -0 orders below +0, as in min and max.
            const bool less = f < s || (f == s && (v >> 31) > (sum >> 31));
            if (first || (op == ReduceOp::min_f ? less : !less)) sum = v;
            first = false;
            continue;
        }
        if (first) {
            sum = v;
            first = false;
            continue;
        }
        const auto signed_less = static_cast<std::int32_t>(v) < static_cast<std::int32_t>(sum);
        switch (op) {
            case ReduceOp::add: sum += v; break;
            case ReduceOp::min_u: sum = std::min(sum, v); break;
            case ReduceOp::max_u: sum = std::max(sum, v); break;
            case ReduceOp::min_s: sum = signed_less ? v : sum; break;
            case ReduceOp::max_s: sum = signed_less ? sum : v; break;
            case ReduceOp::and_: sum &= v; break;
            case ReduceOp::or_: sum |= v; break;
            case ReduceOp::xor_: sum ^= v; break;
            default: break;
        }
    }
    if (saw_nan && (first || inst.modifiers.nan())) sum = 0x7fffffffu;
    auto* d = warp.at<std::uint32_t>(inst.d);
    for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = sum;
    return Flow::next;
}

// elect.sync d|p, mask: the lowest member is elected.
Flow elect(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[0], active, members)) return Flow::fault;
    if (const auto flow = warp.converge(active, members); flow != Flow::next) return flow;
    const Mask here = active & members;
    const auto leader = static_cast<std::uint32_t>(std::countr_zero(here));
    if (inst.d != no_operand) {
        auto* d = warp.at<std::uint32_t>(inst.d);
        for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = leader;
    }
    assign(warp, inst.d2, active, here & -here);
    return Flow::next;
}

Flow active_mask(Warp& warp, const Inst& inst, Mask active) {
    auto* d = warp.at<std::uint32_t>(inst.d);
    for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = active;
    return Flow::next;
}

Flow sync_warp(Warp& warp, const Inst& inst, Mask active) {
    Mask members = 0;
    if (!members_of(warp, inst.s[0], active, members)) return Flow::fault;
    if (auto* observer = warp.block().shared().observer) observer->barrier({warp.where(), BarrierKind::warp, 0, active});
    return warp.sync_lanes(inst, active, members);
}

constexpr std::array table{
    Operation{"shfl", shuffle}, Operation{"vote", vote}, Operation{"match", match}, Operation{"redux", redux},
    Operation{"elect", elect}, Operation{"activemask", active_mask}, Operation{"bar.warp.sync", sync_warp},
};

}  // namespace

std::span<const Operation> warp_operations() { return table; }

}  // namespace wmmadiag
