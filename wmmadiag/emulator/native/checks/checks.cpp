#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <stdexcept>
#include <tuple>

#include "../check.hpp"

namespace wmmadiag {

std::unique_ptr<Check> make_barriers(const Shared&);
std::unique_ptr<Check> make_races(const Shared&);
std::unique_ptr<Check> make_reversed(const Shared&);
std::unique_ptr<Check> make_provenance(const Shared&);
std::unique_ptr<Check> make_uninitialised(const Shared&);
std::unique_ptr<Check> make_accesses(const Shared&);
std::unique_ptr<Check> make_numbers(const Shared&);
std::unique_ptr<Check> make_coverage(const Shared&);
std::unique_ptr<Check> make_banks(const Shared&);
std::unique_ptr<Check> make_outputs(const Shared&);

namespace {

constexpr std::array table{
    CheckEntry{"barriers", make_barriers},           CheckEntry{"races", make_races},       CheckEntry{"provenance", make_provenance},
    CheckEntry{"uninitialised", make_uninitialised}, CheckEntry{"accesses", make_accesses}, CheckEntry{"numbers", make_numbers},
    CheckEntry{"coverage", make_coverage},           CheckEntry{"banks", make_banks},       CheckEntry{"outputs", make_outputs},
    CheckEntry{"reversed", make_reversed},
};

}  // namespace

std::span<const CheckEntry> all_checks() { return table; }

CheckSet::CheckSet(const std::vector<std::string>& names, const Shared& shared, Observer* listener) {
    for (const auto& name : names) {
        const auto entry = std::find_if(all_checks().begin(), all_checks().end(), [&](const CheckEntry& e) { return e.name == name; });
        if (entry == all_checks().end()) throw std::invalid_argument("unknown check " + name);
        checks_.push_back(entry->make(shared));
        all_.push_back(checks_.back().get());
    }
    if (listener != nullptr) all_.push_back(listener);
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(instructions_), [](const Observer* o) { return o->wants_instructions(); });
    const auto count = static_cast<std::uint32_t>(shared.program->code().size());
    results_of_.assign(count, 0);
    operands_of_.assign(count, 0);
    for (std::size_t i = 0; i < instructions_.size(); ++i) {
        for (std::uint32_t pc = 0; pc < count; ++pc) {
            results_of_[pc] |= static_cast<std::uint16_t>(instructions_[i]->wants_result_of(pc) << i);
            operands_of_[pc] |= static_cast<std::uint16_t>(instructions_[i]->wants_operands_of(pc) << i);
        }
    }
}

void CheckSet::block_start(const Block& block) {
    for (auto* observer : all_) observer->block_start(block);
}
void CheckSet::block_end(const Block& block) {
    for (auto* observer : all_) observer->block_end(block);
}
void CheckSet::memory(const MemoryEvent& event) {
    for (auto* observer : all_) observer->memory(event);
}
void CheckSet::tensor(const TensorEvent& event) {
    for (auto* observer : all_) observer->tensor(event);
}
void CheckSet::barrier(const BarrierEvent& event) {
    for (auto* observer : all_) observer->barrier(event);
}
void CheckSet::async(const AsyncEvent& event) {
    for (auto* observer : all_) observer->async(event);
}
void CheckSet::mbarrier(const MbarrierEvent& event) {
    for (auto* observer : all_) observer->mbarrier(event);
}
void CheckSet::fence(const Where& where, Mask active) {
    for (auto* observer : all_) observer->fence(where, active);
}
void CheckSet::meet(const Where& where, Mask here, Mask members) {
    for (auto* observer : all_) observer->meet(where, here, members);
}
void CheckSet::left(const Where& where, Mask active) {
    for (auto* observer : all_) observer->left(where, active);
}
void CheckSet::executed(const WriteEvent& event) {
    for (std::uint32_t m = results_of_[event.where.pc]; m != 0; m &= m - 1) instructions_[std::countr_zero(m)]->executed(event);
}
void CheckSet::executing(const WriteEvent& event) {
    for (std::uint32_t m = operands_of_[event.where.pc]; m != 0; m &= m - 1) instructions_[std::countr_zero(m)]->executing(event);
}
void CheckSet::skipped(const WriteEvent& event) {
    for (auto* observer : instructions_) observer->skipped(event);
}

void CheckSet::collect(std::vector<RawFinding>& merged) {
    const auto key = [](const RawFinding& f) { return std::tie(f.check, f.kind, f.pc, f.other_pc, f.space); };
    for (const auto& check : checks_) {
        for (auto& finding : check->findings()) {
            const auto same = std::find_if(merged.begin(), merged.end(), [&](const RawFinding& f) { return key(f) == key(finding); });
            if (same == merged.end()) {
                merged.push_back(std::move(finding));
                continue;
            }
            const auto count = same->count + finding.count;
            if (finding.block < same->block) *same = std::move(finding);
            same->count = count;
        }
    }
    std::sort(merged.begin(), merged.end(), [&](const RawFinding& a, const RawFinding& b) { return key(a) < key(b); });
}

}  // namespace wmmadiag
