// The check itself: what the program needs, which events touch what, and what is reported.
#include <algorithm>
#include <cstring>

#include "races.hpp"

namespace wmmadiag::races {

void Races::survey() {
    const auto code = shared_.program->code();
    const auto* ld = find_operation("ld");
    const auto* st = find_operation("st");
    const auto* atom = find_operation("atom");
    const auto* mbarrier = find_operation("mbarrier");
    const auto* fence = find_operation("fence");
    const auto* copy = find_operation("cp.async");
    const auto* barrier = find_operation("bar.sync");
    const auto* arrive = find_operation("bar.arrive");
    mbarrier_ = mbarrier->execute;
    store_ = st->execute;
    atom_ = atom->execute;
    const char* names[] = {"wmma.load", "wmma.store", "ldmatrix", "stmatrix"};
    for (unsigned i = 0; i < 4; ++i) collective_[i] = find_operation(names[i])->execute;
    const auto narrow = [&](Space space, std::uint32_t bytes) {
        const auto shift = static_cast<unsigned>(std::countr_zero(std::max(bytes, 1u)));
        if (space == Space::shared || space == Space::generic) shared_shift_ = std::min(shared_shift_, shift);
        if (space == Space::global || space == Space::generic) global_shift_ = std::min(global_shift_, shift);
    };
    for (const auto& inst : code) {
        if (inst.execute == ld->execute || inst.execute == st->execute) narrow(inst.space, std::uint32_t{inst.bytes} * inst.count);
        else if (inst.execute == atom->execute) narrow(inst.space, 2);
        else if (inst.execute == mbarrier->execute) narrow(inst.space, 8);
        else if (inst.execute == copy->execute) narrow(Space::shared, 4), narrow(Space::global, 4);
        else if (inst.execute == collective_[0] || inst.execute == collective_[1]) narrow(inst.space, 4);
        partly_ |= (inst.execute == barrier->execute || inst.execute == arrive->execute) && inst.s[1] != no_operand;
        synchronises_ |= inst.execute == mbarrier->execute || (fence != nullptr && inst.execute == fence->execute);
        synchronises_ |= (inst.execute == ld->execute || inst.execute == st->execute || inst.execute == atom->execute) &&
                         (inst.flags & (flag::acquire | flag::release)) != 0;
    }
    partly_ |= synchronises_;
}

void Races::block_start(const Block& block) {
    auto made = spare_ ? std::move(spare_) : std::make_unique<BlockState>();
    auto& b = *made;
    const auto cells = (std::size_t{shared_.spec.shared_base} + shared_.spec.shared_bytes + 15) / 16 * 16 >> shared_shift_;
    b.block = &block;
    b.index = block.index();
    b.warps.resize(block.warps().size());
    b.sequence = b.base = 0;
    b.all_known = warp_mask;
    for (auto& warp : b.warps) {
        warp.known.fill(warp_mask);
        warp.fenced.fill(0);
        warp.acquirable.fill(0);
        warp.hinted.fill(0);
        warp.fence_epoch = 0;
        warp.lanes_known = warp.met = warp_mask;
        warp.arrived = 0;
        warp.commits.fill(0);
        warp.copies.clear();
        warp.last_wait = no_pc;
        warp.last_pending = 0;
        warp.waits = 0;
        warp.waited_commits.fill(0);
        warp.pairs = nullptr;
        ++warp.epoch;  // which makes the stamps of the block before stale
        warp.stamps.resize(shared_.program->code().size(), {0, 0});
    }
    b.entries.clear();
    b.write.assign(cells, 0);
    b.read.assign(cells, 0);
    b.other_read.assign(cells, 0);
    b.write_lane.assign(cells, 0);
    b.read_lane.assign(cells, 0);
    b.copies.clear();
    b.free_copies.clear();
    b.phases.fill({});
    b.released.clear();
    b.ordered_blocks.clear();
    b.acquirable_blocks.clear();
    b.epoch = 1;
    b.more_reads.clear();
    last_ = made.get();
    states_[b.index] = std::move(made);
}

void Races::block_end(const Block& block) {
    const auto at = states_.find(block.index());
    if (at == states_.end()) return;
    if (last_ == at->second.get()) last_ = nullptr;
    spare_ = std::move(at->second);
    states_.erase(at);
}

BlockState& Races::state_of(std::uint32_t block) {
    if (last_ == nullptr || last_->index != block) last_ = states_.at(block).get();
    return *last_;
}

void Races::report(const char* kind, const BlockState& b, const Access& access, unsigned lane, std::uint32_t other_pc, std::uint32_t other_warp,
                   std::uint32_t other_lane, Space space, std::uint64_t address, std::vector<std::int64_t> values, bool swapped) {
    // `swapped`: the other access is named first, so that a pair has one order whichever ran first.
    auto pc = access.where.pc;
    std::uint32_t warp = access.where.warp, first_lane = lane;
    if (swapped) {
        std::swap(pc, other_pc);
        std::swap(warp, other_warp);
        std::swap(first_lane, other_lane);
    }
    const auto key = std::make_tuple(std::string(kind), pc, other_pc, space);
    auto [at, fresh] = found_.try_emplace(key);
    if (fresh) {
        auto& f = at->second;
        f.check = "races";
        f.kind = kind;
        f.pc = pc;
        f.other_pc = other_pc;
        f.space = space;
        f.address = address;
        f.bytes = std::uint64_t{1} << (space == Space::global ? global_shift_ : shared_shift_);
        f.block = b.index;
        f.warp = warp;
        f.lane = first_lane;
        f.other_warp = other_warp;
        f.other_lane = other_lane;
        f.values = std::move(values);
    } else if (values.size() == 5 && values[1] == at->second.values[1]) {  // in flight: the groups that the worst case leaves to wait for
        auto& age = at->second.values[4];
        age = std::min(age, values[4]);
    }
    auto& event = counted_[key];
    if (event != events_) ++at->second.count;
    event = events_;
}

// Whether a plain or fragment store writes what is there already: then no order changes the result.
bool Races::unchanged(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address) const {
    const auto& inst = shared_.program->code()[access.where.pc];
    const bool fragment = inst.execute == collective_[1];
    if ((inst.execute != store_ && !fragment) || (lane >= lanes && !fragment) || access.role != Role::write) return false;
    const auto& warp = b.block->warps()[access.where.warp];
    const auto granule = std::size_t{1} << (space == Space::global ? global_shift_ : shared_shift_);
    const std::byte* here = nullptr;
    if (space == Space::shared) {
        here = b.block->shared_memory() + address;
    } else {
        const auto* allocation = shared_.memory->find(address);
        if (allocation == nullptr || !allocation->region.holds(address, fragment ? granule : 1)) return false;
        here = allocation->region.host + (address - allocation->region.base);
    }
    if (fragment) return fragment_store_keeps(warp, inst, address, {here, granule});
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    auto start = addresses.lane[lane];
    if (inst.space == Space::generic) start -= window_of(space_of(start));
    if (address < start) return false;
    const auto element = (address - start) / inst.bytes, within = (address - start) % inst.bytes;
    if (element >= inst.count) return false;
    const auto* from = warp.at<std::byte>(inst.extra[element]) + std::size_t{lane} * inst.register_bytes + within;
    const auto length = std::min<std::size_t>(granule, inst.bytes - within);
    return std::memcmp(here, from, length) == 0;
}

// Two lanes of one store that write different values to one place: which of them stays is undefined.
void Races::same_instruction(BlockState& b, const MemoryEvent& event) {
    const auto& inst = shared_.program->code()[event.where.pc];
    if (inst.execute != store_ || std::popcount(event.active) < 2) return;
    std::uint64_t previous = 0;
    bool ascending = true, first = true;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto a = event.addresses[std::countr_zero(m)];
        ascending &= first || a >= previous + event.bytes;
        previous = a;
        first = false;
    }
    if (ascending) return;
    std::array<std::pair<std::uint64_t, unsigned>, lanes> sorted;
    unsigned n = 0;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        sorted[n++] = {event.addresses[lane], lane};
    }
    std::sort(sorted.begin(), sorted.begin() + n);
    const auto& warp = b.block->warps()[event.where.warp];
    for (unsigned i = 1; i < n; ++i) {
        if (sorted[i].first >= sorted[i - 1].first + event.bytes) continue;
        bool differ = false;  // addresses are aligned to the access, so lanes overlap wholly or not at all
        for (unsigned e = 0; e < inst.count; ++e) {
            const auto* from = warp.at<std::byte>(inst.extra[e]);
            differ |= std::memcmp(from + std::size_t{sorted[i].second} * inst.register_bytes,
                                  from + std::size_t{sorted[i - 1].second} * inst.register_bytes, std::min(inst.bytes, inst.register_bytes)) != 0;
        }
        if (!differ) continue;
        report("one-instruction", b, {event.where, Role::write, false, false, 0}, sorted[i].second, event.where.pc, event.where.warp,
               sorted[i - 1].second, event.space, sorted[i].first, {}, false);
    }
}

void Races::memory(const MemoryEvent& event) {
    if (event.space == Space::local || event.kind == AccessKind::async_store || event.active == 0) return;
    auto& b = state_of(event.where.block);
    const auto& inst = shared_.program->code()[event.where.pc];
    ++events_;
    if (event.space == Space::generic) {  // lanes in several spaces: one by one
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            Addresses one{};
            const auto space = space_of(event.addresses[lane]);
            one.lane[lane] = event.addresses[lane] - window_of(space);
            memory({event.where, space, event.kind, m & -m, event.bytes, one.lane});
        }
        return;
    }
    const bool whole = inst.execute == collective_[0] || inst.execute == collective_[1];
    const bool matrix = whole || inst.execute == collective_[2] || inst.execute == collective_[3];
    if (matrix) b.warps[event.where.warp].met = b.sequence << warp_bits | warp_mask;
    const auto role = event.kind == AccessKind::atomic ? Role::atomic : event.kind == AccessKind::store ? Role::write : Role::read;
    if (inst.execute == mbarrier_) return;
    const bool strong = role == Role::atomic || (inst.flags & flag::strong) != 0;
    if (strong && synchronises_) synchronise(b, event, inst);
    if (event.space == Space::global) {
        // While blocks run in parallel no buffer is both read and written, or the launch is run again in order.
        if (role == Role::read && (shared_.tracking || (inst.flags & flag::read_only) != 0)) return;
        if (role == Role::read) {
            const auto* allocation = shared_.memory->find(event.addresses[std::countr_zero(event.active)]);
            if (allocation != nullptr && !allocation->region.writable) return;
        }
    } else {
        const auto end = std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes;
        std::uint64_t beyond = 0;  // out of bounds: the run is about to end
        if (event.active == all_lanes) {
            for (unsigned l = 0; l < lanes; ++l) beyond |= static_cast<std::uint64_t>(event.addresses[l] + event.bytes > end);
        } else {
            for (Mask m = event.active; m != 0; m &= m - 1)
                beyond |= static_cast<std::uint64_t>(event.addresses[std::countr_zero(m)] + event.bytes > end);
        }
        if (beyond != 0) return;
    }
    const Access access{event.where, role, strong, matrix, stamp(b, event.where, strong)};
    const bool global = event.space == Space::global;
    const auto shift = global ? global_shift_ : shared_shift_;
    const auto cells = shared_cells(b);
    const auto go = [&](std::uint64_t address, std::uint32_t bytes, const Lane* lane_of) {
        if (global) touch_global(b, access, address, bytes, lane_of);
        else touch(b, access, cells, Space::shared, address, address >> shift, std::max<std::size_t>(bytes >> shift, 1), shift, lane_of);
    };
    const auto* addresses = event.addresses;
    const auto bytes = event.bytes;
    if (!matrix && event.active == all_lanes) {
        std::uint64_t apart = 0, astride = 0;
        for (unsigned l = 0; l < lanes; ++l) {
            apart |= addresses[l] ^ addresses[0];
            astride |= addresses[l] ^ (addresses[0] + std::uint64_t{l} * bytes);
        }
        if (apart == 0 && role == Role::read) return go(addresses[0], bytes, several_.data());
        if (astride == 0 && std::has_single_bit(bytes)) return go(addresses[0], bytes * lanes, lanes_of(bytes, shift, 0));
    }
    if (role == Role::write && !matrix) same_instruction(b, event);
    if (!global && !matrix && role != Role::atomic && bytes >> shift <= 4) {
        touch_lanes(b, access, cells, event);
        return;
    }
    if (!global && matrix && touch_fragment(b, access, cells, event)) return;
    for (Mask m = event.active; m != 0;) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        m &= m - 1;
        // Lanes, or lines of a fragment, that follow each other are looked at together.
        std::uint32_t length = bytes;
        for (unsigned next = lane + 1;
             next < lanes && (m >> next & 1) != 0 && addresses[next] == addresses[lane] + length && (matrix || std::has_single_bit(bytes)); ++next) {
            length += bytes;
            m &= m - 1;
        }
        go(addresses[lane], length, matrix ? whole_.data() : lanes_of(bytes, shift, lane));
    }
}

std::vector<RawFinding> Races::findings() {
    std::vector<RawFinding> all;
    for (auto& [key, finding] : found_) all.push_back(std::move(finding));
    found_.clear();
    counted_.clear();
    return all;
}

}  // namespace wmmadiag::races

namespace wmmadiag {

std::unique_ptr<Check> make_races(const Shared& shared) { return std::make_unique<races::Races>(shared); }

}  // namespace wmmadiag
