// Blocks that run one after another on one thread, and take turns where one may wait for a later one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "block.hpp"

namespace wmmadiag {

inline constexpr std::uint64_t block_slice = 1u << 20;  // warp instructions until budgets are looked at
inline constexpr std::size_t resident_limit = 128;      // blocks that may wait for each other, about a chip's worth

struct Resident {
    std::unique_ptr<Block> block;
    std::uint64_t executed = 0;  // when it was last looked at
};

// Block after block. One that does not end within `patience` warp instructions may wait for a later one: then that starts too, and they
// take turns.
//
// next(index): whether there is another block, and which. run(resident, length, status): runs a slice of one; false ends everything: then
// `residents` are the blocks that had begun, that one first. done(block): it has ended.
// observer(index): who watches a block, or nullptr.
template <class Watch, class Next, class Run, class Done>
bool in_turns(Shared& shared, unsigned warps, Watch&& observer, std::uint64_t patience, std::vector<Resident>& residents, Next&& next, Run&& run,
              Done&& done) {
    const auto stopped = [&] { return shared.stop.load(std::memory_order_relaxed) || shared.order_matters.load(std::memory_order_relaxed); };
    std::unique_ptr<Block> spare;
    while (!stopped()) {
        if (residents.size() < resident_limit) {
            if (std::uint64_t index = 0; next(index)) {
                Observer* const watching = observer(index);
                auto block = spare && spare->observer() == watching ? std::move(spare) : std::make_unique<Block>(shared, warps, watching);
                block->start(index);
                residents.push_back({std::move(block)});
            }
        }
        if (residents.empty()) return true;
        for (std::size_t i = 0; i < residents.size();) {
            auto& one = residents[i];
            auto status = BlockStatus::running;
            const auto until = one.executed + patience;
            while (status != BlockStatus::done && one.executed < until && !shared.order_matters.load(std::memory_order_relaxed))
                if (!run(one, std::min(block_slice, patience), status)) {
                    std::rotate(residents.begin(), residents.begin() + static_cast<std::ptrdiff_t>(i), residents.end());
                    return false;
                }
            if (status == BlockStatus::done) {
                done(*one.block);
                spare = std::move(one.block);
                residents.erase(residents.begin() + static_cast<std::ptrdiff_t>(i));
            } else {
                ++i;
            }
        }
    }
    return true;
}

}  // namespace wmmadiag
