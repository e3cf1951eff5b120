// One thread block: its warps, shared memory, barriers; and the grid that it belongs to.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "memory.hpp"
#include "warp.hpp"

namespace wmmadiag {

struct Dim3 {
    std::uint32_t x = 1, y = 1, z = 1;
    [[nodiscard]] std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

inline constexpr unsigned barrier_count = 16;
inline constexpr std::uint64_t stray_bytes = 4096;     // the longest access that may belong nowhere and pass
inline constexpr std::uint64_t warp_slice = 1u << 16;  // instructions until another warp gets its turn
// Rounds in which all warps only look at mbarriers that nobody arrives at: no other block can either, so that they look for ever. (A loop
// that counts its looks and gives up after more of them than this would be taken for one that hangs.)
inline constexpr std::uint64_t vain_rounds = 1u << 16;

// An argument whose stores checks want to see: [base, base + bytes) in elements of `item` bytes. `words`: one per element, for whoever
// writes it; nullptr: nothing may.
struct Watched {
    std::uint64_t base = 0, bytes = 0, item = 1;
    std::uint64_t* words = nullptr;
};

struct GridSpec {
    Dim3 grid, block;
    [[nodiscard]] unsigned warps() const { return static_cast<unsigned>((block.count() + lanes - 1) / lanes); }  // of a block
    std::uint32_t shared_base = 0;   // first usable offset: the chip keeps what is below for itself
    std::uint32_t shared_bytes = 0;  // static + dynamic, from shared_base
    std::uint32_t dynamic_bytes = 0;
    std::uint64_t multiprocessors = 0;  // of the device, %nsmid; 0: each block has one of its own
    std::uint32_t poison = 0;           // word that fills shared and local memory
    std::uint32_t register_poison = 0;
    std::vector<std::uint32_t> warp_order;  // empty: 0, 1, 2, ...
    bool eager_copies = false;              // cp.async lands at once
    bool last_block_first = false;          // blocks begin in the opposite order; on one thread
    std::vector<Watched> watched;
    // Blocks of a cluster run as one: their warps follow each other, and so do their shared memories, `shared_stride` bytes apart, with the
    // cluster's mbarrier behind them; `shared_bytes` is for all. 0: the kernel knows of no clusters.
    Dim3 cluster;
    std::uint32_t shared_stride = 0, shared_of_one = 0;  // `shared_of_one`: bytes of each block's, from `shared_base`
    [[nodiscard]] std::uint32_t cluster_barrier() const { return shared_stride * static_cast<std::uint32_t>(cluster.count()); }
    // Whether these bytes of shared memory are some block's.
    [[nodiscard]] bool shared_holds(std::uint64_t offset, std::uint64_t bytes) const {
        const auto end = std::uint64_t{shared_base} + shared_bytes;
        if (offset < shared_base || offset > end || bytes > end - offset) return false;
        if (shared_stride == 0 || offset >= cluster_barrier()) return true;
        const auto own = offset % shared_stride;
        return own >= shared_base && own + bytes <= std::uint64_t{shared_base} + shared_of_one;
    }
};

// What blocks of one launch share.
struct Shared {
    const Program* program = nullptr;
    GridSpec spec;
    GlobalMemory* memory = nullptr;
    std::vector<std::int64_t> check_table;  // what a check needs from Python; its own format
    bool tracking = false;                  // several threads: note who wrote where
    bool strays_pass = false;               // an access that belongs nowhere reads zeros, or is lost, and is counted
    bool local_unaligned = false;           // local memory is read and written at any address
    std::atomic<bool> stop{false};          // interrupted, or another block ended the run
    std::atomic<bool> order_matters{false};
};

struct Barrier {
    bool active = false;
    std::uint32_t expected = 0;         // threads; 0 = all of the block
    std::array<Mask, lanes> arrived{};  // per warp of the block, lanes that arrived
    std::array<Mask, lanes> waiting{};  // of those, lanes that wait
    std::uint32_t reduce_and = 1, reduce_or = 0, reduce_count = 0;
};

// An mbarrier that so many threads arrive at.
void write_mbarrier(std::byte* to, std::uint32_t count);

enum class BlockStatus : std::uint8_t { running, done, faulted };

class Block {
public:
    // `observer`: of the worker that runs this block, or nullptr.
    Block(Shared& shared, unsigned warps, Observer* observer);

    void start(std::uint64_t index);
    // Runs until done, a fault, `quota` used up, or `shared.stop`. Warps take turns; however often a run is cut by its quota, they do so in
    // the same order.
    BlockStatus run(std::uint64_t& quota);
    // After a run that was cut: the warp that goes on.
    // A warp has looked at an mbarrier, or arrived at it.
    void at_mbarrier(bool moved) {
        turn_.in_vain = !moved;
        turn_.moved |= moved;
    }
    // Whether the last run ended since every warp that could run polls: it waits for other blocks, as it seems.
    [[nodiscard]] bool waits() const { return waits_; }
    [[nodiscard]] const Warp& next_warp() const { return warps_[order_[turn_.position]]; }

    // bar.sync / bar.arrive / bar.red of `active` lanes of `warp`. `threads` 0 = the whole block.
    Flow arrive(Warp& warp, Mask active, std::uint32_t id, std::uint32_t threads, bool wait, Mask predicate);
    void lanes_gone(Warp& warp);  // barriers no longer wait for them

    [[nodiscard]] Shared& shared() const { return *shared_; }
    [[nodiscard]] Observer* observer() const { return observer_; }
    [[nodiscard]] std::byte* shared_memory() const { return shared_memory_.get(); }
    [[nodiscard]] std::byte* local_memory() const { return local_memory_.get(); }
    [[nodiscard]] std::byte* registers(unsigned warp) const;
    [[nodiscard]] std::uint32_t index() const { return static_cast<std::uint32_t>(index_); }
    [[nodiscard]] Dim3 coordinates() const;                                // of the cluster's first block
    [[nodiscard]] unsigned warps_of_one() const { return warps_of_one_; }  // of each block of the cluster
    [[nodiscard]] const std::vector<Warp>& warps() const { return warps_; }
    [[nodiscard]] const Fault& fault() const { return fault_; }
    [[nodiscard]] std::uint64_t executed() const;
    // What stands in for memory where an access of a lane belongs nowhere: zeros to read, or what takes what is written. It is counted.
    std::byte* stray(std::uint64_t bytes, bool write);
    void count_stray() { ++strays_; }
    [[nodiscard]] std::uint64_t strays() const { return strays_; }
    [[nodiscard]] const std::vector<Barrier>& barriers() const { return barriers_; }

    // Everything that a block's future depends on but global memory.
    struct State;
    [[nodiscard]] State save() const;
    void restore(const State& state);  // of this block, after `start` with the same index
    [[nodiscard]] std::uint64_t state_bytes() const;

    std::string output;  // device printf

private:
    struct Free {
        void operator()(std::byte* p) const;
    };
    using Memory = std::unique_ptr<std::byte, Free>;
    static Memory allocate(std::uint64_t bytes);

    void complete(std::uint32_t id);
    [[nodiscard]] bool is_complete(std::uint32_t id) const;
    void fail_deadlock();

    // Whose turn it is.
    struct Turn {
        std::size_t position = 0;  // in order_
        std::uint64_t left = 0;    // of its slice; 0: it has not begun
        bool alive = false;        // in this round some warp still had lanes
        bool progressed = false;   // ... and some warp ran
        bool in_vain = false;      // the warp that has the turn waited at an mbarrier whose phase is not over,
        bool moved = false;        // ... or arrived at one, or passed one
        bool idle = true;          // in this round every warp that ran did nothing but wait in vain
        bool polls = true;         // ... or poll
        std::uint64_t rounds = 0;  // so many rounds before it were idle
    };

    Shared* shared_;
    Observer* observer_;
    std::uint64_t index_ = 0, strays_ = 0;
    std::vector<std::byte> nowhere_;  // `stray_bytes` of zeros, and as many that take what is written
    Turn turn_;
    bool waits_ = false;
    std::vector<Warp> warps_;
    std::vector<std::uint32_t> order_;
    unsigned warps_of_one_;
    std::vector<Barrier> barriers_;  // of each block of the cluster, `barrier_count`
    std::vector<Barrier> finished_;  // results of the last completed phase
    Memory registers_, shared_memory_, local_memory_;
    Fault fault_;
};

struct Block::State {
    std::vector<Warp> warps;
    std::vector<Barrier> barriers, finished;
    Turn turn;
    Fault fault;
    std::string output;
    std::vector<std::byte> memory;  // registers, shared memory, local memory
};

}  // namespace wmmadiag
