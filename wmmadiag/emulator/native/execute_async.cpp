// cp.async and mbarrier.
#include <algorithm>
#include <array>
#include <span>

#include "access.hpp"

namespace wmmadiag {

namespace {

// Copies of a warp in flight. A chip ends them without being asked, and a loop that never waits must not take all memory.
constexpr std::size_t most_in_flight = 4096;

// Lets the copies of `mask`'s lanes land whose group is below `until[lane]`, of the first `count` copies.
void land(Warp& warp, Mask mask, const std::array<std::uint32_t, lanes>& until, std::size_t count = most_in_flight) {
    auto* memory = warp.block().shared_memory();
    for (auto& copy : std::span(warp.copies).first(std::min(count, warp.copies.size()))) {
        Mask landed = 0;
        for (Mask m = copy.lanes_left & mask; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            if (copy.group[lane] >= until[lane]) continue;
            std::memcpy(memory + copy.destination[lane], copy.data.data() + std::size_t{lane} * copy.bytes, copy.bytes);
            landed |= m & -m;
        }
        copy.lanes_left &= ~landed;
        if (landed != 0 && warp.block().observer() != nullptr) {
            Addresses seen{};
            for (unsigned l = 0; l < lanes; ++l) seen.lane[l] = copy.destination[l];
            auto where = warp.where();
            where.pc = copy.pc;
            warp.block().observer()->memory({where, Space::shared, AccessKind::async_store, landed, copy.bytes, seen.lane});
        }
    }
    std::erase_if(warp.copies, [](const AsyncCopy& copy) { return copy.lanes_left == 0; });
}

void land_all(Warp& warp, Mask mask, std::size_t count = most_in_flight) {
    std::array<std::uint32_t, lanes> until;
    until.fill(0xffffffffu);
    land(warp, mask, until, count);
}

// s: destination (shared), source (global), bytes to read or no_operand, "ignore source" predicate or no_operand.
// extra: offset of the source, low and high word. bytes: copied; the rest of what is not read is zero.
Flow copy_async(Warp& warp, const Inst& inst, Mask active) {
    Addresses to, from;
    compute_addresses(warp, inst, to);
    add_offset(warp.at<std::uint64_t>(inst.s[1]), inst.extra[0] | std::uint64_t{inst.extra[1]} << 32, from);
    AsyncCopy copy{warp.pc(), active, inst.bytes, {}, {}, std::vector<std::byte>(std::size_t{inst.bytes} * lanes)};

    Mask ignored = 0;
    if (inst.s[3] != no_operand) ignored = *warp.at<Mask>(inst.s[3]) ^ (inst.modifiers.neg_c() ? all_lanes : 0);
    const std::uint32_t* sizes = inst.s[2] == no_operand ? nullptr : warp.at<std::uint32_t>(inst.s[2]);
    const auto size_of = [&](unsigned lane) { return (ignored >> lane & 1) != 0 ? 0u : sizes == nullptr ? std::uint32_t{inst.bytes} : sizes[lane]; };
    // Lanes that read the same number of bytes are checked together.
    for (Mask left = active; left != 0;) {
        const auto bytes = size_of(static_cast<unsigned>(std::countr_zero(left)));
        Mask same = 0;
        for (Mask m = left; m != 0; m &= m - 1)
            if (size_of(static_cast<unsigned>(std::countr_zero(m))) == bytes) same |= m & -m;
        left &= ~same;
        if (bytes > inst.bytes)
            return warp.fail(FaultKind::bad_operand, same,
                             "cp.async: source size " + std::to_string(bytes) + " of a copy of " + std::to_string(inst.bytes) + " bytes");
        if (bytes == 0) continue;
        const auto flow = access(warp, Space::global, same, from, bytes, inst.bytes, AccessKind::async_load, [&](unsigned lane, const std::byte* p) {
            std::memcpy(copy.data.data() + std::size_t{lane} * inst.bytes, p, bytes);
        });
        if (flow != Flow::next) return flow;
    }
    const auto memory = reinterpret_cast<std::uintptr_t>(warp.block().shared_memory());
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto offset = to.lane[lane] - (space_of(to.lane[lane]) == Space::shared ? shared_window : 0);
        if (offset % inst.bytes != 0) return warp.fail_access(FaultKind::misaligned, lane, Space::shared, offset, inst.bytes, true);
        const auto* there = resolve_one(warp, Space::shared, lane, offset, inst.bytes, true);
        if (there == nullptr) return Flow::fault;
        // One that passes though it belongs nowhere is not done.
        if (reinterpret_cast<std::uintptr_t>(there) != memory + offset) copy.lanes_left &= ~(Mask{1} << lane);
        copy.destination[lane] = static_cast<std::uint32_t>(offset);
        copy.group[lane] = warp.commits[lane];
    }
    if (auto* observer = warp.block().observer())
        observer->async({warp.where(), AsyncKind::issue, active, inst.bytes, copy.destination.data(), copy.group.data(), 0});
    if (warp.copies.size() == most_in_flight) land_all(warp, all_lanes, most_in_flight / 2);
    warp.copies.push_back(std::move(copy));
    if (warp.block().shared().spec.eager_copies) land_all(warp, active);
    return Flow::next;
}

Flow commit_group(Warp& warp, const Inst&, Mask active) {
    if (auto* observer = warp.block().observer()) observer->async({warp.where(), AsyncKind::commit, active, 0, nullptr, nullptr, 0});
    for (Mask m = active; m != 0; m &= m - 1) ++warp.commits[std::countr_zero(m)];
    return Flow::next;
}

// immediate: groups that may stay in flight; -1: wait for all copies, committed or not.
Flow wait_group(Warp& warp, const Inst& inst, Mask active) {
    std::array<std::uint32_t, lanes> until;
    if (inst.immediate < 0) {
        until.fill(0xffffffffu);
        if (auto* observer = warp.block().observer())
            observer->async({warp.where(), AsyncKind::wait, active, 0, nullptr, until.data(), inst.immediate});
        land_all(warp, active);
        return Flow::next;
    }
    for (unsigned l = 0; l < lanes; ++l)
        until[l] = static_cast<std::uint32_t>(std::max<std::int64_t>(0, std::int64_t{warp.commits[l]} - inst.immediate));
    if (auto* observer = warp.block().observer()) observer->async({warp.where(), AsyncKind::wait, active, 0, nullptr, until.data(), inst.immediate});
    land(warp, active, until);
    return Flow::next;
}

// The 64 bits of an mbarrier object: opaque to PTX, so this layout is ours.
struct MBarrier {
    std::uint64_t phase : 1;
    std::uint64_t expected : 17;
    std::uint64_t pending : 17;
    std::uint64_t mark : 8;   // `initialised`, which neither zeros nor the poison of fresh memory contain
    std::int64_t bytes : 21;  // that copies are yet to bring in this phase
};
static_assert(sizeof(MBarrier) == 8);

constexpr std::uint32_t initialised = 0x5a;

constexpr std::uint32_t max_count = (1u << 17) - 1;  // PTX has 2^20 - 1; a cluster has 2^14 threads

// Whether that completed the phase.
bool arrive(MBarrier& barrier, std::uint32_t count) {
    barrier.pending -= std::min<std::uint32_t>(count, barrier.pending);
    if (barrier.pending != 0 || barrier.bytes != 0) return false;
    barrier.phase ^= 1u;
    barrier.pending = barrier.expected;
    return true;
}

}  // namespace

void write_mbarrier(std::byte* to, std::uint32_t count) {
    MBarrier barrier{};
    barrier.mark = initialised;
    barrier.expected = barrier.pending = count;
    std::memcpy(to, &barrier, sizeof barrier);
}

namespace {

enum class BarrierOp : std::uint8_t {
    init,
    inval,
    arrive,
    arrive_drop,
    test_wait,
    try_wait,
    async_arrive,
    async_arrive_noinc,
    expect_tx,
    complete_tx
};

// s: address, then count or state or parity. d: state, or the predicate of a wait. flag wide_state: s[1] is a state token.
Flow mbarrier(Warp& warp, const Inst& inst, Mask active) {
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const auto op = static_cast<BarrierOp>(inst.code);
    if (op == BarrierOp::async_arrive || op == BarrierOp::async_arrive_noinc) {
        if (auto* observer = warp.block().observer()) observer->async({warp.where(), AsyncKind::arrive, active, 0, nullptr, nullptr, -1});
        land_all(warp, active);
    }
    const bool waits = op == BarrierOp::test_wait || op == BarrierOp::try_wait;
    Mask done = 0;
    Mask bad = 0;
    const auto flow =
        access(warp, inst.space, active, addresses, 8, 8, waits ? AccessKind::load : AccessKind::atomic, [&](unsigned lane, std::byte* p) {
            MBarrier barrier;
            std::memcpy(&barrier, p, sizeof barrier);
            const auto token = barrier;
            const auto operand = [&]() -> std::uint32_t { return inst.s[1] == no_operand ? 1u : warp.at<std::uint32_t>(inst.s[1])[lane]; };
            if (op == BarrierOp::init) {
                const auto count = operand();
                if (count == 0 || count > max_count) bad |= Mask{1} << lane;
                barrier = {};
                barrier.mark = initialised;
                barrier.expected = barrier.pending = count & max_count;
            } else if (barrier.mark != initialised) {
                bad |= Mask{1} << lane;
            } else {
                switch (op) {
                    case BarrierOp::inval: barrier.mark = 0; break;
                    case BarrierOp::arrive_drop: barrier.expected -= std::min<std::uint32_t>(operand(), barrier.expected); [[fallthrough]];
                    case BarrierOp::arrive: done |= Mask{arrive(barrier, operand())} << lane; break;
                    case BarrierOp::expect_tx: barrier.bytes += operand(); break;
                    case BarrierOp::complete_tx:
                        barrier.bytes -= operand();
                        done |= Mask{arrive(barrier, 0)} << lane;
                        break;
                    case BarrierOp::async_arrive_noinc: done |= Mask{arrive(barrier, 1)} << lane; break;
                    case BarrierOp::test_wait:
                    case BarrierOp::try_wait: {
                        std::uint32_t phase = 0;
                        if (inst.flags & flag::wide_state) {
                            const auto state = warp.at<std::uint64_t>(inst.s[1])[lane];
                            phase = static_cast<std::uint32_t>(state & 1u);
                        } else {
                            phase = operand() & 1u;
                        }
                        if (barrier.phase != phase) done |= Mask{1} << lane;
                        break;
                    }
                    default: break;
                }
            }
            if (!waits) std::memcpy(p, &barrier, sizeof barrier);
            if (!waits && inst.d != no_operand) std::memcpy(&warp.at<std::uint64_t>(inst.d)[lane], &token, sizeof token);
        });
    if (flow != Flow::next) return flow;
    if (bad != 0)
        return warp.fail(FaultKind::bad_operand, bad,
                         op == BarrierOp::init ? "mbarrier.init: the count is 0 or too large" : "no mbarrier.init has made an mbarrier here");
    warp.block().at_mbarrier(!waits || done != 0);
    if (auto* observer = warp.block().observer()) {
        const auto kind = waits                        ? MbarrierKind::wait
                          : op == BarrierOp::init      ? MbarrierKind::init
                          : op == BarrierOp::inval     ? MbarrierKind::inval
                          : op == BarrierOp::expect_tx ? MbarrierKind::expect
                                                       : MbarrierKind::arrive;
        auto space = inst.space;
        Addresses seen = addresses;
        if (space == Space::generic) {
            space = space_of(addresses.lane[std::countr_zero(active)]);
            for (Mask m = active; m != 0; m &= m - 1) seen.lane[std::countr_zero(m)] -= window_of(space);
        }
        observer->mbarrier({warp.where(), kind, space, active, seen.lane, done});
    }
    if (waits) {
        auto& d = *warp.at<Mask>(inst.d);
        d = (d & ~active) | done;
        if (done != active) return Flow::yield;
    }
    return Flow::next;
}

Flow pending_count(Warp& warp, const Inst& inst, Mask active) {
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = std::countr_zero(m);
        MBarrier token;
        std::memcpy(&token, &warp.at<std::uint64_t>(inst.s[0])[lane], sizeof token);
        warp.at<std::uint32_t>(inst.d)[lane] = token.pending;
    }
    return Flow::next;
}

constexpr std::array async_table{
    Operation{"cp.async", copy_async}, Operation{"cp.async.commit_group", commit_group},   Operation{"cp.async.wait_group", wait_group},
    Operation{"mbarrier", mbarrier},   Operation{"mbarrier.pending_count", pending_count},
};

}  // namespace

std::span<const Operation> async_operations() { return async_table; }

}  // namespace wmmadiag
