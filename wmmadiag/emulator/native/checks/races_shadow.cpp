// The shadow of shared memory (and of a page of global memory): looks for races, then remembers the access.
#include <algorithm>
#include <cstring>

#include "races.hpp"

namespace wmmadiag::races {

// One granule that may hold a race.
void Races::inspect(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto me = access.where.warp;
    const auto& warp = b.warps[me];
    const bool writes = access.role != Role::read;
    const auto mine = lane;
    const Stamp w = cells.write[g];
    // Two strong accesses are no data race; atomics alone order themselves.
    const auto both_strong = [&](const Entry& other) { return access.strong() && other.strength != strength::weak; };
    const auto both_atomic = [&](const Entry& other) { return (access.strength & other.strength & strength::read_modify_write) != 0; };
    const auto in_order = [&](Stamp other) { return after_in_coherence(b, me, space, address, b.index, other); };
    if ((w & in_flight) != 0) {
        const auto& copy = b.copies[(w & ~in_flight) >> warp_bits];
        const auto& owner = b.warps[copy.warp];
        const bool own = copy.warp == me && !access.whole && copy.lane == lane;
        report(writes ? "in-flight-write" : "in-flight-read", b, access, lane, {b.index, copy.warp, copy.lane, copy.pc, 0, 0}, space, address,
               {own,
                copy.waits == owner.waits                       ? 0
                : copy.group >= owner.waited_commits[copy.lane] ? 1
                                                                : 2,
                owner.last_wait == no_pc ? -1 : static_cast<std::int64_t>(owner.last_wait), owner.last_pending,
                static_cast<std::int64_t>(owner.waited_commits[copy.lane]) - static_cast<std::int64_t>(copy.group)},
               false);
    } else if ((w & warp_mask) != me) {
        if (w > b.all_known && !knows(b, me, w) && !both_atomic(entry(b, w)) && !in_order(w)) {
            const auto& other = entry(b, w);
            const bool same = writes && unchanged(b, access, lane, space, address);
            const bool mixed = ((access.strength | other.strength) & strength::read_modify_write) != 0;
            const std::string_view kind = both_strong(other)                    ? "relaxed"
                                          : warp.acquirable[w & warp_mask] >= w ? "no-acquire"
                                          : access.role == Role::read           ? "read-write"
                                          : same                                ? "write-same"
                                          : mixed                               ? "atomic-write"
                                                                                : "write-write";
            report(kind, b, access, lane, earlier_of(b, w, cells.write_lane[g]), space, address, {1, flag_passed(b, me, w)}, false);
        }
    } else if (w > warp.lanes_known) {
        const auto other = cells.write_lane[g];
        if (other != mine && !lane_knows(warp, me, lane, other, w) && !both_atomic(entry(b, w)) && w != access.stamp) {
            const bool same = writes && unchanged(b, access, lane, space, address);
            if (!same)
                report(both_strong(entry(b, w)) ? "lanes-relaxed"
                       : writes                 ? "lanes-write-write"
                                                : "lanes-read-write",
                       b, access, lane, earlier_of(b, w, other), space, address, {1}, false);
        }
    }
    if (!writes) return;
    for (const auto* reads : {cells.read, cells.other_read}) {
        const Stamp r = reads[g];
        if ((r & warp_mask) != me) {
            if (r > b.all_known && !knows(b, me, r) && !both_atomic(entry(b, r)) && !in_order(r))
                report(both_strong(entry(b, r))              ? "relaxed"
                       : warp.acquirable[r & warp_mask] >= r ? "no-acquire"
                       : access.role == Role::atomic         ? "atomic-read"
                                                             : "read-write",
                       b, access, lane, earlier_of(b, r, reads == cells.read ? cells.read_lane[g] : nobody), space, address,
                       {0, flag_passed(b, me, r)}, true);
        } else if (r > std::max(warp.met, warp.lanes_known) && reads == cells.read) {
            const auto other = tiles_ ? unknown_reader(b, me, space, address, lane) : cells.read_lane[g];
            if (other != mine && other != whole_warp && other != nobody && !access.whole && !both_atomic(entry(b, r)) &&
                !lane_knows(warp, me, lane, other, r))
                report(both_strong(entry(b, r)) ? "lanes-relaxed" : "lanes-read-write", b, access, lane, earlier_of(b, r, other), space, address, {0},
                       true);
        }
    }
}

// Whether a flag has told of it, though no fence stood there.
std::int64_t Races::flag_passed(const BlockState& b, unsigned warp, Stamp other) const { return b.warps[warp].hinted[other & warp_mask] >= other; }

// Where warps part into groups that synchronise: when each lane has read these granules last.
void Races::remember_lanes(BlockState& b, const Access& access, const MemoryEvent& event, unsigned shift) {
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto end = event.addresses[lane] + event.bytes;
        for (auto g = event.addresses[lane] >> shift; g << shift < end; ++g)
            b.lane_reads[lane_key(event.space, access.where.warp, g)][lane] = access.stamp;
    }
}

// A lane of the warp that has read there, and with which this lane has not synchronised since; or nobody.
std::uint32_t Races::unknown_reader(const BlockState& b, unsigned index, Space space, std::uint64_t address, unsigned lane) const {
    const auto at = b.lane_reads.find(lane_key(space, index, address >> (space == Space::global ? global_shift_ : shared_shift_)));
    if (at == b.lane_reads.end()) return nobody;
    const auto& warp = b.warps[index];
    for (unsigned l = 0; l < lanes; ++l) {
        const bool known = lane < lanes && warp.pairs != nullptr && (*warp.pairs)[lane * lanes + l] >= at->second[l];
        if (l != lane && at->second[l] > std::max(warp.met, warp.lanes_known) && !known) return l;
    }
    return nobody;
}

// `other_read` is about to be overwritten by warp `me`: what another warp read there, and not all know, is kept on the side.
void Races::remember_third(BlockState& b, const Stamp* other_read, unsigned me) {
    const Stamp old = *other_read;
    if (old <= b.all_known || (old & warp_mask) == me) return;
    auto& more = b.more_reads[other_read];
    for (auto& stamp : more)
        if ((stamp & warp_mask) == (old & warp_mask)) {
            stamp = old;
            return;
        }
    more.push_back(old);
}

void Races::other_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first,
                          std::size_t count, unsigned shift, const Lane* lane_of) {
    const auto me = access.where.warp;
    for (std::size_t i = 0; i < count; ++i) {
        const auto g = first + i;
        if (!b.more_writes.empty()) other_atomics(b, access, cells, space, base + (i << shift), g, lane_of[i]);
        if (!partly_) continue;
        if (access.role != Role::read && !b.more_reads.empty()) third_readers(b, access, cells, space, base + (i << shift), g, lane_of[i]);
        if (access.role != Role::write && cells.read[g] > b.all_known && (cells.read[g] & warp_mask) != me)
            remember_third(b, cells.other_read + g, me);
    }
}

// Atomics of other warps that its own have followed: by them nothing is ordered.
void Races::other_atomics(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto at = b.more_writes.find(cells.write + g);
    if (at == b.more_writes.end() || (access.strength & strength::read_modify_write) != 0) return;
    const auto me = access.where.warp;
    for (const Stamp w : at->second) {
        if ((w & warp_mask) == me || w <= b.all_known || knows(b, me, w) || after_in_coherence(b, me, space, address, b.index, w)) continue;
        report(access.strong()                              ? "relaxed"
               : b.warps[me].acquirable[w & warp_mask] >= w ? "no-acquire"
               : access.role == Role::read                  ? "read-write"
                                                            : "atomic-write",
               b, access, lane, earlier_of(b, w, nobody), space, address, {1, flag_passed(b, me, w)}, false);
    }
}

void Races::third_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto at = b.more_reads.find(cells.other_read + g);
    if (at == b.more_reads.end()) return;
    const auto me = access.where.warp;
    for (const Stamp r : at->second) {
        const bool both = access.strong() && entry(b, r).strength != strength::weak;
        if ((r & warp_mask) == me || r <= b.all_known || knows(b, me, r)) continue;
        if ((access.strength & entry(b, r).strength & strength::read_modify_write) != 0) continue;
        if (after_in_coherence(b, me, space, address, b.index, r)) continue;
        report(both                          ? "relaxed"
               : access.role == Role::atomic ? "atomic-read"
                                             : "read-write",
               b, access, lane, earlier_of(b, r, nobody), space, address, {0, flag_passed(b, me, r)}, true);
    }
}

// Eight granules at once: what compilers make of the loops below it they unroll before they vectorise it.
using Eight = Stamp __attribute__((vector_size(8 * sizeof(Stamp))));

// By reference: how such a vector is returned differs between processors, and a compiler for those without AVX warns of it.
inline void load(const std::uint32_t* from, Eight& to) { std::memcpy(&to, from, sizeof to); }
inline void store(std::uint32_t* to, const Eight& value) { std::memcpy(to, &value, sizeof value); }
inline bool none(const Eight& value) {
    std::array<std::uint64_t, sizeof(Eight) / 8> words;
    std::memcpy(words.data(), &value, sizeof value);
    return (words[0] | words[1] | words[2] | words[3]) == 0;
}

// Whether one of these stamps is newer than what is known: for the warp's own, than `own`; for others, than `others`.
inline bool newer(const Stamp* at, std::size_t count, Stamp me, Stamp own, Stamp others) {
    std::uint32_t bad = 0;
    std::size_t i = 0;
    if (count >= 8) {
        Eight some{};
        for (; i + 8 <= count; i += 8) {
            Eight stamps;
            load(at + i, stamps);
            some |= (stamps & warp_mask) == me ? stamps > own : stamps > others;
        }
        if (!none(some)) return true;
    }
    for (; i < count; ++i) bad |= static_cast<std::uint32_t>(at[i] > ((at[i] & warp_mask) == me ? own : others));
    return bad != 0;
}

// `n` granules from `first`, lane_of[i] the lane that touches each: looks for races, then remembers the access. A number that is known
// when compiling makes the short accesses of single lanes fast.
template <std::size_t fixed>
void Races::touch_some(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t n,
                       unsigned shift, const Lane* lane_of) {
    const std::size_t count = fixed == 0 ? n : fixed;
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, own = warp.lanes_known;
    const Stamp read_limit = std::max(own, warp.met);
    auto* const __restrict write = cells.write + first;
    auto* const __restrict read = cells.read + first;
    auto* const __restrict other_read = cells.other_read + first;
    const bool writes = access.role != Role::read;
    if (newer(write, count, me, own, others) ||
        (writes && (newer(read, count, me, read_limit, others) || newer(other_read, count, me, read_limit, others))))
        for (std::size_t i = 0; i < count; ++i) {
            // What a lane wrote and read itself is the usual case here, and no race.
            const auto lane = lane_of[i];
            const auto harmless = [&](Stamp at, std::uint32_t by) { return at <= others || ((at & (warp_mask | in_flight)) == me && by == lane); };
            if (harmless(write[i], cells.write_lane[first + i]) &&
                (!writes || (harmless(read[i], cells.read_lane[first + i]) && other_read[i] <= others)))
                continue;
            inspect(b, access, cells, space, base + (i << shift), first + i, lane);
        }
    if (partly_ || atomics_) [[unlikely]]
        other_readers(b, access, cells, space, base, first, count, shift, lane_of);
    remember<fixed>(b, access, cells, first, n, lane_of);
}

// Writes an access into the shadow.
template <std::size_t fixed>
void Races::remember(BlockState& b, const Access& access, const Cells& cells, std::size_t first, std::size_t n, const Lane* lane_of) {
    const std::size_t count = fixed == 0 ? n : fixed;
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, s = access.stamp;
    const Stamp read_limit = std::max(warp.lanes_known, warp.met);
    if (access.role != Role::read) {
        auto* const __restrict write = cells.write + first;
        // A copy in flight stays marked: whatever comes before its wait is unordered with it, too. So does a plain write of this warp
        // under its own atomic, with which other atomics are no race.
        if (access.role == Role::atomic) {
            for (std::size_t i = 0; i < count; ++i) {
                const Stamp w = write[i];
                if (w > others && (w & in_flight) == 0 && (w & warp_mask) != me && (entry(b, w).strength & strength::read_modify_write) != 0) {
                    // Of each instruction of a warp the newest: who knows that one knows all.
                    auto& more = b.more_writes[cells.write + first + i];
                    const auto same = std::find_if(more.begin(), more.end(),
                                                   [&](Stamp one) { return ((one ^ w) & warp_mask) == 0 && entry(b, one).pc == entry(b, w).pc; });
                    if (same == more.end()) more.push_back(w);
                    else *same = w;
                }
                const bool kept = (w & in_flight) != 0 || ((w & warp_mask) == me && w > others && entry(b, w).strength == strength::weak);
                write[i] = kept ? w : s;
            }
        } else {
            std::size_t i = 0;
            for (; i + 8 <= count; i += 8) {
                Eight w;
                load(write + i, w);
                store(write + i, (w & in_flight) != 0 ? w : Eight{} + s);
            }
            for (; i < count; ++i) write[i] = (write[i] & in_flight) != 0 ? write[i] : s;
        }
        std::copy_n(lane_of, count, cells.write_lane + first);
    }
    if (access.role == Role::write) return;
    auto* const __restrict read = cells.read + first;
    auto* const __restrict other_read = cells.other_read + first;
    auto* const __restrict read_lane = cells.read_lane + first;
    std::size_t i = 0;
    for (; warp.pairs == nullptr && i + 8 <= count; i += 8) {
        Eight r, old, mine, other;
        load(read + i, r), load(read_lane + i, old), load(lane_of + i, mine), load(other_read + i, other);
        const auto ours = (r & warp_mask) == me, take = (r <= others) | ours;
        const auto lane = (ours & (r > read_limit) & (old != mine)) != 0 ? Eight{} + several_lanes : mine;
        store(read_lane + i, take ? lane : old);
        store(other_read + i, take ? other : Eight{} + s);
        store(read + i, take ? Eight{} + s : r);
    }
    for (; i < count; ++i) {
        const Stamp r = read[i];
        const Lane old = read_lane[i], mine = lane_of[i];
        const bool ours = (r & warp_mask) == me, take = r <= others || ours;
        const bool beside = ours && r > read_limit && old != mine && !lane_knows(warp, me, mine, old, r);
        const Lane lane = beside ? Lane{several_lanes} : mine;
        read_lane[i] = take ? lane : old;
        other_read[i] = take ? other_read[i] : s;
        read[i] = take ? s : r;
    }
}

// Lines of a fragment, `fixed` granules each, that do not follow each other: looked at together. False: something may be a race.
template <std::size_t fixed>
bool Races::touch_lines(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event) {
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, own = warp.lanes_known, read_limit = std::max(own, warp.met);
    const bool writes = access.role != Role::read;
    Eight bad{};
    const auto look = [&](const Stamp* at, Stamp limit) {
        for (std::size_t i = 0; i < fixed; i += 8) {
            Eight stamps;
            load(at + i, stamps);
            bad |= (stamps & warp_mask) == me ? stamps > limit : stamps > others;
        }
    };
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto first = static_cast<std::size_t>(event.addresses[std::countr_zero(m)] >> shared_shift_);
        look(cells.write + first, own);
        if (writes) look(cells.read + first, read_limit), look(cells.other_read + first, read_limit);
    }
    if (!none(bad)) return false;
    for (Mask m = event.active; m != 0; m &= m - 1)
        remember<fixed>(b, access, cells, static_cast<std::size_t>(event.addresses[std::countr_zero(m)] >> shared_shift_), fixed, whole_.data());
    return true;
}

bool Races::touch_fragment(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event) {
    const auto first = static_cast<unsigned>(std::countr_zero(event.active));
    if (partly_ || (first + 1 < lanes && event.addresses[first + 1] == event.addresses[first] + event.bytes)) return false;
    switch (event.bytes >> shared_shift_) {
        case 8: return touch_lines<8>(b, access, cells, event);
        case 16: return touch_lines<16>(b, access, cells, event);
        case 32: return touch_lines<32>(b, access, cells, event);
        default: return false;
    }
}

void Races::touch(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
                  unsigned shift, const Lane* lane_of) {
    switch (count) {
        case 1: return touch_some<1>(b, access, cells, space, base, first, count, shift, lane_of);
        case 2: return touch_some<2>(b, access, cells, space, base, first, count, shift, lane_of);
        case 4: return touch_some<4>(b, access, cells, space, base, first, count, shift, lane_of);
        case 8: return touch_some<8>(b, access, cells, space, base, first, count, shift, lane_of);
        case 16: return touch_some<16>(b, access, cells, space, base, first, count, shift, lane_of);
        default: return touch_some<0>(b, access, cells, space, base, first, count, shift, lane_of);
    }
}

// The same for lanes that touch a few granules here and there: a loop without calls, but for what looks like a race.
template <bool writes, unsigned count>
void Races::touch_scattered(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event) {
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, own = warp.lanes_known, s = access.stamp;
    const Stamp read_limit = std::max(own, warp.met);
    const auto shift = shared_shift_;
    const bool partly = partly_, more = partly_ || atomics_;
    auto* const __restrict write = cells.write;
    auto* const __restrict read = cells.read;
    auto* const __restrict other_read = cells.other_read;
    auto* const __restrict write_lane = cells.write_lane;
    auto* const __restrict read_lane = cells.read_lane;
    const auto unknown = [=](Stamp at, Stamp limit, Lane by, unsigned lane) {
        return at > others && ((at & in_flight) != 0 || (at & warp_mask) != me || (at > limit && by != lane));
    };
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto mine = static_cast<Lane>(lane);
        const auto first = static_cast<std::size_t>(event.addresses[lane] >> shift);
        for (std::size_t i = 0; i < count; ++i) {
            const auto g = first + i;
            const Stamp w = write[g], r = read[g];
            if (unknown(w, own, write_lane[g], lane) || (writes && (unknown(r, read_limit, read_lane[g], lane) || other_read[g] > others)))
                inspect(b, access, cells, Space::shared, event.addresses[lane] + (i << shift), g, lane);
            if (more && !b.more_writes.empty()) other_atomics(b, access, cells, Space::shared, event.addresses[lane] + (i << shift), g, lane);
            if constexpr (writes) {
                if (partly && !b.more_reads.empty()) third_readers(b, access, cells, Space::shared, event.addresses[lane] + (i << shift), g, lane);
                write[g] = (w & in_flight) != 0 ? w : s;
                write_lane[g] = mine;
            } else {
                const bool ours = (r & warp_mask) == me;
                if (r <= others || ours) {
                    const bool beside = ours && r > read_limit && read_lane[g] != mine && !lane_knows(warp, me, mine, read_lane[g], r);
                    read_lane[g] = beside ? Lane{several_lanes} : mine;
                    read[g] = s;
                } else {
                    if (partly) remember_third(b, cells.other_read + g, access.where.warp);
                    other_read[g] = s;
                }
            }
        }
    }
}

void Races::touch_lanes(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event) {
    const bool writes = access.role == Role::write;
    const auto go = [&]<unsigned count>() {
        if (writes) touch_scattered<true, count>(b, access, cells, event);
        else touch_scattered<false, count>(b, access, cells, event);
    };
    switch (event.bytes >> shared_shift_) {
        case 0:
        case 1: return go.template operator()<1>();
        case 2: return go.template operator()<2>();
        case 3: return go.template operator()<3>();
        default: return go.template operator()<4>();
    }
}

}  // namespace wmmadiag::races
