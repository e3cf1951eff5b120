// Global memory: pages of shadow, and the order between blocks.
#include <algorithm>
#include <utility>

#include "races.hpp"

namespace wmmadiag::races {

Page& Races::page(std::uint64_t number) {
    if (number != last_page_ || last_page_data_ == nullptr) {
        auto& at = pages_[number];
        if (!at) at = std::make_unique<Page>((std::size_t{1} << page_bits) >> global_shift_);
        last_page_ = number;
        last_page_data_ = at.get();
    }
    return *last_page_data_;
}

void Races::touch_global(BlockState& b, const Access& access, std::uint64_t address, std::uint32_t bytes, const Lane* lane_of) {
    const auto mask = (std::uint64_t{1} << page_bits) - 1;
    const auto tag = b.index + 1;
    while (bytes != 0) {
        auto& p = page(address >> page_bits);
        const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, mask + 1 - (address & mask)));
        const std::size_t first = (address & mask) >> global_shift_, count = std::max<std::size_t>(length >> global_shift_, 1);
        for (std::size_t g = first; g < first + count; ++g) {
            if (!shared_.tracking) between_blocks(b, access, p, address + ((g - first) << global_shift_), g, lane_of[g - first]);
            // Stamps are those of one block.
            if (p.write_block[g] != tag) p.write[g] = 0;
            if (p.read_block[g] != tag) p.read[g] = p.other_read[g] = 0;
        }
        const Cells cells{p.write.data(), p.read.data(), p.other_read.data(), p.write_lane.data(), p.read_lane.data()};
        touch(b, access, cells, Space::global, address, first, count, global_shift_, lane_of);
        if (access.role != Role::read)
            for (std::size_t g = first; g < first + count; ++g) {
                p.write_block[g] = tag;
                p.write_pc[g] = access.where.pc;
            }
        if (access.role != Role::write)
            for (std::size_t g = first; g < first + count; ++g) {
                if (p.read_block[g] != tag) {
                    p.older_block[g] = p.read_block[g];
                    p.older_pc[g] = p.read_pc[g];
                    p.older_epoch[g] = p.read_epoch[g];
                }
                p.read_block[g] = tag;
                p.read_pc[g] = access.where.pc;
            }
        if (synchronises_)
            for (std::size_t g = first; g < first + count; ++g) {
                if (access.role != Role::read) p.write_epoch[g] = b.epoch;
                if (access.role != Role::write) p.read_epoch[g] = b.epoch;
            }
        lane_of += count;
        address += length;
        bytes -= length;
    }
}

// Only atomics with fences order blocks; a launch whose blocks share memory runs in block order on one thread, see grid.cpp.
void Races::between_blocks(BlockState& b, const Access& access, Page& page, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto tag = b.index + 1;
    const auto strong = [&](std::uint32_t pc) {
        const auto& inst = shared_.program->code()[pc];
        return inst.execute != mbarrier_ && ((inst.flags & flag::strong) != 0 || inst.execute == atom_);
    };
    const auto shown = lane < lanes ? lane : nobody;
    const auto covered = [](const Epochs& epochs, std::uint32_t other, std::uint32_t epoch) {
        const auto at = epochs.find(other - 1);
        return at != epochs.end() && at->second >= epoch;
    };
    const auto unordered = [&](std::uint32_t other, std::uint32_t pc, std::uint32_t epoch) {
        return other != 0 && other != tag && !covered(b.ordered_blocks, other, epoch) && !(access.strong && strong(pc));
    };
    if (const auto other = page.write_block[g]; unordered(other, page.write_pc[g], page.write_epoch[g])) {
        const bool same = access.role == Role::write && unchanged(b, access, lane, Space::global, address);
        report(covered(b.acquirable_blocks, other, page.write_epoch[g]) ? "blocks-no-acquire"
               : access.role == Role::read                              ? "blocks-read-write"
               : same                                                   ? "blocks-write-same"
               : access.strong || strong(page.write_pc[g])              ? "blocks-atomic-write"
                                                                        : "blocks-write-write",
               b, access, shown, page.write_pc[g], nobody, nobody, Space::global, address, {1, static_cast<std::int64_t>(other) - 1}, false);
    }
    if (access.role == Role::read) return;
    for (const auto& [other, pc, epoch] : {std::tuple{page.read_block[g], page.read_pc[g], page.read_epoch[g]},
                                           std::tuple{page.older_block[g], page.older_pc[g], page.older_epoch[g]}})
        if (unordered(other, pc, epoch) && !(access.role == Role::write && unchanged(b, access, lane, Space::global, address)))
            report(covered(b.acquirable_blocks, other, epoch) ? "blocks-no-acquire" : "blocks-read-write", b, access, shown, pc, nobody, nobody,
                   Space::global, address, {0, static_cast<std::int64_t>(other) - 1}, true);
}

}  // namespace wmmadiag::races
