// Operations between the lanes of a warp: shfl, vote, match, redux, elect, activemask, bar.warp.sync.
#include <array>

#include "block.hpp"
#include "lane_exchange.hpp"

namespace wmmadiag {

namespace {

void assign(Warp& warp, Operand predicate, Mask active, Mask value) {
    if (predicate == no_operand) return;
    auto& p = *warp.at<Mask>(predicate);
    p = (p & ~active) | (value & active);
}

// Calls body(lanes, members) for each set of active lanes that name the same members and are all here. Lanes that run together may name
// different members: the tiles of a cooperative group do. Sets that are not complete wait at this instruction.
template <class Body>
Flow for_members(Warp& warp, Operand operand, Mask active, Body&& body) {
    const auto* mask = warp.at<std::uint32_t>(operand);
    Mask waiting = 0;
    for (Mask left = active; left != 0;) {
        const Mask members = mask[std::countr_zero(left)];
        const Mask here = left & lanes_with(mask, members);
        left &= ~here;
        if ((members & warp.live() & ~here) != 0) {
            waiting |= here;
            continue;
        }
        if (auto* observer = warp.block().observer()) observer->meet(warp.where(), here, members);
        body(here, members);
    }
    return waiting == 0 ? Flow::next : warp.wait_here(waiting);
}

// Undefined in PTX: the value of a lane that does not run along. 0 on an H100, for lanes elsewhere, returned ones, and those that a
// block of fewer threads has not; of lanes that run along with another mask it takes the value (tests/emulator/test_warp_operations.py).
void shuffle_members(Warp& warp, const Inst& inst, Mask active, Mask along) {
    const auto* value = warp.at<std::uint32_t>(inst.s[0]);
    std::uint32_t result[lanes];
    Mask inside = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        const auto from = shuffle_source(warp, inst, lane);
        if (from.inside) inside |= Mask{1} << lane;
        result[lane] = (along >> from.lane & 1) != 0 ? value[from.lane] : 0;
    }
    if (inst.d != no_operand) {
        auto* d = warp.at<std::uint32_t>(inst.d);
        for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = result[std::countr_zero(m)];
    }
    assign(warp, inst.d2, active, inside);
}

Flow shuffle(Warp& warp, const Inst& inst, Mask active) {
    return for_members(warp, inst.s[3], active, [&](Mask here, Mask) { shuffle_members(warp, inst, here, active); });
}

enum class VoteMode : std::uint8_t { all, any, uni, ballot };

// s: predicate, member mask; guard_invert-like negation of the predicate is in the modifiers.
void vote_members(Warp& warp, const Inst& inst, Mask active, [[maybe_unused]] Mask members) {
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
}

Flow vote(Warp& warp, const Inst& inst, Mask active) {
    return for_members(warp, inst.s[1], active, [&](Mask here, Mask members) { vote_members(warp, inst, here, members); });
}

// s: value, member mask. code 0: any, 1: all. bytes: 4 or 8.
void match_members(Warp& warp, const Inst& inst, Mask active, [[maybe_unused]] Mask members) {
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
}

Flow match(Warp& warp, const Inst& inst, Mask active) {
    return for_members(warp, inst.s[1], active, [&](Mask here, Mask members) { match_members(warp, inst, here, members); });
}

// Written by lower.py into the code bits.
enum class ReduceOp : std::uint8_t { add, min_u, max_u, min_s, max_s, and_, or_, xor_, min_f, max_f };

void redux_members(Warp& warp, const Inst& inst, Mask active, [[maybe_unused]] Mask members) {
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
}

Flow redux(Warp& warp, const Inst& inst, Mask active) {
    return for_members(warp, inst.s[1], active, [&](Mask here, Mask members) { redux_members(warp, inst, here, members); });
}

// elect.sync d|p, mask: the lowest member is elected.
void elect_members(Warp& warp, const Inst& inst, Mask active, [[maybe_unused]] Mask members) {
    const Mask here = active & members;
    const auto leader = static_cast<std::uint32_t>(std::countr_zero(here));
    if (inst.d != no_operand) {
        auto* d = warp.at<std::uint32_t>(inst.d);
        for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = leader;
    }
    assign(warp, inst.d2, active, here & -here);
}

Flow elect(Warp& warp, const Inst& inst, Mask active) {
    return for_members(warp, inst.s[0], active, [&](Mask here, Mask members) { elect_members(warp, inst, here, members); });
}

Flow active_mask(Warp& warp, const Inst& inst, Mask active) {
    auto* d = warp.at<std::uint32_t>(inst.d);
    for (Mask m = active; m != 0; m &= m - 1) d[std::countr_zero(m)] = active;
    return Flow::next;
}

Flow sync_warp(Warp& warp, const Inst& inst, Mask active) {
    if (auto* observer = warp.block().observer()) observer->barrier({warp.where(), BarrierKind::warp, 0, active});
    return warp.sync_lanes(inst, active);
}

constexpr std::array table{
    Operation{"shfl", shuffle},
    Operation{"vote", vote},
    Operation{"match", match},
    Operation{"redux", redux},
    Operation{"elect", elect},
    Operation{"activemask", active_mask},
    Operation{"bar.warp.sync", sync_warp},
};

}  // namespace

std::span<const Operation> warp_operations() { return table; }

}  // namespace wmmadiag
