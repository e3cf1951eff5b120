// The check itself: what the program needs, which events touch what, and what is reported.
#include <algorithm>
#include <cstring>
#include <utility>

#include "../lane_exchange.hpp"
#include "races.hpp"
#include "races_reversed.hpp"

namespace wmmadiag::races {

Races::Races(const Shared& shared, std::unique_ptr<Reversal> reversal)
    : shared_(shared), whole_(1u << page_bits, whole_warp), several_(64, several_lanes), reversal_(std::move(reversal)) {
    for (std::size_t k = 0; k < patterns_.size(); ++k)
        for (std::uint32_t i = 0; i < lanes << k; ++i) patterns_[k].push_back(static_cast<Lane>(i >> k));
    between_ = !shared.tracking && shared.spec.grid.count() > 1;
    survey();
}

Races::~Races() = default;

namespace {

// By AtomicType, see execute_atomic.cpp.
std::uint32_t atomic_bytes(const Inst& inst) {
    constexpr std::array<std::uint32_t, 12> bytes{4, 4, 8, 8, 4, 8, 2, 2, 4, 4, 2, 16};
    return bytes[std::min<std::size_t>(inst.code >> 8, bytes.size() - 1)];
}

}  // namespace

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
    const auto* warp_barrier = find_operation("bar.warp.sync");
    mbarrier_ = mbarrier->execute;
    store_ = st->execute;
    shuffle_ = find_operation("shfl")->execute;
    copy_ = copy->execute;
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
        else if (inst.execute == atom->execute) narrow(inst.space, atomic_bytes(inst));
        else if (inst.execute == mbarrier->execute) narrow(inst.space, 8);
        else if (inst.execute == copy->execute) narrow(Space::shared, 4), narrow(Space::global, 4);
        else if (inst.execute == collective_[0] || inst.execute == collective_[1]) narrow(inst.space, 4);
        partly_ |= (inst.execute == barrier->execute || inst.execute == arrive->execute) && inst.s[1] != no_operand;
        synchronises_ |= inst.execute == mbarrier->execute || (fence != nullptr && inst.execute == fence->execute);
        synchronises_ |= (inst.execute == ld->execute || inst.execute == st->execute || inst.execute == atom->execute) &&
                         (inst.flags & (flag::acquire | flag::release)) != 0;
        observes_ |=
            (inst.execute == ld->execute && (inst.flags & flag::strong) != 0) || (inst.execute == atom->execute && (inst.flags & flag::unseen) == 0);
        atomics_ |= inst.execute == atom->execute;
        const bool all = (inst.s[0] & constant_bit) != 0 && inst.execute == warp_barrier->execute &&
                         *reinterpret_cast<const Mask*>(shared_.program->constants() + (inst.s[0] & ~constant_bit)) == all_lanes;
        tiles_ |= inst.execute == warp_barrier->execute && !all;
    }
    partly_ |= synchronises_ || shared_.spec.cluster.count() > 1;
}

void Races::block_start(const Block& block) {
    auto made = spare_ ? std::move(spare_) : std::make_unique<BlockState>();
    auto& b = *made;
    const auto cells = (std::size_t{shared_.spec.shared_base} + shared_.spec.shared_bytes + 15) / 16 * 16 >> shared_shift_;
    b.block = &block;
    b.index = block.index();
    b.warps.resize(block.warps().size());
    b.begin_sequence();
    for (auto& warp : b.warps) {
        warp.foreign.reset();
        warp.foreign_fenced.reset();
        warp.foreign_acquirable.reset();
        warp.behind_fence = false;
        warp.arrived = 0;
        warp.commits.fill(0);
        warp.copies.clear();
        warp.last_wait = no_pc;
        warp.last_pending = 0;
        warp.waits = 0;
        warp.waited_commits.fill(0);
        warp.stamps.resize(shared_.program->code().size());
        for (auto& latest : warp.stamps) latest.passes = 0;
    }
    b.write.assign(cells, 0);
    b.read.assign(cells, 0);
    b.other_read.assign(cells, 0);
    b.write_lane.assign(cells, 0);
    b.read_lane.assign(cells, 0);
    b.copies.clear();
    b.free_copies.clear();
    b.phases.assign(barrier_count * shared_.spec.cluster.count(), {});
    last_ = made.get();
    states_[b.index] = std::move(made);
}

void Races::block_end(const Block& block) {
    const auto at = states_.find(block.index());
    if (at == states_.end()) return;
    if (last_ == at->second.get()) last_ = nullptr;
    for (const auto& [address, place] : at->second->coherence) parties_ -= std::min<std::uint64_t>(parties_, place.parties.size());
    spare_ = std::move(at->second);
    states_.erase(at);
    if (between_ || !states_.empty()) return;
    coherence_.clear();
    parties_ = 0;
}

BlockState& Races::state_of(std::uint32_t block) {
    if (last_ == nullptr || last_->index != block) last_ = states_.at(block).get();
    return *last_;
}

Earlier Races::earlier_of(const BlockState& b, Stamp s, std::uint32_t lane) {
    const auto& one = b.entries[(s >> warp_bits) - b.base - 1];
    return {b.index, s & warp_mask, lane, one.pc, one.pass, s};
}

void Races::report(std::string_view kind, BlockState& b, const Access& access, unsigned lane, const Earlier& earlier, Space space,
                   std::uint64_t address, std::vector<std::int64_t> values, bool swapped) {
    if (reversal_) {
        turn(b, access, lane, earlier, space, address, swapped);
        return;
    }
    const auto known = [](std::uint32_t l) { return l < lanes ? l : nobody; };
    const Earlier current{b.index, access.where.warp, known(lane), access.where.pc, access.pass, access.stamp};
    const auto& first = swapped ? earlier : current;
    const auto& second = swapped ? current : earlier;
    auto [at, fresh] = found_.try_emplace(std::make_tuple(kind, first.pc, second.pc, space));
    auto& f = at->second.finding;
    if (fresh) {
        f.check = "races";
        f.kind = kind;
        f.pc = first.pc;
        f.other_pc = second.pc;
        f.space = space;
        f.address = address;
        f.bytes = granule_of(space);
        f.block = first.block;
        f.warp = first.warp;
        f.lane = known(first.lane);
        f.pass = first.pass;
        f.other_block = second.block;
        f.other_warp = second.warp;
        f.other_lane = known(second.lane);
        f.other_pass = second.pass;
        f.values = std::move(values);
    } else if (values.size() == 5 && values[1] == f.values[1]) {  // in flight: the groups that the worst case leaves to wait for
        f.values[4] = std::min(f.values[4], values[4]);
    }
    if (fresh || at->second.event != events_) ++f.count;
    at->second.event = events_;
}

std::byte* Races::host(const BlockState& b, Space space, std::uint64_t address, std::uint64_t bytes) const {
    if (space == Space::shared) return b.block->shared_memory() + address;
    const auto* allocation = shared_.memory->find(address);
    return allocation != nullptr && allocation->region.holds(address, bytes) ? allocation->region.host + (address - allocation->region.base)
                                                                             : nullptr;
}

// Whether a plain or fragment store writes these bytes; without them, what is there already: then no order changes the result.
bool Races::leaves(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address, const std::byte* bytes) const {
    const auto& inst = shared_.program->code()[access.where.pc];
    const bool fragment = inst.execute == collective_[1];
    if ((inst.execute != store_ && !fragment) || (lane >= lanes && !fragment) || access.role != Role::write) return false;
    const auto& warp = b.block->warps()[access.where.warp];
    const auto granule = granule_of(space);
    const auto* here = bytes != nullptr ? bytes : host(b, space, address, fragment ? granule : 1);
    if (here == nullptr) return false;
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
        const Access access{event.where, Role::write, strength::weak, false, 0, 0};
        const Earlier other{b.index, event.where.warp, sorted[i - 1].second, event.where.pc, 0, 0};
        if (reversal_) {  // lanes store in their order: let the first stay
            if (!reversal_->names(event.where.pc, event.where.pc)) continue;
            const auto width = std::min(inst.bytes, inst.register_bytes);
            for (unsigned e = 0; e < inst.count; ++e)
                if (auto* to = host(b, event.space, sorted[i].first + std::uint64_t{e} * inst.bytes, width); to != nullptr)
                    reversal_->keep(to, {warp.at<std::byte>(inst.extra[e]) + std::size_t{sorted[i - 1].second} * inst.register_bytes, width});
            continue;
        }
        report("one-instruction", b, access, sorted[i].second, other, event.space, sorted[i].first, {}, false);
    }
}

void Races::meet(const Where& where, Mask here, Mask) {
    auto& b = state_of(where.block);
    const auto& warp = b.block->warps()[where.warp];
    if ((here & warp.live()) == warp.live()) b.warps[where.warp].met = b.sequence << warp_bits | warp_mask;
    if (!reversal_ || !reversal_->names(where.pc, where.pc)) return;
    const auto& inst = shared_.program->code()[where.pc];
    if (inst.execute == shuffle_ && inst.d != no_operand) stray_ |= strays(warp, inst, here);
}

std::uint8_t Races::strength_of(const Inst& inst, Role role) const {
    if (role == Role::atomic) {
        const auto scope = (inst.flags & flag::block_scope) != 0 ? strength::block_scope : std::uint8_t{0};
        return static_cast<std::uint8_t>(strength::strong | strength::read_modify_write | scope);
    }
    if ((inst.flags & flag::strong) == 0) return strength::weak;
    return (inst.flags & flag::block_scope) != 0 ? strength::strong | strength::block_scope : strength::strong;
}

void Races::watch(const MemoryEvent& event) {
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
    auto strength = strength_of(inst, role);
    // A plain store right behind a fence is how some release a lock: the chip does the same for it as for a relaxed one.
    auto& fence = b.warps[event.where.warp].behind_fence;
    if (fence && role == Role::write && !matrix && strength == strength::weak) strength = strength::strong;
    fence = false;
    touch_event(b, event, role, strength, matrix);
    if (reversal_ && inst.execute == atom_ && (inst.flags & flag::unseen) == 0 && reversal_->wants(event.where.pc)) remember_seen(b, event);
    // Afterwards: what this access learns does not put it behind what it has learned of.
    if (strength != strength::weak && (synchronises_ || observes_)) synchronise(b, event, inst);
}

void Races::touch_event(BlockState& b, const MemoryEvent& event, Role role, std::uint8_t strength, bool matrix) {
    if (event.space == Space::global) {
        // While blocks run in parallel no buffer is both read and written, or the launch is run again in order.
        if (role == Role::read && shared_.tracking) return;
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
    const Access access = access_of(b, event.where, role, strength, matrix);
    if (reversal_ && role == Role::read && reversal_->turn() == Turn::reads) foresee(b, access, event);
    const bool global = event.space == Space::global;
    const auto shift = global ? global_shift_ : shared_shift_;
    const auto cells = shared_cells(b);
    const auto go = [&](std::uint64_t address, std::uint32_t bytes, const Lane* lane_of) {
        if (global) touch_global(b, access, address, bytes, lane_of);
        else touch(b, access, cells, Space::shared, address, address >> shift, std::max<std::size_t>(bytes >> shift, 1), shift, lane_of);
    };
    const auto* addresses = event.addresses;
    const auto bytes = event.bytes;
    if (!matrix && !(tiles_ && role == Role::read) && event.active == all_lanes) {
        std::uint64_t apart = 0, astride = 0;
        for (unsigned l = 0; l < lanes; ++l) {
            apart |= addresses[l] ^ addresses[0];
            astride |= addresses[l] ^ (addresses[0] + std::uint64_t{l} * bytes);
        }
        if (apart == 0 && role == Role::read) return go(addresses[0], bytes, several_.data());
        if (astride == 0 && std::has_single_bit(bytes)) return go(addresses[0], bytes * lanes, lanes_of(bytes, shift, 0));
    }
    if (tiles_ && role == Role::read && !matrix) remember_lanes(b, access, event, shift);
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
    if (reversal_) {
        all.emplace_back();
        all.back().check = "reversed";
        all.back().kind = reversal_->turn() == Turn::reads && !reversal_->came_true() ? "untrue" : "noted";
        all.back().values = reversal_->noted();
    }
    for (auto& [key, found] : found_) all.push_back(std::move(found.finding));
    found_.clear();
    return all;
}

}  // namespace wmmadiag::races

namespace wmmadiag {

std::unique_ptr<Check> make_races(const Shared& shared) { return std::make_unique<races::Races>(shared, nullptr); }
std::unique_ptr<Check> make_reversed(const Shared& shared) {
    return std::make_unique<races::Races>(shared, std::make_unique<races::Reversal>(shared));
}

}  // namespace wmmadiag
