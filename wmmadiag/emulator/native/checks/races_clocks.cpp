// What warps and lanes know of each other: stamps, barriers, fences, atomics, mbarriers.
#include <utility>

#include "races.hpp"

namespace wmmadiag::races {

Access Races::access_of(BlockState& b, const Where& where, Role role, std::uint8_t strength, bool whole) {
    const Stamp s = stamp(b, where, strength);
    return {where, role, strength, whole, s, ++b.warps[where.warp].stamps[where.pc].passes};
}

Stamp Races::stamp(BlockState& b, const Where& where, std::uint8_t strength) {
    auto& warp = b.warps[where.warp];
    if (auto& latest = warp.stamps[where.pc]; latest.epoch == warp.epoch) return latest.stamp;
    if (b.sequence >= last_sequence) compact(b);
    auto& latest = warp.stamps[where.pc];
    ++b.sequence;
    b.entries.push_back({where.pc, strength, latest.passes + 1});
    latest.epoch = warp.epoch;
    latest.stamp = b.sequence << warp_bits | where.warp;
    return latest.stamp;
}

// Only after 2^26 stamps in one block.
void Races::compact(BlockState& b) {
    for (auto* cells : {&b.write, &b.read, &b.other_read})
        for (auto& s : *cells)
            if ((s & in_flight) == 0) s = 0;
    b.begin_sequence();
    for (auto& phase : b.phases) phase.gathered.fill(0), phase.fenced.fill(0);
    pages_.clear();
    coherence_.clear();
    parties_ = 0;
    foreigners_.resize(1);
    unions_.clear();
    of_stamp_.clear();
    last_page_data_ = nullptr;
    last_page_ = ~std::uint64_t{0};
}

// Atomics and strong accesses: a write there tells what was known at the writer's last fence; a read there learns it at the next fence or
// barrier, or at once where it acquires (release and acquire patterns). A read-modify-write passes on what others released there before.
void Races::synchronise(BlockState& b, const MemoryEvent& event, const Inst& inst) {
    auto& warp = b.warps[event.where.warp];
    const bool writes = event.kind != AccessKind::load, reads = event.kind != AccessKind::store;
    const bool looks = reads && (inst.flags & flag::unseen) == 0;
    const bool acquires = (inst.flags & flag::acquire) != 0, releases = (inst.flags & flag::release) != 0;
    const bool device_wide = (inst.flags & flag::block_scope) == 0;
    const Stamp now = b.sequence << warp_bits | event.where.warp;
    const auto party = std::uint64_t{b.index} << 32 | event.where.warp;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto address = event.addresses[lane];
        auto& places = event.space == Space::global ? coherence_ : b.coherence;
        if (parties_ < most_parties || places.count(address) != 0)
            cohere(places[address], party, looks, event.kind == AccessKind::store, writes, now);
        if (!synchronises_) continue;
        auto& at = b.released[{event.space, address}];
        if (reads) {
            join(acquires ? warp.known : warp.acquirable, at.known);
            if (between_) join(acquires ? warp.foreign : warp.foreign_acquirable, at.foreign);
            join(warp.hinted, at.hinted);
            hear(warp, event.where.warp, lane, at, acquires);
        }
        if (writes) {
            if (!reads) at.known.fill(0), at.foreign.reset(), at.of_lanes.clear();
            tell(warp, event.where.warp, lane, at, releases ? now : warp.lane_fenced[lane]);
            join(at.hinted, warp.known);
            join(at.hinted, warp.hinted);
            at.hinted[event.where.warp] = now;
            join(at.known, releases ? warp.known : warp.fenced);
            if (releases) at.known[event.where.warp] = now;
            if (between_ && (releases || warp.fenced[event.where.warp] != 0)) join(at.foreign, warp.foreign);
        }
        if (event.space != Space::global || !between_ || !device_wide) continue;
        auto& there = released_[address];
        if (reads) {
            if (acquires) learn(b, warp, there);
            else join(warp.foreign_acquirable, there);
        }
        if (writes) {
            if (!reads) there.reset();
            join(there, releases ? own_view(b, warp, event.where.warp) : warp.foreign_fenced);
        }
    }
    if (writes) ++warp.epoch;
}

// All that a warp knows, as other blocks are told it.
Foreign Races::own_view(const BlockState& b, const WarpState& warp, std::uint32_t index) const {
    auto own = std::make_shared<Clock>(warp.known);
    (*own)[index] = b.sequence << warp_bits | index;
    Foreign made = std::make_shared<View>(View{{b.index, std::move(own)}});
    join(made, warp.foreign);
    return made;
}

void Races::learn(const BlockState& b, WarpState& warp, const Foreign& from) {
    join(warp.foreign, from);
    if (const auto* own = clock_of(from, b.index)) join(warp.known, *own);
}

// A fence or a barrier: what relaxed reads have seen is known from here on.
void Races::acquire(BlockState& b, WarpState& warp, bool device_wide) {
    join(warp.known, warp.acquirable);
    if (!device_wide || !warp.foreign_acquirable) return;
    learn(b, warp, warp.foreign_acquirable);
    warp.foreign_acquirable.reset();
}

Pairs& Races::pairs_of(WarpState& warp) {
    if (warp.pairs == nullptr) {
        if (!warp.pairs_storage) warp.pairs_storage = std::make_unique<Pairs>();
        warp.pairs = warp.pairs_storage.get();
        warp.pairs->fill(0);
    }
    return *warp.pairs;
}

// A lane reads where others of its warp have released: it knows what they did before, `at_once` or from its next fence on.
void Races::hear(WarpState& warp, std::uint32_t index, unsigned lane, const Released& at, bool at_once) {
    const auto found = at.of_lanes.find(index);
    if (found == at.of_lanes.end()) return;
    const auto& told = found->second;
    Stamp newest = 0;
    for (unsigned l = 0; l < lanes; ++l) newest = std::max(newest, l == lane ? 0 : told[l]);
    if (newest <= warp.lanes_known) return;
    if (!at_once && !warp.acquirable_pairs) warp.acquirable_pairs = std::make_unique<Pairs>(Pairs{});
    auto& to = at_once ? pairs_of(warp) : *warp.acquirable_pairs;
    for (unsigned l = 0; l < lanes; ++l) to[lane * lanes + l] = std::max(to[lane * lanes + l], told[l]);
}

// A lane writes where others may look: `until` there it has released what it did; 0: it has not.
void Races::tell(const WarpState& warp, std::uint32_t index, unsigned lane, Released& at, Stamp until) {
    if (until == 0) return;
    auto& told = at.of_lanes[index];
    told[lane] = std::max(told[lane], until);
    if (warp.pairs == nullptr) return;
    for (unsigned l = 0; l < lanes; ++l) told[l] = std::max(told[l], (*warp.pairs)[lane * lanes + l]);
}

void Races::acquire_lanes(WarpState& warp, Mask active) {
    if (!warp.acquirable_pairs) return;
    auto& from = *warp.acquirable_pairs;
    auto& to = pairs_of(warp);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto row = static_cast<unsigned>(std::countr_zero(m)) * lanes;
        for (unsigned l = 0; l < lanes; ++l) to[row + l] = std::max(to[row + l], std::exchange(from[row + l], 0));
    }
}

// Whether a lane, or each of several, knows what another did until then; of several others: what all lanes of the warp did.
bool Races::lane_knows(const WarpState& warp, std::uint32_t index, Lane lane, Lane other, Stamp stamp) const {
    if (warp.pairs == nullptr) return false;
    const auto threads = static_cast<std::uint32_t>(shared_.spec.block.count());
    const auto there = std::min<std::uint32_t>(lanes, threads - index * lanes);
    const auto all = [there](Lane one, const auto& holds) {
        if (one < lanes) return holds(one);
        for (Lane l = 0; l < there; ++l)
            if (!holds(l)) return false;
        return true;
    };
    return all(lane, [&](Lane a) { return all(other, [&](Lane b) { return a == b || (*warp.pairs)[a * lanes + b] >= stamp; }); });
}

// Making and ending an mbarrier are plain writes of it: whatever else is done with it has to come after the one and before the other. What
// comes before it is made in this very run has ended the run; here is told what may in another.
void Races::life_of_mbarrier(BlockState& b, const MbarrierEvent& event, const Access& access, unsigned lane, Released& at) {
    const auto me = event.where.warp;
    const bool writes = access.role == Role::write;
    const auto address = event.addresses[lane];
    const auto& warp = b.warps[me];
    if (at.made > b.all_known && at.made != access.stamp && (at.told >> me & 1u) == 0) {
        const bool own = (at.made & warp_mask) == me;
        const bool known =
            own ? at.made_lane == lane || at.made <= warp.lanes_known || lane_knows(warp, me, lane, at.made_lane, at.made) : knows(b, me, at.made);
        at.told |= std::uint32_t{!known} << me;
        if (!known)
            report(writes ? "mbarrier-made-twice"
                   : own  ? "lanes-mbarrier-made"
                          : "mbarrier-made",
                   b, access, lane, earlier_of(b, at.made, at.made_lane), event.space, address, {}, false);
    }
    if (!writes) {
        at.used[me] = access.stamp;
        return;
    }
    for (unsigned w = 0; w < b.warps.size(); ++w)
        if (w != me && at.used[w] > b.all_known && !knows(b, me, at.used[w]))
            report("mbarrier-ended", b, access, lane, earlier_of(b, at.used[w], nobody), event.space, address, {}, false);
    at.made = access.stamp;
    at.made_lane = lane;
    at.told = 0;
}

// A phase of an mbarrier: who waits for it learns what those knew who arrived in it and before.
void Races::mbarrier(const MbarrierEvent& event) {
    auto& b = state_of(event.where.block);
    const auto w = event.where.warp;
    auto& warp = b.warps[w];
    const auto& machines = b.block->warps();
    Mask passed = 0;
    Stamp together = ~Stamp{0};
    const bool plain = event.kind == MbarrierKind::init || event.kind == MbarrierKind::inval;
    const auto access = access_of(b, event.where, plain ? Role::write : Role::atomic, strength::weak, false);
    ++events_;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto& at = b.released[{event.space, event.addresses[lane]}];
        const bool done = (event.done >> lane & 1) != 0;
        if (!reversal_) life_of_mbarrier(b, event, access, lane, at);
        switch (event.kind) {
            case MbarrierKind::inval:
            case MbarrierKind::expect: break;
            case MbarrierKind::init: {
                Released fresh;
                fresh.made = at.made;
                fresh.made_lane = at.made_lane;
                at = std::move(fresh);
                break;
            }
            case MbarrierKind::arrive:
                join(at.gathered, warp.known);
                join(at.gathered_foreign, warp.foreign);
                at.gathered[w] = b.sequence << warp_bits | w;
                at.of_lanes[w][lane] = at.gathered[w];
                if (at.arrived[w] == 0) at.first[w] = at.gathered[w];
                at.arrived[w] |= Mask{1} << lane;
                if (!done && (machines[w].live() & ~at.arrived[w]) == 0) {  // all of them, and there may be another round
                    at.whole[w] = at.first[w];
                    at.arrived[w] = 0;
                }
                if (done) {
                    join(at.known, at.gathered);
                    join(at.foreign, at.gathered_foreign);
                    for (unsigned v = 0; v < machines.size(); ++v) {
                        if (at.arrived[v] != 0 && (machines[v].live() & ~at.arrived[v]) == 0) at.whole[v] = at.first[v];
                        at.together[v] = std::max(at.together[v], at.whole[v]);
                    }
                    at.whole.fill(0);
                    at.gathered.fill(0);
                    at.gathered_foreign.reset();
                    at.arrived.fill(0);
                }
                break;
            case MbarrierKind::wait:
                if (!done) break;
                join(warp.known, at.known);
                join(warp.foreign, at.foreign);
                passed |= Mask{1} << lane;
                together = std::min(together, at.together[w]);
                if (const auto own = at.of_lanes.find(w); own != at.of_lanes.end())  // what lanes of its own did before they arrived
                    for (unsigned l = 0; l < lanes; ++l) {
                        auto& known = pairs_of(warp)[lane * lanes + l];
                        known = std::max(known, own->second[l]);
                    }
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

void Races::fence(const Where& where, Mask active) {
    auto& b = state_of(where.block);
    auto& warp = b.warps[where.warp];
    const auto flags = shared_.program->code()[where.pc].flags;
    const bool device_wide = (flags & flag::block_scope) == 0;
    if ((flags & flag::acquire) != 0) {
        acquire(b, warp, device_wide);
        acquire_lanes(warp, active);
    }
    if ((flags & flag::release) != 0) {
        for (Mask m = active; m != 0; m &= m - 1) warp.lane_fenced[static_cast<unsigned>(std::countr_zero(m))] = b.sequence << warp_bits | where.warp;
        warp.fenced = warp.known;
        warp.fenced[where.warp] = b.sequence << warp_bits | where.warp;
        if (between_ && device_wide) join(warp.foreign_fenced, own_view(b, warp, where.warp));
        warp.behind_fence = device_wide;
    }
    ++warp.epoch;
}

void Races::whole_barrier(BlockState& b) {
    const Stamp now = b.sequence << warp_bits | warp_mask;
    b.all_known = now;
    Foreign all;
    if (between_ && synchronises_)
        for (std::size_t w = 0; w < b.warps.size(); ++w)  // most know what the one before them knows, from the last barrier
            if (w == 0 || b.warps[w].foreign != b.warps[w - 1].foreign) join(all, b.warps[w].foreign);
    for (auto& warp : b.warps) {
        warp.known.fill(now);
        warp.foreign = all;
        warp.lanes_known = warp.met = now;
        warp.arrived = 0;
        warp.pairs = nullptr;
        ++warp.epoch;
    }
    b.more_reads.clear();
    b.more_writes.clear();
    b.lane_reads.clear();
    if (b.entries.size() > (1u << 16)) {
        b.entries.clear();
        b.base = b.sequence;
    }
}

// bar.warp.sync of lanes that name the same members.
void Races::sync_lanes(BlockState& b, std::uint32_t index, Mask here, Mask members) {
    auto& warp = b.warps[index];
    const auto live = b.block->warps()[index].live();
    warp.arrived |= here;
    if ((members & live & ~warp.arrived) != 0) return;
    warp.arrived &= ~members;
    if (synchronises_) {
        acquire(b, warp, true);
        acquire_lanes(warp, members);
    }
    const Stamp now = b.sequence << warp_bits | index;
    ++warp.epoch;
    if ((live & ~members) == 0) {
        warp.lanes_known = warp.met = now;
        return;
    }
    auto& pairs = pairs_of(warp);
    std::array<Stamp, lanes> sum{};
    for (Mask m = members; m != 0; m &= m - 1)
        for (unsigned l = 0; l < lanes; ++l) sum[l] = std::max(sum[l], pairs[static_cast<unsigned>(std::countr_zero(m)) * lanes + l]);
    for (Mask m = members; m != 0; m &= m - 1) sum[std::countr_zero(m)] = now;
    for (Mask m = members; m != 0; m &= m - 1)
        std::copy(sum.begin(), sum.end(), pairs.begin() + static_cast<std::ptrdiff_t>(static_cast<unsigned>(std::countr_zero(m)) * lanes));
}

void Races::barrier(const BarrierEvent& event) {
    auto& b = state_of(event.where.block);
    if (event.kind == BarrierKind::warp) {
        const auto& inst = shared_.program->code()[event.where.pc];
        const auto* masks = b.block->warps()[event.where.warp].at<std::uint32_t>(inst.s[0]);
        for (Mask left = event.active; left != 0;) {  // the tiles of a group pass one instruction with masks of their own
            const Mask members = masks[std::countr_zero(left)], here = left & lanes_with(masks, members);
            left &= ~here;
            sync_lanes(b, event.where.warp, here, members);
        }
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
        if (synchronises_) acquire(b, warp, true);
        join(phase.gathered, warp.known);
        join(phase.fenced, warp.fenced);
        join(phase.foreign, warp.foreign);
        join(phase.foreign_fenced, warp.foreign_fenced);
        phase.gathered[w] = std::max(phase.gathered[w], b.sequence << warp_bits | w);
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
                join(b.warps[w].foreign_fenced, phase.foreign_fenced);
            }
    if (everyone) {
        whole_barrier(b);
    } else {
        for (unsigned w = 0; w < machines.size(); ++w) {
            if (phase.waiting[w] == 0) continue;  // those that only arrived learn nothing
            join(b.warps[w].known, phase.gathered);
            join(b.warps[w].foreign, phase.foreign);
            if ((machines[w].live() & ~phase.waiting[w]) == 0) b.warps[w].lanes_known = b.warps[w].met = b.sequence << warp_bits | w;
            ++b.warps[w].epoch;
        }
    }
    phase = {};
}

}  // namespace wmmadiag::races
