// coverage: warps that changed nothing: no store, atomic, asynchronous copy, barrier or exchange between lanes in any block.
//
// Kind "idle": address: bits of the warps of a block that did nothing in it; merged by Python over blocks. count: blocks with this set.
#include <bit>
#include <map>

#include "../check.hpp"

namespace wmmadiag {

namespace {

class Coverage final : public Check {
public:
    explicit Coverage(const Shared& shared) : warps_(shared.spec.warps()) {}

    void block_start(const Block& block) override { worked_[block.index()] = 0; }
    void memory(const MemoryEvent& event) override {
        if (event.kind != AccessKind::load) works(event.where);
    }
    void tensor(const TensorEvent& event) override { works(event.where); }
    void block_end(const Block& block) override {
        const Mask all = warps_ == lanes ? all_lanes : (Mask{1} << warps_) - 1;
        const Mask idle = all & ~worked_[block.index()];
        worked_.erase(block.index());
        auto& finding = found_[idle];
        if (finding.count++ == 0) {
            finding.check = "coverage";
            finding.kind = "idle";
            finding.other_pc = idle;
            finding.address = idle;
            finding.bytes = warps_;
            finding.block = block.index();
        }
    }

    std::vector<RawFinding> findings() override {
        std::vector<RawFinding> all;
        for (auto& [idle, finding] : found_) all.push_back(finding);
        return all;
    }

private:
    // The blocks of a cluster run as one: a warp has worked where it has in any of them.
    void works(const Where& where) { worked_[where.block] |= Mask{1} << where.warp % warps_; }

    unsigned warps_;  // of a block
    std::map<std::uint32_t, Mask> worked_;
    std::map<Mask, RawFinding> found_;
};

}  // namespace

std::unique_ptr<Check> make_coverage(const Shared& shared) { return std::make_unique<Coverage>(shared); }

}  // namespace wmmadiag
