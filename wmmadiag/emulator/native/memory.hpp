// Global memory: the launch's allocations, found by address; and what makes parallel runs deterministic.
#pragma once

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
