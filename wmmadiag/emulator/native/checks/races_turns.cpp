// What another order of accesses shows: an access that takes place before one that nothing orders with it (races_reversed.hpp).
#include <utility>

#include "races.hpp"
#include "races_reversed.hpp"

namespace wmmadiag::races {

void Races::memory(const MemoryEvent& event) {
    if (!reversal_ || event.space == Space::local || event.space == Space::generic) return watch(event);
    if (event.kind == AccessKind::async_store) {
        const auto& b = state_of(event.where.block);
        for (Mask m = event.active; m != 0; m &= m - 1)
            reversal_->written(event.where.block, event.where.pc, host(b, event.space, event.addresses[std::countr_zero(m)], event.bytes),
                               event.bytes);
        return;
    }
    const bool writes = event.kind == AccessKind::store || event.kind == AccessKind::atomic;
    const auto& b = state_of(event.where.block);
    std::vector<std::pair<std::uint64_t, std::byte*>> places;
    if (writes && reversal_->wants(event.where.pc)) each_granule(b, event, [&](std::uint64_t a, std::byte* p) { places.emplace_back(a, p); });
    reversal_->before(event.space, event.space == Space::shared ? b.index : 0, places, granule_of(event.space));
    watch(event);
    reversal_->after();
}

template <class See>
void Races::each_granule(const BlockState& b, const MemoryEvent& event, See see) const {
    const auto granule = granule_of(event.space);
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto address = event.addresses[std::countr_zero(m)];
        for (auto a = address / granule * granule; a < address + event.bytes; a += granule)
            if (auto* p = inside(event.space, a, granule) ? host(b, event.space, a, granule) : nullptr; p != nullptr) see(a, p);
    }
}

bool Races::inside(Space space, std::uint64_t address, std::uint64_t bytes) const {
    return space != Space::shared || address + bytes <= std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes;
}

// Lets this access take place before an earlier one, a write, that nothing orders with it: it finds what was there before that write, and
// what it writes is gone again afterwards. Once per write and warp, so that whoever looks again and again sees it in the end.
void Races::turn(BlockState& b, const Access& access, unsigned lane, const Earlier& earlier, Space space, std::uint64_t address, bool read_first) {
    if (!reversal_->names(access.where.pc, earlier.pc) || reversal_->turn() != (read_first ? Turn::note : Turn::writes)) return;
    // A lane does not lose its own writes, nor see them early; where several lanes read as one, it may be among them.
    if (earlier.block == b.index && earlier.warp == access.where.warp && (read_first || lane >= lanes)) return;
    const auto granule = granule_of(space);
    const auto at = address / granule * granule;
    if (!inside(space, at, granule)) return;
    auto* p = host(b, space, at, granule);
    if (p == nullptr) return;
    // A read-modify-write has seen what was there before it: a write comes before that only where it leaves the same.
    const auto& other = shared_.program->code()[earlier.pc];
    if (!read_first && access.role == Role::write && access.strong() && other.execute == atom_ && (other.flags & flag::unseen) == 0) {
        const auto* seen =
            reversal_->seen(space, space == Space::shared ? b.index : 0, at, std::uint64_t{earlier.block} << 32 | earlier.warp, earlier.stamp);
        if (seen == nullptr || !leaves(b, access, lane, space, at, seen)) return;
    }
    if (read_first)
        reversal_->note(space, space == Space::shared ? b.index : 0, at, p, granule, std::uint64_t{earlier.block} << 32 | earlier.stamp, b.index,
                        access.where.pc);
    else
        reversal_->reverse(space, space == Space::shared ? b.index : 0, at, p, granule, (std::uint64_t{b.index} << 32) | access.where.warp,
                           (std::uint64_t{earlier.block} << 32) | earlier.stamp);
}

// What this read finds although it is written later.
void Races::foresee(BlockState& b, const Access& access, const MemoryEvent& event) {
    each_granule(b, event, [&](std::uint64_t a, std::byte* p) {
        reversal_->foresee(event.space, event.space == Space::shared ? b.index : 0, a, p, granule_of(event.space),
                           std::uint64_t{b.index} << 32 | access.stamp);
    });
}

void Races::executed(const WriteEvent& event) {
    reversal_->restore();
    if (event.inst->execute != copy_) reversal_->written(event.where.block, event.where.pc);
    if (stray_ == 0) return;
    auto* to = event.warp->at<std::uint32_t>(event.inst->d);
    for (Mask m = std::exchange(stray_, 0); m != 0; m &= m - 1) to[std::countr_zero(m)] = to[std::countr_zero(m)] == 0 ? ~0u : 0;
}

bool Races::wants_result_of(std::uint32_t pc) const { return reversal_ && reversal_->wants(pc); }

// What this read-modify-write finds.
void Races::remember_seen(const BlockState& b, const MemoryEvent& event) {
    const auto granule = granule_of(event.space);
    const auto stamp = b.warps[event.where.warp].stamps[event.where.pc].stamp;
    std::uint64_t before = 0;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto address = event.addresses[std::countr_zero(m)];
        if (m != event.active && address == before) continue;  // the first of several lanes finds it
        before = address;
        for (auto a = address / granule * granule; a < address + event.bytes; a += granule)
            if (const auto* p = inside(event.space, a, granule) ? host(b, event.space, a, granule) : nullptr; p != nullptr)
                reversal_->saw(event.space, event.space == Space::shared ? b.index : 0, a, p, granule,
                               std::uint64_t{b.index} << 32 | event.where.warp, stamp);
    }
}

}  // namespace wmmadiag::races
