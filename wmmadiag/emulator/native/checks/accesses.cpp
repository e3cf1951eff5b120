// accesses: per instruction, how far it reaches into shared memory, and the alignment and leading dimensions of fragments.
//
// Kinds (Python judges them): "low" and "high": address: the lowest byte and the one after the highest that it touched in shared memory,
// first seen there; other_pc repeats the address (inverted for "high"), so that findings of several workers stay apart. "alignment": other_pc: the
// largest power of two up to 64 that divides the address; count: of such fragments. "ldm": other_pc: a leading dimension, elements; count: how often.
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "../access.hpp"
#include "../check.hpp"

namespace wmmadiag {

namespace {

constexpr std::size_t most_ldms = 16;
constexpr std::uint64_t alignment_limit = 64;

struct Reach {
    std::uint64_t low = ~std::uint64_t{0}, high = 0;
    RawFinding lowest, highest;
};

struct Fragment {
    std::array<RawFinding, 7> alignments;  // by power of two
    std::map<std::uint32_t, RawFinding> ldms;
};

class Accesses final : public Check {
public:
    explicit Accesses(const Shared& shared)
        : shared_(shared), source_(shared.program->source()), code_(shared.program->code().data()), reach_(source_.code.size()) {
        for (const auto& name : source_.operations) fragment_.push_back(name == "wmma.load" || name == "wmma.store");
    }

    void block_start(const Block& block) override { blocks_[block.index()] = &block; }
    void block_end(const Block& block) override { blocks_.erase(block.index()); }

    void memory(const MemoryEvent& event) override {
        const bool fragment = fragment_[source_.code[event.where.pc].op];
        if (fragment) see_fragment(event);
        if (event.space != Space::shared) return;
        auto& reach = reach_[event.where.pc];
        std::uint64_t low = ~std::uint64_t{0}, high = 0;
        const auto stride = shared_.spec.shared_stride;
        if (event.active == all_lanes && stride == 0) {
            for (unsigned l = 0; l < lanes; ++l) {
                low = std::min(low, event.addresses[l]);
                high = std::max(high, event.addresses[l]);
            }
        } else {
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto address = own(event.addresses[std::countr_zero(m)]);
                low = std::min(low, address);
                high = std::max(high, address);
            }
        }
        if (low < reach.low) {
            reach.low = low;
            reach.lowest = seen(event, "low", low, low);
        }
        if (high + event.bytes > reach.high) {
            reach.high = high + event.bytes;
            reach.highest = seen(event, "high", reach.high, high);
            reach.highest.other_pc = ~reach.highest.other_pc;  // the highest sorts first
        }
    }

    std::vector<RawFinding> findings() override {
        std::vector<RawFinding> found;
        for (auto& reach : reach_) {
            if (reach.high == 0) continue;
            found.push_back(reach.lowest);
            found.push_back(reach.highest);
        }
        for (auto& [pc, fragment] : fragments_) {
            for (auto& finding : fragment.alignments)
                if (finding.count != 0) found.push_back(finding);
            for (auto& [ldm, finding] : fragment.ldms) found.push_back(finding);
        }
        return found;
    }

private:
    // In a cluster, an address as the block has it whose memory it is.
    [[nodiscard]] std::uint64_t own(std::uint64_t address) const {
        const auto stride = shared_.spec.shared_stride;
        return stride == 0 ? address : address % stride;
    }

    RawFinding seen(const MemoryEvent& event, const char* kind, std::uint64_t value, std::uint64_t at) const {
        RawFinding f;
        f.check = "accesses";
        f.kind = kind;
        f.pc = event.where.pc;
        f.other_pc = static_cast<std::uint32_t>(value);
        f.space = event.space;
        f.address = value;
        f.bytes = event.bytes;
        f.block = event.where.block;
        f.warp = event.where.warp;
        f.count = 1;
        for (Mask m = event.active; m != 0; m &= m - 1) {
            f.lane = static_cast<std::uint32_t>(std::countr_zero(m));
            if (own(event.addresses[f.lane]) == at) break;
        }
        return f;
    }

    void see_fragment(const MemoryEvent& event) {
        auto& fragment = fragments_[event.where.pc];
        const auto power = static_cast<unsigned>(std::countr_zero(event.addresses[0] | alignment_limit));
        auto& of_power = fragment.alignments[power];
        if (of_power.count++ == 0) of_power = seen(event, "alignment", std::uint64_t{1} << power, event.addresses[0]);
        const auto slot = code_[event.where.pc].s[1];
        if (slot == no_operand) return;
        const auto* base = (slot & constant_bit) != 0 ? shared_.program->constants() : blocks_.at(event.where.block)->registers(event.where.warp);
        std::uint32_t ldm = 0;
        std::memcpy(&ldm, base + (slot & ~constant_bit), sizeof ldm);
        const auto entry = fragment.ldms.find(ldm);
        if (entry != fragment.ldms.end()) {
            ++entry->second.count;
        } else if (fragment.ldms.size() < most_ldms) {
            fragment.ldms.emplace(ldm, seen(event, "ldm", ldm, event.addresses[0]));
        }
    }

    const Shared& shared_;
    const ProgramSource& source_;
    const Inst* code_;
    std::vector<bool> fragment_;  // by operation
    std::vector<Reach> reach_;    // by program counter
    std::map<std::uint32_t, Fragment> fragments_;
    std::map<std::uint32_t, const Block*> blocks_;
};

}  // namespace

std::unique_ptr<Check> make_accesses(const Shared& shared) { return std::make_unique<Accesses>(shared); }

}  // namespace wmmadiag
