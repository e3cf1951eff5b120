// Global memory: the launch's allocations, found by address; and what makes parallel runs deterministic.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

namespace wmmadiag {

class Touched;

// Generic-address windows. The .shared and .local windows hold offsets; everything else is global.
inline constexpr std::uint64_t shared_window = 0x7e00'0000'0000;
inline constexpr std::uint64_t local_window = 0x7d00'0000'0000;
inline constexpr std::uint64_t window_size = 0x1'0000'0000;

struct Region {
    std::uint64_t base = 0;
    std::uint64_t size = 0;
    std::byte* host = nullptr;
    bool writable = false;

    [[nodiscard]] bool holds(std::uint64_t address, std::uint64_t bytes) const {
        return address >= base && bytes <= size && address - base <= size - bytes;
    }
};

// One buffer of the launch. When blocks run on several threads, it also remembers enough to know whether their order could
// have mattered: which block wrote each granule, and whether the buffer was read. A launch in which it could have mattered is
// undone and run again in block order on one thread, so the bits never depend on the number of threads.
class Allocation {
public:
    explicit Allocation(Region region) : region(region) {}

    Region region;
    Touched* touched = nullptr;  // told of every access, if set; by one thread
    // A bit of each byte that something has written, before this launch or in it; nullptr: all of them are.
    std::uint64_t* initialised = nullptr;

    void track();  // called before a parallel run
    void undo();   // back to the bytes before the run
    // False when another block wrote there.
    bool note_write(std::uint64_t offset, std::uint64_t bytes, std::uint32_t block) {
        if (!owner_) return true;
        if (!written_.load(std::memory_order_acquire)) remember();
        bool alone = true;
        for (auto g = offset / granule; g <= (offset + bytes - 1) / granule; ++g) {
            const auto mine = block + 1;
            const std::atomic_ref owner(owner_[g]);
            if (owner.load(std::memory_order_relaxed) == mine) continue;
            const auto previous = owner.exchange(mine, std::memory_order_relaxed);
            alone &= previous == 0 || previous == mine;
        }
        return alone;
    }
    void note_read() {
        if (!read_.load(std::memory_order_relaxed)) read_.store(true, std::memory_order_relaxed);
    }
    [[nodiscard]] bool read_and_written() const { return read_ && written_; }

    // That a stretch means nothing before the launch writes it. `kept`: bits of all of the buffer, which outlive the launch; nullptr: all else
    // is initialised.
    void begins_unwritten(std::uint64_t offset, std::uint64_t bytes, std::uint64_t* kept);
    void note_initialised(std::uint64_t offset, std::uint64_t bytes) {
        for (const auto end = offset + bytes; offset < end;) {
            const auto first = offset % 64, count = std::min(64 - first, end - offset);
            const auto bits = ~std::uint64_t{0} >> (64 - count) << first;
            const std::atomic_ref word(initialised[offset / 64]);
            if ((word.load(std::memory_order_relaxed) & bits) != bits) word.fetch_or(bits, std::memory_order_relaxed);
            offset += count;
        }
    }
    // Whether something has written all of [begin, end) of the buffer.
    [[nodiscard]] bool all_initialised(std::uint64_t begin, std::uint64_t end) const;
    // Those of at most 32 bytes that nothing has written, the first in bit 0.
    [[nodiscard]] std::uint32_t uninitialised(std::uint64_t offset, unsigned bytes) const;

private:
    // Bytes that have one writer: few, or blocks of few threads that write next to each other would seem to write the same.
    static constexpr std::uint64_t granule = 8;
    struct Free {
        void operator()(std::uint32_t* p) const { std::free(p); }
    };

    void remember();  // copy the bytes before the first write

    std::atomic<bool> read_{false};
    std::atomic<bool> written_{false};
    std::mutex mutex_;
    std::unique_ptr<std::byte[]> before_;
    std::vector<std::uint64_t> own_bits_, bits_before_;  // of `initialised`: where nobody keeps them; before the run
    [[nodiscard]] std::uint64_t words() const { return region.size / 64 + 1; }
    // Per granule: block + 1 of the writer, 0 = nobody. Pages of it that no write comes to are never made.
    std::unique_ptr<std::uint32_t[], Free> owner_;
};

class GlobalMemory {
public:
    // Regions must not overlap. Throws std::invalid_argument otherwise.
    explicit GlobalMemory(std::vector<Region> regions);

    // The allocation that holds the address, or nullptr.
    [[nodiscard]] Allocation* find(std::uint64_t address) const;

    void track();
    void undo();
    [[nodiscard]] bool order_mattered() const;

private:
    std::vector<std::unique_ptr<Allocation>> allocations_;  // by address
    std::vector<std::uint64_t> bases_;                      // of those, next to each other
};

}  // namespace wmmadiag
