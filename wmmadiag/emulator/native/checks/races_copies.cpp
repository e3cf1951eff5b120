// cp.async: copies in flight, and when they land.
#include <algorithm>

#include "races.hpp"
#include "races_reversed.hpp"

namespace wmmadiag::races {

void Races::land(BlockState& b, const Where& where, Mask active, const std::uint32_t* until) {
    const auto cells = shared_cells(b);
    std::erase_if(b.warps[where.warp].copies, [&](std::uint32_t index) {
        const auto& copy = b.copies[index];
        if ((active >> copy.lane & 1) == 0 || copy.group >= until[copy.lane]) return false;
        const Stamp marker = in_flight | index << warp_bits | copy.warp;
        const Stamp now = stamp(b, {where.block, where.warp, copy.pc}, strength::weak);
        for (auto g = copy.destination >> shared_shift_; g < (copy.destination + copy.bytes) >> shared_shift_; ++g)
            if (cells.write[g] == marker) {
                cells.write[g] = now;
                cells.write_lane[g] = copy.lane;
            }
        b.free_copies.push_back(index);
        return true;
    });
}

void Races::async(const AsyncEvent& event) {
    auto& b = state_of(event.where.block);
    auto& warp = b.warps[event.where.warp];
    ++events_;
    switch (event.kind) {
        case AsyncKind::issue: {
            const auto cells = shared_cells(b);
            const Access access = access_of(b, event.where, Role::write, strength::weak, false);
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(m));
                const auto to = event.destinations[lane];
                const std::size_t first = to >> shared_shift_, count = event.bytes >> shared_shift_;
                if (reversal_ && reversal_->wants(event.where.pc))
                    reversal_->before_copy(b.index, to, b.block->shared_memory() + to, event.bytes, std::size_t{1} << shared_shift_);
                touch(b, access, cells, Space::shared, to, first, count, shared_shift_, lanes_of(event.bytes, shared_shift_, lane));
                auto index = static_cast<std::uint32_t>(b.copies.size());
                if (b.free_copies.empty()) {
                    b.copies.emplace_back();
                } else {
                    index = b.free_copies.back();
                    b.free_copies.pop_back();
                }
                b.copies[index] = {event.where.pc, event.where.warp, lane, event.groups[lane], to, event.bytes, warp.waits};
                warp.copies.push_back(index);
                std::fill_n(cells.write + first, count, in_flight | index << warp_bits | event.where.warp);
            }
            break;
        }
        case AsyncKind::commit:
            for (Mask m = event.active; m != 0; m &= m - 1) ++warp.commits[std::countr_zero(m)];
            break;
        case AsyncKind::wait:
            warp.last_wait = event.where.pc;
            warp.last_pending = event.pending;
            warp.waited_commits = warp.commits;
            ++warp.waits;
            land(b, event.where, event.active, event.groups);
            break;
        case AsyncKind::arrive: {
            std::array<std::uint32_t, lanes> all;
            all.fill(nobody);
            land(b, event.where, event.active, all.data());
            break;
        }
    }
}

}  // namespace wmmadiag::races
