// writers: who stored each byte of global memory last. No check by itself: reports draw it. Meant for one thread.
//
// Kind "last": values: triples (first address, bytes, block * 32 + warp) in ascending order, without gaps in a run. count: bytes.
#include <array>
#include <bit>
#include <map>

#include "../check.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::uint64_t nobody = ~std::uint64_t{0};
using Page = std::array<std::uint64_t, page_bytes>;

class Writers final : public Check {
public:
    explicit Writers(const Shared&) {}

    void memory(const MemoryEvent& event) override {
        if (event.space != Space::global || (event.kind != AccessKind::store && event.kind != AccessKind::atomic)) return;
        const std::uint64_t who = std::uint64_t{event.where.block} * lanes + event.where.warp;
        for (auto left = event.active; left != 0; left &= left - 1) {
            const auto first = event.addresses[std::countr_zero(left)];
            for (auto address = first; address < first + event.bytes; ++address) page(address)[address % page_bytes] = who;
        }
    }

    std::vector<RawFinding> findings() override {
        RawFinding all;
        all.check = "writers";
        all.kind = "last";
        for (const auto& [number, writers] : pages_) {
            for (std::uint64_t at = 0; at < page_bytes; ++at) {
                const auto who = (*writers)[at];
                if (who == nobody) continue;
                ++all.count;
                const auto address = static_cast<std::int64_t>(number * page_bytes + at), writer = static_cast<std::int64_t>(who);
                auto& values = all.values;
                if (!values.empty() && values.back() == writer && values[values.size() - 3] + values[values.size() - 2] == address) {
                    ++values[values.size() - 2];
                } else {
                    values.insert(values.end(), {address, 1, writer});
                }
            }
        }
        return {all};
    }

private:
    Page& page(std::uint64_t address) {
        const auto number = address / page_bytes;
        if (number != last_number_ || last_ == nullptr) {
            auto& found = pages_[number];
            if (found == nullptr) {
                found = std::make_unique<Page>();
                found->fill(nobody);
            }
            last_ = found.get();
            last_number_ = number;
        }
        return *last_;
    }

    std::map<std::uint64_t, std::unique_ptr<Page>> pages_;
    Page* last_ = nullptr;
    std::uint64_t last_number_ = 0;
};

}  // namespace

std::unique_ptr<Check> make_writers(const Shared& shared) { return std::make_unique<Writers>(shared); }

}  // namespace wmmadiag
