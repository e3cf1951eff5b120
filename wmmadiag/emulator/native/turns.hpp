// Blocks that run one after another on one thread, and take turns where one may wait for a later one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "block.hpp"

namespace wmmadiag {

inline constexpr std::uint64_t block_slice = 1u << 20;  // warp instructions until budgets are looked at
// Blocks that may wait for each other: a chip's worth, 132 multiprocessors of 32 blocks each, where their state is no more than this.
inline constexpr std::size_t fewest_residents = 128, most_residents = 132 * 32;
inline constexpr std::uint64_t resident_bytes = std::uint64_t{1} << 30;

struct Resident {
    std::unique_ptr<Block> block;
    std::uint64_t executed = 0;  // when it was last looked at
};

// Block after block. One that does not end within `patience` warp instructions may wait for a later one: then that starts too, and they
// take turns; that of a block that polls ends at once. Where all do, they take theirs whenever twice as many have begun, so that those
// that wait for the last of n blocks have 2 n turns.
//
// next(index): whether there is another block, and which. run(resident, length, status): runs a slice of one; false ends everything: then
// `residents` are the blocks that had begun, that one first. done(block): it has ended.
// observer(index): who watches a block, or nullptr.
template <class Watch, class Next, class Run, class Done>
bool in_turns(Shared& shared, unsigned warps, Watch&& observer, std::uint64_t patience, std::vector<Resident>& residents, Next&& next, Run&& run,
              Done&& done) {
    const auto stopped = [&] { return shared.stop.load(std::memory_order_relaxed) || shared.order_matters.load(std::memory_order_relaxed); };
    std::unique_ptr<Block> spare;
    // Runs one for so many instructions; false: everything ends.
    const auto turn = [&](std::size_t at, std::uint64_t length, BlockStatus& status) {
        auto& one = residents[at];
        const auto until = one.executed + length;
        do {
            if (!run(one, std::min(block_slice, length), status)) {
                std::rotate(residents.begin(), residents.begin() + static_cast<std::ptrdiff_t>(at), residents.end());
                return false;
            }
        } while (status != BlockStatus::done && one.executed < until && !one.block->waits() && !shared.order_matters.load(std::memory_order_relaxed));
        if (status == BlockStatus::done) {
            done(*one.block);
            spare = std::move(one.block);
            residents.erase(residents.begin() + static_cast<std::ptrdiff_t>(at));
        }
        return true;
    };
    std::size_t limit = fewest_residents, everyone = 1;
    while (!stopped()) {
        bool begun = false;
        if (residents.size() < limit) {
            if (std::uint64_t index = 0; next(index)) {
                Observer* const watching = observer(index);
                auto block = spare && spare->observer() == watching ? std::move(spare) : std::make_unique<Block>(shared, warps, watching);
                block->start(index);
                limit = std::clamp<std::size_t>(resident_bytes / std::max<std::uint64_t>(block->state_bytes(), 1), fewest_residents, most_residents);
                residents.push_back({std::move(block)});
                auto status = BlockStatus::running;
                if (!turn(residents.size() - 1, patience, status)) return false;
                begun = true;
            }
        }
        if (residents.empty()) {
            if (!begun) return true;
            continue;
        }
        const auto waiting = [](const Resident& one) { return one.block->waits(); };
        if (begun && residents.size() < everyone && std::all_of(residents.begin(), residents.end(), waiting)) continue;
        for (std::size_t i = 0; i < residents.size() && !stopped();) {
            auto status = BlockStatus::running;
            if (!turn(i, patience, status)) return false;
            if (status != BlockStatus::done) ++i;
        }
        everyone = 2 * residents.size();
    }
    return true;
}

}  // namespace wmmadiag
