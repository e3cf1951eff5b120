// What trials know of their launches: which memory they have, and which blocks belong together.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "touched.hpp"
#include "trial_judging.hpp"

namespace wmmadiag::trials {

// Blocks that touched what another one of them wrote in the base run, or one that shares nothing. They are run together, in their order.
struct GroupOfBlocks {
    std::vector<std::uint32_t> blocks;
    std::uint64_t strays = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> owned;  // (array, item) that they wrote
};

struct Known {
    TrialBase base;
    std::vector<Sharers> sharers;       // per region
    BlockGroups names;                  // which group each block is of
    std::vector<GroupOfBlocks> groups;  // by their first block; those of other blocks are empty
    std::size_t count = 0;              // of groups
};

// A region's part in the trials.
struct Part {
    Region region;
    std::uint64_t item = 1;
    std::vector<std::uint32_t> arrays;  // that lie in it
    bool selects = false;               // whether a selector lies in it
};

struct Plan {
    TrialSetup setup;
    std::vector<Part> parts;
    std::vector<std::vector<std::uint32_t>> parts_of;  // per stage, and region of it
    std::vector<std::uint32_t> part_of;                // per array
    std::shared_ptr<const Known> known;
};

// A stage in one thread's memory.
struct Launched {
    explicit Launched(const TrialStage& of, std::vector<Region> regions, const TrialSetup& setup) : stage(of), memory(std::move(regions)) {
        shared.program = of.request.program;
        shared.spec = of.request.spec;
        shared.memory = &memory;
        shared.strays_pass = setup.strays_pass;
        shared.local_unaligned = setup.local_unaligned;
        warps = of.request.spec.warps();
    }

    const TrialStage& stage;
    GlobalMemory memory;
    Shared shared;
    unsigned warps = 0;
};

// The groups of blocks of the base run that has just ended, and what each wrote.
inline void into_groups(const Plan& plan, Known& known) {
    const auto blocks = known.names.blocks();
    known.groups.resize(blocks);
    for (std::uint32_t b = 0; b < blocks; ++b) {
        auto& group = known.groups[known.names.of(b)];
        known.count += group.blocks.empty() ? 1 : 0;
        group.blocks.push_back(b);
        group.strays += known.base.strays[b];
    }
    std::vector<std::uint64_t> wrong(blocks, 0);
    for (std::uint32_t a = 0; a < plan.setup.arrays.size(); ++a) {
        const auto& array = plan.setup.arrays[a];
        const auto& part = plan.parts[plan.part_of[a]];
        const auto& writers = known.sharers[plan.part_of[a]].writer;
        if (writers.empty()) continue;
        const auto bytes = item_bytes(array.type);
        for (std::uint32_t item = 0; item < array.element.size(); ++item) {
            if (array.element[item] < 0) continue;
            const auto writer = writers[(array.base - part.region.base + item * bytes) / part.item];
            if (writer == nobody || writer == several) continue;
            known.groups[writer - 1].owned.emplace_back(a, item);
            wrong[writer - 1] += known.base.wrong[static_cast<std::size_t>(array.element[item])];
        }
    }
    auto& suspects = known.base.wrong_blocks;
    for (std::uint32_t b = 0; b < blocks; ++b) {
        wrong[b] += known.groups[b].strays;
        if (wrong[b] != 0) suspects.push_back(b);
    }
    std::stable_sort(suspects.begin(), suspects.end(), [&](std::uint32_t a, std::uint32_t b) { return wrong[a] < wrong[b]; });
}

}  // namespace wmmadiag::trials
