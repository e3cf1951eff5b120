// What warps and lanes know of each other: stamps, barriers, fences, atomics, mbarriers.
#include "races.hpp"

namespace wmmadiag::races {

Stamp Races::stamp(BlockState& b, const Where& where, bool strong) {
    auto& warp = b.warps[where.warp];
    auto& [epoch, value] = warp.stamps[where.pc];
    if (epoch == warp.epoch) return value;
    if (b.sequence >= last_sequence) compact(b);
    ++b.sequence;
    b.entries.push_back({where.pc, strong});
    epoch = warp.epoch;
    value = b.sequence << warp_bits | where.warp;
    return value;
}

// Starts the sequence anew: everything until now counts as known. Only after 2^26 stamps in one block.
void Races::compact(BlockState& b) {
    for (auto* cells : {&b.write, &b.read, &b.other_read})
        for (auto& s : *cells)
            if ((s & in_flight) == 0) s = 0;
    b.entries.clear();
    b.sequence = b.base = 0;
    b.all_known = warp_mask;
    for (auto& warp : b.warps) {
        warp.known.fill(warp_mask);
        warp.fenced.fill(0);
        warp.acquirable.fill(0);
        warp.hinted.fill(0);
        warp.lanes_known = warp.met = warp_mask;
        ++warp.epoch;
    }
    b.released.clear();
    b.more_reads.clear();
    for (auto& phase : b.phases) phase.gathered.fill(0), phase.fenced.fill(0);
    pages_.clear();
    last_page_data_ = nullptr;
    last_page_ = ~std::uint64_t{0};
}

// Atomics and strong accesses: a write there tells what was known at the writer's last fence; a read there learns it at the next fence or
// barrier, or at once where it acquires.
void Races::synchronise(BlockState& b, const MemoryEvent& event, const Inst& inst) {
    auto& warp = b.warps[event.where.warp];
    const bool writes = event.kind != AccessKind::load, reads = event.kind != AccessKind::store;
    const bool acquires = (inst.flags & flag::acquire) != 0, releases = (inst.flags & flag::release) != 0;
    const Stamp now = b.sequence << warp_bits | event.where.warp;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto address = event.addresses[std::countr_zero(m)];
        auto& at = b.released[{event.space, address}];
        if (reads) {
            join(acquires ? warp.known : warp.acquirable, at.known);
            join(warp.hinted, at.hinted);
        }
        if (writes) {
            join(at.hinted, warp.known);
            join(at.hinted, warp.hinted);
            at.hinted[event.where.warp] = now;
            join(at.known, releases ? warp.known : warp.fenced);
            if (releases) at.known[event.where.warp] = now;
        }
        if (event.space == Space::global && !shared_.tracking) publish(b, warp, address, reads, writes, acquires, releases);
    }
    if (writes && releases) ++b.epoch;
    if (writes) ++warp.epoch;
}

// The same between blocks, in epochs of whole blocks.
void Races::publish(BlockState& b, const WarpState& warp, std::uint64_t address, bool reads, bool writes, bool acquires, bool releases) {
    auto& epochs = released_blocks_[address];
    if (reads) join(acquires ? b.ordered_blocks : b.acquirable_blocks, epochs);
    if (!writes || (!releases && warp.fence_epoch == 0)) return;
    auto& own = epochs[b.index];
    own = std::max(own, releases ? b.epoch : warp.fence_epoch);
    join(epochs, b.ordered_blocks);
}

// A fence or a barrier: what relaxed reads have seen is known from here on.
void Races::acquire(BlockState& b, WarpState& warp) {
    join(warp.known, warp.acquirable);
    join(b.ordered_blocks, b.acquirable_blocks);
    b.acquirable_blocks.clear();
}

// A phase of an mbarrier: who waits for it learns what those knew who arrived in it and before.
void Races::mbarrier(const MbarrierEvent& event) {
    auto& b = state_of(event.where.block);
    const auto w = event.where.warp;
    auto& warp = b.warps[w];
    const auto& machines = b.block->warps();
    Mask passed = 0;
    Stamp together = ~Stamp{0};
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto& at = b.released[{event.space, event.addresses[lane]}];
        const bool done = (event.done >> lane & 1) != 0;
        switch (event.kind) {
            case MbarrierKind::init: at = {}; break;
            case MbarrierKind::arrive:
                join(at.gathered, warp.known);
                at.gathered[w] = b.sequence << warp_bits | w;
                if (at.arrived[w] == 0) at.first[w] = at.gathered[w];
                at.arrived[w] |= Mask{1} << lane;
                if (done) {
                    join(at.known, at.gathered);
                    for (unsigned v = 0; v < machines.size(); ++v)
                        if (at.arrived[v] != 0 && (machines[v].live() & ~at.arrived[v]) == 0) at.together[v] = std::max(at.together[v], at.first[v]);
                    at.gathered.fill(0);
                    at.arrived.fill(0);
                }
                break;
            case MbarrierKind::wait:
                if (!done) break;
                join(warp.known, at.known);
                passed |= Mask{1} << lane;
                together = std::min(together, at.together[w]);
                break;
        }
    }
    if (passed != 0 && (machines[w].live() & ~passed) == 0) warp.lanes_known = std::max(warp.lanes_known, together);
    if (event.kind != MbarrierKind::wait) ++warp.epoch;
}

void Races::tensor(const TensorEvent& event) {
    auto& b = state_of(event.where.block);
    b.warps[event.where.warp].met = b.sequence << warp_bits | warp_mask;
}

void Races::meet(const Where& where, Mask here, Mask) {
    auto& b = state_of(where.block);
    const auto live = b.block->warps()[where.warp].live();
    if ((here & live) == live) b.warps[where.warp].met = b.sequence << warp_bits | warp_mask;
}

void Races::fence(const Where& where, Mask) {
    auto& b = state_of(where.block);
    auto& warp = b.warps[where.warp];
    acquire(b, warp);
    warp.fenced = warp.known;
    warp.fenced[where.warp] = b.sequence << warp_bits | where.warp;
    warp.fence_epoch = b.epoch++;
    ++warp.epoch;
}

void Races::whole_barrier(BlockState& b) {
    const Stamp now = b.sequence << warp_bits | warp_mask;
    b.all_known = now;
    for (auto& warp : b.warps) {
        warp.known.fill(now);
        warp.lanes_known = warp.met = now;
        warp.arrived = 0;
        warp.pairs = nullptr;
        ++warp.epoch;
    }
    b.more_reads.clear();
    if (b.entries.size() > (1u << 16)) {
        b.entries.clear();
        b.base = b.sequence;
    }
}

void Races::barrier(const BarrierEvent& event) {
    auto& b = state_of(event.where.block);
    if (event.kind == BarrierKind::warp) {
        auto& warp = b.warps[event.where.warp];
        const auto& machine = b.block->warps()[event.where.warp];
        const auto& inst = shared_.program->code()[event.where.pc];
        const auto live = machine.live();
        const Mask members = machine.at<std::uint32_t>(inst.s[0])[std::countr_zero(event.active)];
        warp.arrived |= event.active;
        if ((members & live & ~warp.arrived) != 0) return;
        warp.arrived &= ~members;
        if (synchronises_) acquire(b, warp);
        const Stamp now = b.sequence << warp_bits | event.where.warp;
        ++warp.epoch;
        if ((live & ~members) == 0) {
            warp.lanes_known = warp.met = now;
            return;
        }
        if (warp.pairs == nullptr) {
            if (!warp.pairs_storage) warp.pairs_storage = std::make_unique<std::array<Stamp, lanes * lanes>>();
            warp.pairs = warp.pairs_storage.get();
            warp.pairs->fill(0);
        }
        std::array<Stamp, lanes> sum{};
        for (Mask m = members; m != 0; m &= m - 1)
            for (unsigned l = 0; l < lanes; ++l) sum[l] = std::max(sum[l], (*warp.pairs)[static_cast<unsigned>(std::countr_zero(m)) * lanes + l]);
        for (Mask m = members; m != 0; m &= m - 1) sum[std::countr_zero(m)] = now;
        for (Mask m = members; m != 0; m &= m - 1)
            std::copy(sum.begin(), sum.end(), warp.pairs->begin() + static_cast<std::ptrdiff_t>(static_cast<unsigned>(std::countr_zero(m)) * lanes));
        return;
    }
    auto& phase = b.phases[event.barrier];
    const auto& machines = b.block->warps();
    if (event.kind != BarrierKind::release) {
        const auto w = event.where.warp;
        auto& warp = b.warps[w];
        phase.arrived[w] |= event.active;
        if (event.kind == BarrierKind::wait) phase.waiting[w] |= event.active;
        if (!partly_) return;
        phase.counted |= shared_.program->code()[event.where.pc].s[1] != no_operand;
        if (synchronises_) acquire(b, warp);
        join(phase.gathered, warp.known);
        join(phase.fenced, warp.fenced);
        phase.gathered[w] = std::max(phase.gathered[w], b.sequence << warp_bits | w);
        phase.fence_epoch = std::max(phase.fence_epoch, warp.fence_epoch);
        ++warp.epoch;  // what it does after an arrival comes after it
        return;
    }
    bool everyone = true;
    for (unsigned w = 0; w < machines.size(); ++w)
        everyone &= (machines[w].live() & ~phase.waiting[w]) == 0 && !(phase.counted && phase.waiting[w] == 0);
    if (synchronises_)
        for (unsigned w = 0; w < machines.size(); ++w)
            if (phase.waiting[w] != 0) {
                join(b.warps[w].fenced, phase.fenced);
                b.warps[w].fence_epoch = std::max(b.warps[w].fence_epoch, phase.fence_epoch);
            }
    if (everyone) {
        whole_barrier(b);
    } else {
        for (unsigned w = 0; w < machines.size(); ++w) {
            if (phase.waiting[w] == 0) continue;  // those that only arrived learn nothing
            join(b.warps[w].known, phase.gathered);
            if ((machines[w].live() & ~phase.waiting[w]) == 0) b.warps[w].lanes_known = b.warps[w].met = b.sequence << warp_bits | w;
            ++b.warps[w].epoch;
        }
    }
    phase = {};
}

}  // namespace wmmadiag::races
