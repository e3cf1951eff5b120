// outputs: who wrote each element of the arguments that have known contents, and writes to those that must not change.
//
// `GridSpec::watched` lists them; each that may be written comes with one 64-bit word per element, zero at first, which holds its last
// writer: bit 0 written, bit 1 atomically, bit 2 read since; then warp (6 bits), instruction (24) and block (31). Python reads the words.
//
// Kinds: "input": a store to an argument that is only read; address, count of bytes. "lost": a plain store replaced what another warp
// or block had written, that nothing had read, and that was neither zero nor the same; other_pc: the line before; values: block, warp
// of the first writer, address; count of elements.
#include <array>
#include <atomic>
#include <cstring>
#include <map>

#include "../check.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t written = 1, atomically = 2, read_since = 4;
constexpr unsigned warp_shift = 3, pc_shift = 9, block_shift = 33, widest_item = 16;

std::uint64_t word_of(const Where& where, bool atomic) {
    return written | (atomic ? atomically : 0) | std::uint64_t{where.warp} << warp_shift | std::uint64_t{where.pc & 0xffffffu} << pc_shift |
           std::uint64_t{where.block & 0x7fffffffu} << block_shift;
}

class Outputs final : public Check {
public:
    explicit Outputs(const Shared& shared) : shared_(shared) {
        for (const auto& one : shared.spec.watched) {
            low_ = std::min(low_, one.base);
            high_ = std::max(high_, one.base + one.bytes);
            // Run again in block order: what the attempt before it left means nothing.
            if (!shared.tracking && one.words != nullptr) std::memset(one.words, 0, one.bytes / one.item * sizeof(std::uint64_t));
        }
    }

    void block_start(const Block&) override { settle(); }
    void block_end(const Block&) override { settle(); }

    void memory(const MemoryEvent& event) override {
        if (!pending_.empty()) settle();
        if (event.space != Space::global) return;
        for (Mask m = event.active; m != 0;) {
            const auto address = event.addresses[std::countr_zero(m)];
            if (address < low_ || address >= high_) {
                m &= m - 1;
                continue;
            }
            const auto* at = find(address);
            if (at == nullptr) {
                m &= m - 1;
                continue;
            }
            // Lanes of one access are mostly in one array.
            for (; m != 0; m &= m - 1) {
                const auto here = event.addresses[std::countr_zero(m)];
                if (here < at->base || here + event.bytes > at->base + at->bytes) break;
                touch(event, *at, here, static_cast<unsigned>(std::countr_zero(m)));
            }
            if (m != 0 && event.addresses[std::countr_zero(m)] == address) m &= m - 1;  // reaches over the end: faults next
        }
    }

    std::vector<RawFinding> findings() override {
        settle();
        std::vector<RawFinding> all;
        for (auto& [key, finding] : found_) all.push_back(finding);
        return all;
    }

private:
    struct Replaced {
        Where where;
        std::uint64_t before, address;
        unsigned lane, item;
        std::array<std::byte, widest_item> old;
    };

    const Watched* find(std::uint64_t address) {
        if (last_ != nullptr && address >= last_->base && address - last_->base < last_->bytes) return last_;
        for (const auto& one : shared_.spec.watched)
            if (address >= one.base && address - one.base < one.bytes) return last_ = &one;
        return nullptr;
    }

    void touch(const MemoryEvent& event, const Watched& at, std::uint64_t address, unsigned lane) {
        const bool reads = event.kind == AccessKind::load || event.kind == AccessKind::async_load;
        if (at.words == nullptr) {
            if (!reads) forbidden(event, address, lane);
            return;
        }
        const auto first = (address - at.base) / at.item, last = (address + event.bytes - 1 - at.base) / at.item;
        const auto mine = word_of(event.where, event.kind == AccessKind::atomic);
        for (auto i = first; i <= last; ++i) {
            const std::atomic_ref<std::uint64_t> word(at.words[i]);
            const auto before = word.load(std::memory_order_relaxed);
            if (reads) {
                if ((before & (written | read_since)) == written) word.store(before | read_since, std::memory_order_relaxed);
                continue;
            }
            constexpr auto writer = ~((std::uint64_t{1} << warp_shift) - 1) & ~(std::uint64_t{0xffffff} << pc_shift);
            if (before != 0 && ((before ^ mine) & writer) != 0 && ((before | mine) & (atomically | read_since)) == 0)
                replaced(event, at, i, before, lane);
            word.store(mine, std::memory_order_relaxed);
        }
    }

    void forbidden(const MemoryEvent& event, std::uint64_t address, unsigned lane) {
        auto& finding = found_[{event.where.pc, no_pc}];
        if (finding.count == 0) finding = seen("input", event.where, address, lane);
        finding.count += event.bytes;
    }

    // The new value is there when the next event comes.
    void replaced(const MemoryEvent& event, const Watched& at, std::uint64_t element, std::uint64_t before, unsigned lane) {
        const auto address = at.base + element * at.item;
        const auto* here = bytes_at(address, at.item);
        if (here == nullptr || at.item > widest_item) return;
        Replaced one{event.where, before, address, lane, static_cast<unsigned>(at.item), {}};
        std::memcpy(one.old.data(), here, at.item);
        pending_.push_back(one);
    }

    void settle() {
        for (const auto& one : pending_) {
            static constexpr std::array<std::byte, widest_item> zero{};
            const auto* now = bytes_at(one.address, one.item);
            if (std::memcmp(now, one.old.data(), one.item) == 0 || std::memcmp(one.old.data(), zero.data(), one.item) == 0) continue;
            const auto pc = static_cast<std::uint32_t>(one.before >> pc_shift & 0xffffffu);
            const auto block = static_cast<std::uint32_t>(one.before >> block_shift);
            const bool other_block = block != (one.where.block & 0x7fffffffu);
            auto& finding = found_[{one.where.pc, pc}];
            if (finding.count == 0) {
                finding = seen("lost", one.where, one.address, one.lane);
                finding.other_pc = pc;
                finding.other_warp = static_cast<std::uint32_t>(one.before >> warp_shift & 0x3f);
                finding.values = {static_cast<std::int64_t>(block), 0};
            }
            finding.values[1] |= other_block ? 1 : 0;
            ++finding.count;
        }
        pending_.clear();
    }

    static RawFinding seen(const char* kind, const Where& where, std::uint64_t address, unsigned lane) {
        RawFinding f;
        f.check = "outputs";
        f.kind = kind;
        f.pc = where.pc;
        f.space = Space::global;
        f.address = address;
        f.block = where.block;
        f.warp = where.warp;
        f.lane = lane;
        return f;
    }

    [[nodiscard]] const std::byte* bytes_at(std::uint64_t address, std::uint64_t bytes) const {
        const auto* allocation = shared_.memory->find(address);
        if (allocation == nullptr || !allocation->region.holds(address, bytes)) return nullptr;
        return allocation->region.host + (address - allocation->region.base);
    }

    const Shared& shared_;
    const Watched* last_ = nullptr;
    std::uint64_t low_ = ~std::uint64_t{0}, high_ = 0;
    std::vector<Replaced> pending_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, RawFinding> found_;
};

}  // namespace

std::unique_ptr<Check> make_outputs(const Shared& shared) { return std::make_unique<Outputs>(shared); }

}  // namespace wmmadiag
