// banks: how many passes shared memory, and how many sectors global memory, take for each access; in the first blocks only.
//
// Kinds "shared" and "global": count: requests; values: passes (or 32-byte sectors) taken, and the fewest possible for the bytes asked for.
// Kind "fragment": count: wmma.load and wmma.store in shared memory; values: for each (address of line 0 modulo 128, bytes from it to line
// 1), both and how many. Which instructions that becomes, and their passes, is known in wmmadiag/fragments/shared_requests.py.
// Shared memory has 32 banks of 4 bytes; a request of 8 bytes per lane is served for half a warp at a time, one of 16 for a quarter, and rows
// of ldmatrix 8 at a time. (CUDA C++ Best Practices, "Shared Memory")
#include <algorithm>
#include <array>
#include <bit>
#include <map>

#include "../check.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint32_t blocks_watched = 2;
constexpr unsigned banks = 32;
constexpr std::uint64_t bytes_per_pass = 128;
constexpr std::uint64_t sector = 32;

struct Cost {
    RawFinding first;
    std::uint64_t taken = 0, needed = 0;
};

class Banks final : public Check {
public:
    explicit Banks(const Shared& shared) : source_(shared.program->source()) {
        for (const auto& name : source_.operations) {
            fragment_.push_back(name == "wmma.load" || name == "wmma.store");
        }
    }

    void memory(const MemoryEvent& event) override {
        if (event.where.block >= blocks_watched || event.kind == AccessKind::atomic) return;
        const auto op = source_.code[event.where.pc].op;
        if (event.space == Space::shared) {
            if (fragment_[op]) fragment(event);
            else lanes_of(event);
        } else if (event.space == Space::global && !fragment_[op]) {
            sectors(event);
        }
    }

    std::vector<RawFinding> findings() override {
        std::vector<RawFinding> all;
        for (auto& [key, cost] : costs_) {
            cost.first.values = {static_cast<std::int64_t>(cost.taken), static_cast<std::int64_t>(cost.needed)};
            all.push_back(cost.first);
        }
        for (auto& [key, seen] : fragments_) {
            for (const auto& [shape, count] : seen.second)
                for (const auto value : {shape.first, shape.second, count}) seen.first.values.push_back(static_cast<std::int64_t>(value));
            all.push_back(seen.first);
        }
        return all;
    }

private:
    // Passes for words of 4 bytes: lanes that want the same word share it.
    class Pass {
    public:
        void add(std::uint64_t word) {
            const auto bank = word % banks;
            for (unsigned i = 0; i < count_[bank]; ++i)
                if (words_[bank][i] == word) return;
            words_[bank][count_[bank]++] = word;
            most_ = std::max<unsigned>(most_, count_[bank]);
        }
        [[nodiscard]] unsigned passes() const { return most_; }

    private:
        std::array<std::array<std::uint64_t, lanes>, banks> words_;
        std::array<std::uint8_t, banks> count_{};
        unsigned most_ = 0;
    };

    static void begin(RawFinding& first, const MemoryEvent& event, const char* kind) {
        first.check = "banks";
        first.kind = kind;
        first.pc = event.where.pc;
        first.other_pc = event.where.block;
        first.space = event.space;
        first.bytes = event.bytes;
        first.block = event.where.block;
        first.warp = event.where.warp;
    }

    void note(const MemoryEvent& event, const char* kind, unsigned taken, unsigned needed) {
        // Per block, so that what is merged does not depend on which worker ran it.
        auto& cost = costs_[{event.where.pc, event.where.block, kind[0]}];
        if (cost.first.count++ == 0) begin(cost.first, event, kind);
        cost.taken += taken;
        cost.needed += needed;
    }

    void lanes_of(const MemoryEvent& event) {
        const unsigned at_once = event.bytes <= 4 ? 32 : event.bytes == 8 ? 16 : 8;
        unsigned taken = 0, needed = 0;
        for (unsigned first = 0; first < lanes; first += at_once) {
            Pass pass;
            for (unsigned lane = first; lane < first + at_once; ++lane) {
                if ((event.active >> lane & 1) == 0) continue;
                for (std::uint64_t at = event.addresses[lane] / 4; at <= (event.addresses[lane] + event.bytes - 1) / 4; ++at) pass.add(at);
            }
            taken += pass.passes();
            needed += pass.passes() != 0 ? 1 : 0;
        }
        note(event, "shared", taken, needed);
    }

    void fragment(const MemoryEvent& event) {
        auto& [first, shapes] = fragments_[{event.where.pc, event.where.block}];
        if (first.count++ == 0) begin(first, event, "fragment");
        ++shapes[{event.addresses[0] % bytes_per_pass, event.addresses[1] - event.addresses[0]}];
    }

    void sectors(const MemoryEvent& event) {
        std::array<std::uint64_t, 2 * lanes> touched;
        unsigned count = 0;
        std::array<std::uint64_t, lanes> distinct;
        unsigned different = 0;
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto a = event.addresses[std::countr_zero(m)];
            distinct[different++] = a;
            touched[count++] = a / sector;
            if ((a + event.bytes - 1) / sector != a / sector) touched[count++] = (a + event.bytes - 1) / sector;
        }
        std::sort(touched.begin(), touched.begin() + count);
        count = static_cast<unsigned>(std::unique(touched.begin(), touched.begin() + count) - touched.begin());
        std::sort(distinct.begin(), distinct.begin() + different);
        different = static_cast<unsigned>(std::unique(distinct.begin(), distinct.begin() + different) - distinct.begin());
        note(event, "global", count, std::max<unsigned>(1, static_cast<unsigned>((different * event.bytes + sector - 1) / sector)));
    }

    const ProgramSource& source_;
    std::vector<bool> fragment_;  // by operation
    std::map<std::tuple<std::uint32_t, std::uint32_t, char>, Cost> costs_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<RawFinding, std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>>>
        fragments_;
};

}  // namespace

std::unique_ptr<Check> make_banks(const Shared& shared) { return std::make_unique<Banks>(shared); }

}  // namespace wmmadiag
