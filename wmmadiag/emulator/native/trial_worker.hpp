// One thread's part of the trials: blocks that run with one selector after another, in memory of their own.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "touched.hpp"
#include "trial_judging.hpp"
#include "trial_plan.hpp"
#include "turns.hpp"

namespace wmmadiag::trials {

// One thread's memory and blocks.
class Worker {
public:
    explicit Worker(const Plan& plan) : plan_(plan), judge_(plan.setup.expected) {
        copy();
        touched_.resize(plan.parts.size());
        for (std::size_t i = 0; i < plan.parts.size(); ++i)
            if (plan.parts[i].region.writable) touched_[i].start(plan.parts[i].region.size, plan.parts[i].item);
        for (std::size_t s = 0; s < plan.setup.stages.size(); ++s) {
            std::vector<Region> regions;
            for (const auto p : plan.parts_of[s]) regions.push_back(own_[p]);
            launches_.push_back(std::make_unique<Launched>(plan.setup.stages[s], std::move(regions), plan.setup));
            for (const auto p : plan.parts_of[s])
                if (own_[p].writable) launches_.back()->memory.find(own_[p].base)->touched = &touched_[p];
            blocks_ += plan.setup.stages[s].request.spec.grid.count();
        }
    }

    void stop() {
        for (const auto& one : launches_) one->shared.stop.store(true, std::memory_order_relaxed);
    }

    TrialResult trial(std::uint32_t selector, const TrialLimits& limits) {
        select(selector);
        const auto* known = plan_.known.get();
        std::uint64_t spent = 0;
        if (known != nullptr && known->base.independent) {
            for (std::size_t i = 0; i < touched_.size(); ++i) {
                touched_[i].expect(&known->sharers[i], &known->names);
                touched_[i].watch_reads(!known->sharers[i].writer.empty());
            }
            TrialResult result;
            const bool certain = group_by_group(limits, result);
            spent = result.instructions;
            put_back();
            if (certain) return result;
        }
        for (auto& one : touched_) {
            one.expect(nullptr, nullptr);
            one.watch_reads(false);
        }
        std::uint64_t budget = limits.budget;
        if (known != nullptr && known->base.result.end == TrialEnd::finished)
            budget = limits.times * known->base.result.instructions + limits.slack * blocks_;
        std::vector<std::uint64_t> used;
        std::vector<std::uint64_t> strays;
        auto result = in_order(budget, used, strays);
        if (known != nullptr)
            for (std::size_t b = 0; b < known->base.strays.size(); ++b) compare(strays[b], known->base.strays[b], result);
        result.instructions += spent;
        put_back();
        return result;
    }

    std::shared_ptr<const Known> base(std::uint64_t budget) {
        select(0);
        auto known = std::make_shared<Known>();
        auto& base = known->base;
        known->names = BlockGroups(blocks_);
        for (auto& one : touched_) {
            one.expect(nullptr, nullptr);
            one.watch_reads(true);
            one.join(launches_.size() == 1 ? &known->names : nullptr);
        }
        base.result = in_order(budget, base.instructions, base.strays);
        known->names.settle();
        base.independent = base.result.end == TrialEnd::finished && launches_.size() == 1 && plan_.setup.stages.front().cleared.empty();
        for (auto& one : touched_) {
            one.join(nullptr);
            base.independent &= !one.unjoined();
            known->sharers.push_back(one.written() ? one.shared_by(known->names) : Sharers{});
        }
        if (base.result.end == TrialEnd::finished) base.wrong = wrong_elements();
        if (base.independent) into_groups(plan_, *known);
        base.independent &= known->count > 1 || blocks_ == 1;
        put_back();
        return known;
    }

private:
    // Writable memory is in copies of this worker's own.
    void copy() {
        for (const auto& part : plan_.parts) {
            auto region = part.region;
            if (region.writable || part.selects) {
                copies_.push_back(std::make_unique<std::byte[]>(region.size));
                std::memcpy(copies_.back().get(), region.host, region.size);
                region.host = copies_.back().get();
            }
            own_.push_back(region);
        }
    }

    // Where a judged array, or any other address of the first launch, lies.
    std::byte* host(std::uint64_t address) const { return host(*launches_.front(), address); }
    static std::byte* host(const Launched& launched, std::uint64_t address) {
        const auto& region = launched.memory.find(address)->region;
        return region.host + (address - region.base);
    }

    void select(std::uint32_t selector) {
        for (const auto& one : launches_)
            if (one->stage.selector != 0) std::memcpy(host(*one, one->stage.selector), &selector, sizeof selector);
    }

    // What the host sets to zero before a launch.
    void clear(const Launched& launched) {
        for (const auto& [base, bytes] : launched.stage.cleared) {
            if (bytes == 0) continue;
            const auto* found = launched.memory.find(base);
            std::memset(host(launched, base), 0, bytes);
            found->touched->write(base - found->region.base, bytes, several - 1);
        }
    }

    void put_back() {
        for (std::size_t i = 0; i < touched_.size(); ++i) {
            const auto& region = plan_.parts[i].region;
            if (!region.writable) continue;
            auto* to = own_[i].host;
            for (const auto p : touched_[i].pages()) {
                const auto first = p * Touched::page;
                std::memcpy(to + first, region.host + first, std::min(Touched::page, region.size - first));
            }
            touched_[i].forget();
        }
    }

    // Whether some group read, or wrote, what belongs to another one.
    template <bool (Touched::*what)() const>
    [[nodiscard]] bool any() const {
        return std::any_of(touched_.begin(), touched_.end(), [](const Touched& one) { return (one.*what)(); });
    }

    // False when groups of blocks turned out to depend on each other: then `result` is worth nothing but its instructions.
    //
    // What a group does that reads nothing of others is what it does in any order. If it leaves a wrong element, the change is no good,
    // whoever else writes there: the blocks of a right kernel may end in any order. If not, the order counts once something is shared.
    bool group_by_group(const TrialLimits& limits, TrialResult& result) {
        const auto& known = *plan_.known;
        const auto& suspects = known.base.wrong_blocks;
        std::vector<std::uint8_t> done(blocks_, 0);
        unsigned looked = 0, empty = 0;
        std::uint64_t rest = 0;
        const auto better = [&] { return result.mended + result.fewer > result.broken + result.damaged + result.more; };
        for (std::uint64_t i = 0; i < blocks_ + suspects.size(); ++i) {
            const bool suspect = i < suspects.size();
            if (!suspect && looked != 0 && !better()) {
                result.end = TrialEnd::stopped;
                return true;
            }
            const auto name = suspect ? suspects[i] : static_cast<std::uint32_t>(rest++);
            const auto& group = known.groups[name];
            if (done[name] != 0 || group.blocks.empty()) continue;
            done[name] = 1;
            std::uint64_t strays = 0;
            switch (together(group, limits, strays, result)) {
                case Ran::whole: break;
                case Ran::ended: return true;
                case Ran::uncertain: return false;
            }
            result.strays += strays;
            compare(strays, group.strays, result);
            const bool overlaps = any<&Touched::write_shared>();
            if (limits.looks == 0) {
                if (overlaps) return false;
                continue;
            }
            const auto seen = count_written(name);
            add(seen, result);
            bool bad = seen.wrong != 0 || seen.damaged != 0 || strays != 0;
            // What it does not write any more another group may write now. Two groups that leave their own, and touch no other's, tell.
            if (!bad && !overlaps) {
                const auto left = count_left(group);
                if (left.wrong != 0 && (++empty >= 2 || known.count == 1)) {
                    add(left, result);
                    bad = true;
                }
            }
            if (!bad || better()) {
                if (overlaps) return false;
                continue;
            }
            if (++looked >= limits.looks) {
                result.end = TrialEnd::stopped;
                return true;
            }
            if (overlaps) return false;
        }
        result = counted(result);
        return true;
    }

    enum class Ran : std::uint8_t { whole, ended, uncertain };

    // Runs the blocks of a group in their order.
    Ran together(const GroupOfBlocks& group, const TrialLimits& limits, std::uint64_t& strays, TrialResult& result) {
        const auto& known = *plan_.known;
        const auto& launched = *launches_.front();
        if (!block_) block_ = std::make_unique<Block>(launches_.front()->shared, launched.warps, nullptr);
        for (const auto index : group.blocks) {
            block_->start(index);
            auto quota = limits.times * known.base.instructions[index] + limits.slack;
            auto status = block_->run(quota);
            bool waited = false;
            for (; status == BlockStatus::running && block_->waits(); status = block_->run(quota)) waited = true;
            result.instructions += block_->executed();
            if (any<&Touched::read_shared>()) return Ran::uncertain;
            if (status == BlockStatus::faulted) {
                result.end = TrialEnd::fault;
                result.fault = block_->fault().kind;
                return Ran::ended;
            }
            if (status == BlockStatus::running) {
                const bool stopped = launched.shared.stop.load(std::memory_order_relaxed);
                if (!stopped && waited && index != group.blocks.back()) return Ran::uncertain;  // maybe for a later one
                result.end = stopped ? TrialEnd::interrupted : TrialEnd::budget;
                return Ran::ended;
            }
            strays += block_->strays();
        }
        return Ran::whole;
    }

    // used, strays: instructions, and accesses that belong nowhere, of each block.
    TrialResult in_order(std::uint64_t budget, std::vector<std::uint64_t>& used, std::vector<std::uint64_t>& strays) {
        TrialResult result;
        result.in_order = true;
        used.assign(blocks_, 0);
        strays.assign(blocks_, 0);
        std::uint64_t first = 0;
        for (const auto& one : launches_) {
            clear(*one);
            launch(*one, budget, first, used, strays, result);
            if (result.end != TrialEnd::finished) return result;
            first += one->shared.spec.grid.count();
        }
        return counted(result);
    }

    // One launch, whose blocks are numbered from `first` on.
    void launch(Launched& launched, std::uint64_t budget, std::uint64_t first, std::vector<std::uint64_t>& used, std::vector<std::uint64_t>& strays,
                TrialResult& result) {
        auto& shared = launched.shared;
        const auto blocks = shared.spec.grid.count();
        std::uint64_t begun = 0;
        std::vector<Resident> residents;
        const auto next = [&](std::uint64_t& index) {
            index = begun;
            return begun < blocks && ++begun != 0;
        };
        const auto run = [&](Resident& one, std::uint64_t length, BlockStatus& status) {
            auto quota = length;
            status = one.block->run(quota);
            const auto executed = one.block->executed();
            result.instructions += executed - one.executed;
            one.executed = executed;
            if (status == BlockStatus::faulted) {
                result.end = TrialEnd::fault;
                result.fault = one.block->fault().kind;
            } else if (budget != 0 && result.instructions > budget) {
                result.end = TrialEnd::budget;
            } else if (shared.stop.load(std::memory_order_relaxed)) {
                result.end = TrialEnd::interrupted;
            } else {
                return true;
            }
            return false;
        };
        const auto patience = std::min(launched.stage.request.patience, budget == 0 ? block_slice : std::max<std::uint64_t>(budget, 1));
        in_turns(
            shared, launched.warps, [](std::uint64_t) { return nullptr; }, patience, residents, next, run,
            [&](const Block& block) {
                used[first + block.index()] = block.executed();
                strays[first + block.index()] = block.strays();
                result.strays += block.strays();
            });
    }

    // Calls body(array, item, bytes, initial bytes) for the items in pages that were written.
    template <class Body>
    void each_written(Body&& body) {
        for (std::size_t p = 0; p < plan_.parts.size(); ++p) {
            const auto& part = plan_.parts[p];
            if (!touched_[p].written()) continue;
            const auto* now = host(part.region.base);
            for (const auto a : part.arrays) {
                const auto& array = plan_.setup.arrays[a];
                const auto offset = array.base - part.region.base, bytes = item_bytes(array.type);
                std::uint64_t from = 0;
                for (const auto page : touched_[p].pages()) {
                    const auto begin = page * Touched::page, end = begin + Touched::page;
                    if (end <= offset) continue;
                    from = std::max(from, begin <= offset ? 0 : (begin - offset) / bytes);
                    const auto until = std::min<std::uint64_t>(array.element.size(), (end - offset + bytes - 1) / bytes);
                    for (; from < until; ++from) {
                        const auto at = offset + from * bytes;
                        body(array, static_cast<std::uint32_t>(from), touched_[p].writer(at / part.item), now + at, part.region.host + at);
                    }
                }
            }
        }
    }

    // What a group wrote.
    Count count_written(std::uint32_t name) {
        Count seen;
        each_written([&](const JudgedArray& array, std::uint32_t item, std::uint32_t writer, const std::byte* at, const std::byte* initial) {
            if (writer == name + 1) judge_.judge(array, item, at, initial, seen);
        });
        return seen;
    }

    // What a group wrote in the base run, and nobody has written now.
    Count count_left(const GroupOfBlocks& group) {
        Count seen;
        for (const auto& [a, item] : group.owned) {
            const auto& array = plan_.setup.arrays[a];
            const auto& part = plan_.parts[plan_.part_of[a]];
            const auto at = array.base - part.region.base + item * item_bytes(array.type);
            if (touched_[plan_.part_of[a]].writer(at / part.item) == nobody)
                judge_.judge(array, item, host(part.region.base) + at, part.region.host + at, seen);
        }
        return seen;
    }

    // Everything, after all blocks ran.
    TrialResult counted(TrialResult result) {
        Count seen;
        for (std::uint32_t a = 0; a < plan_.setup.arrays.size(); ++a) {
            const auto& array = plan_.setup.arrays[a];
            const auto& part = plan_.parts[plan_.part_of[a]];
            const auto offset = array.base - part.region.base, bytes = item_bytes(array.type);
            const auto* now = host(part.region.base);
            for (std::uint32_t item = 0; item < array.element.size(); ++item)
                if (array.element[item] >= 0) judge_.judge(array, item, now + offset + item * bytes, part.region.host + offset + item * bytes, seen);
        }
        each_written([&](const JudgedArray& array, std::uint32_t item, std::uint32_t, const std::byte* at, const std::byte* initial) {
            if (array.element[item] == guard_item) judge_.judge(array, item, at, initial, seen);
        });
        result.wrong = result.mended = result.broken = result.damaged = 0;
        result.first = -1;
        result.error = 0;
        result.looked = result.trace = 0;
        add(seen, result);
        return result;
    }

    [[nodiscard]] std::vector<std::uint8_t> wrong_elements() const {
        std::vector<std::uint8_t> wrong(plan_.setup.expected.value.size(), 0);
        for (std::uint32_t a = 0; a < plan_.setup.arrays.size(); ++a) {
            const auto& array = plan_.setup.arrays[a];
            const auto* at = host(array.base);
            for (const auto element : array.element) {
                if (element >= 0) wrong[static_cast<std::size_t>(element)] = judge_.is_right(array, static_cast<std::size_t>(element), at) ? 0 : 1;
                at += item_bytes(array.type);
            }
        }
        return wrong;
    }

    static void compare(std::uint64_t strays, std::uint64_t before, TrialResult& to) {
        to.fewer += before > strays ? before - strays : 0;
        to.more += strays > before ? strays - before : 0;
    }

    const Plan& plan_;
    Judge judge_;
    std::vector<std::unique_ptr<std::byte[]>> copies_;
    std::vector<Region> own_;       // per part
    std::vector<Touched> touched_;  // the same
    std::vector<std::unique_ptr<Launched>> launches_;
    std::uint64_t blocks_ = 0;      // of all launches
    std::unique_ptr<Block> block_;  // of the first
};

}  // namespace wmmadiag::trials
