// Who takes part in barriers: lanes of one warp that come from different places, warps that meet at different lines, threads that have
// exited, arrivals that nobody waits for, and masks that leave out a lane that runs.
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "../check.hpp"
#include "../lane_exchange.hpp"

namespace wmmadiag {

namespace {

constexpr unsigned most_warps = 32;

// One barrier between two releases.
struct Phase {
    std::array<Mask, most_warps> arrived{};
    std::array<std::uint32_t, most_warps> pc{};
    bool any = false;
};

struct BlockBarriers {
    const Block* block = nullptr;
    std::vector<Phase> phases;  // of each block of the cluster, `barrier_count`
    std::array<Mask, most_warps> left{};
    std::array<std::uint32_t, most_warps> left_pc{};
};

class Barriers final : public Check {
public:
    explicit Barriers(const Shared& shared) : shared_(shared) {
        constexpr std::pair<const char*, unsigned> masks[] = {{"shfl", 3},  {"vote", 1},  {"match", 1},
                                                              {"redux", 1}, {"elect", 0}, {"bar.warp.sync", 0}};
        for (const auto& [name, operand] : masks) mask_of_[find_operation(name)->execute] = operand;
        shuffle_ = find_operation("shfl")->execute;
    }

    void block_start(const Block& block) override {
        auto& b = blocks_[block.index()];
        b = {};
        b.block = &block;
        b.phases.resize(block.barriers().size());
    }

    void block_end(const Block& block) override {
        auto& b = blocks_[block.index()];
        for (std::uint32_t id = 0; id < b.phases.size(); ++id) {
            const auto& phase = b.phases[id];
            for (unsigned w = 0; w < most_warps && phase.any; ++w)
                if (phase.arrived[w] != 0) {
                    add("unfinished", block.index(), w, phase.pc[w], no_pc, phase.arrived[w], {id % barrier_count});
                    break;
                }
        }
        blocks_.erase(block.index());
    }

    void left(const Where& where, Mask active) override {
        auto& b = blocks_[where.block];
        if (b.left[where.warp] == 0) b.left_pc[where.warp] = where.pc;
        b.left[where.warp] |= active;
        // Lanes of this warp that wait for those that exit: all that a mask names must come, or have gone before.
        const auto& warp = b.block->warps()[where.warp];
        for (const auto& group : warp.groups()) {
            const auto& inst = shared_.program->code()[group.pc];
            const auto mask = mask_of_.find(inst.execute);
            if (group.state != GroupState::sync || mask == mask_of_.end()) continue;
            const Mask members = warp.at<std::uint32_t>(inst.s[mask->second])[std::countr_zero(group.mask)];
            if ((members & active) != 0) add("absent", where.block, where.warp, group.pc, where.pc, group.mask, {members, members & active});
        }
    }

    void barrier(const BarrierEvent& event) override {
        auto& b = blocks_[event.where.block];
        if (event.kind == BarrierKind::warp) {
            const auto& inst = shared_.program->code()[event.where.pc];
            const auto* members = b.block->warps()[event.where.warp].at<std::uint32_t>(inst.s[0]);
            Mask unnamed = 0;
            for (Mask m = event.active; m != 0; m &= m - 1)
                if ((members[std::countr_zero(m)] & m & -m) == 0) unnamed |= m & -m;
            if (unnamed != 0) add("mask", event.where.block, event.where.warp, event.where.pc, no_pc, unnamed, {members[std::countr_zero(unnamed)]});
            return;
        }
        auto& phase = b.phases[event.barrier];
        if (event.kind == BarrierKind::release) {
            complete(b, event.where.block, event.barrier);
            phase = {};
            return;
        }
        const auto w = event.where.warp;
        if (phase.arrived[w] != 0 && phase.pc[w] != event.where.pc)
            add("divergent", event.where.block, w, event.where.pc, phase.pc[w], event.active, {event.barrier % barrier_count, phase.arrived[w]});
        phase.arrived[w] |= event.active;
        phase.pc[w] = event.where.pc;
        phase.any = true;
    }

    void meet(const Where& where, Mask here, Mask members) override {
        if ((here & ~members) != 0) add("mask", where.block, where.warp, where.pc, no_pc, here & ~members, {members});
        const auto& inst = shared_.program->code()[where.pc];
        if (inst.execute != shuffle_ || here == all_lanes) return;  // every source takes part
        const auto& warp = blocks_[where.block].block->warps()[where.warp];
        if (const Mask found = strays(warp, inst, here); found != 0)
            add("stray", where.block, where.warp, where.pc, no_pc, found,
                {members, shuffle_source(warp, inst, static_cast<unsigned>(std::countr_zero(found))).lane});
    }

    [[nodiscard]] std::vector<RawFinding> findings() override {
        std::vector<RawFinding> all;
        for (auto& [key, finding] : found_) all.push_back(std::move(finding));
        found_.clear();
        return all;
    }

private:
    void complete(const BlockBarriers& b, std::uint32_t block, std::uint32_t number) {
        const auto& phase = b.phases[number];
        const auto id = number % barrier_count;
        unsigned first = most_warps;
        for (unsigned w = 0; w < most_warps; ++w) {
            if (phase.arrived[w] == 0) continue;
            if (first == most_warps) {
                first = w;
            } else if (id == 0 && phase.pc[w] != phase.pc[first]) {  // others are there to be met from different places
                add("places", block, w, phase.pc[w], phase.pc[first], phase.arrived[w], {id, first});
            }
            if (const Mask gone = b.left[w] & ~phase.arrived[w]; gone != 0)
                add("exited-lanes", block, w, phase.pc[w], b.left_pc[w], phase.arrived[w], {id, gone});
        }
        if (first == most_warps || id != 0) return;  // others are for some of the warps
        const auto begin = number / barrier_count * b.block->warps_of_one();
        for (unsigned w = begin; w < begin + b.block->warps_of_one(); ++w)
            if (phase.arrived[w] == 0 && b.left[w] != 0)
                add("exited-warps", block, first, phase.pc[first], b.left_pc[w], phase.arrived[first], {id, static_cast<std::int64_t>(w)});
    }

    void add(const char* kind, std::uint32_t block, std::uint32_t warp, std::uint32_t pc, std::uint32_t other_pc, Mask active,
             std::vector<std::int64_t> values) {
        auto [at, fresh] = found_.try_emplace(std::make_tuple(std::string(kind), pc, other_pc));
        auto& f = at->second;
        ++f.count;
        if (!fresh) return;
        f.check = "barriers";
        f.kind = kind;
        f.pc = pc;
        f.other_pc = other_pc;
        f.block = block;
        f.warp = warp;
        f.lane = active != 0 ? static_cast<std::uint32_t>(std::countr_zero(active)) : 0;
        f.address = active;
        f.values = std::move(values);
    }

    const Shared& shared_;
    std::map<Execute, unsigned> mask_of_;  // which operand is the member mask
    Execute shuffle_ = nullptr;
    std::map<std::uint32_t, BlockBarriers> blocks_;
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, RawFinding> found_;
};

}  // namespace

std::unique_ptr<Check> make_barriers(const Shared& shared) { return std::make_unique<Barriers>(shared); }

}  // namespace wmmadiag
