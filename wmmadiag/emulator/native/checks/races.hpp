// Races, by happens-before.
//
// Time: each (warp, stretch between two of its synchronisations, instruction) that touches memory gets a stamp, a number that grows. A
// warp knows of every other warp up to which stamp its accesses happened before ("vector clock", Lamport 1978, Mattern 1988); barriers,
// fences with atomics, and mbarriers join what warps know. A barrier of the whole block makes all stamps known to all, so that one
// comparison per granule decides in the usual case; the vectors are looked at for what is newer ("epochs" of FastTrack, Flanagan and
// Freund, PLDI 2009).
//
// Shadow: per granule (the smallest access that the program has: 1, 2, 4, ... bytes) the last write, and the last reads of two warps; of
// more, where barriers of some threads or flags let warps know different things.
// cp.async writes at some time between its issue and the wait that covers it: in between, every access to its destination is a race.
// The kinds: read-write and write-write between warps; lanes-… between lanes of one warp with no bar.warp.sync between; in-flight-… with
// a copy in flight; blocks-… between blocks.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../access.hpp"
#include "../check.hpp"

namespace wmmadiag::races {

using Stamp = std::uint32_t;  // sequence << 5 | warp; or `in_flight` | index of the copy << 5 | warp

inline constexpr Stamp in_flight = 0x80000000u;
inline constexpr unsigned warp_bits = 5;
inline constexpr Stamp warp_mask = (1u << warp_bits) - 1;
inline constexpr std::uint32_t last_sequence = (in_flight >> warp_bits) - 2;
inline constexpr std::uint32_t whole_warp = 32, several_lanes = 33;  // in place of a lane
inline constexpr unsigned max_warps = 32;
inline constexpr std::uint32_t nobody = 0xffffffffu;

using Lane = std::uint32_t;  // or whole_warp, several_lanes; as wide as a stamp, so that loops over both are vectorised

using Clock = std::array<Stamp, max_warps>;  // per warp, the newest stamp known

inline void join(Clock& to, const Clock& from) {
    for (unsigned w = 0; w < max_warps; ++w) to[w] = std::max(to[w], from[w]);
}

enum class Role : std::uint8_t { read, write, atomic };

struct Access {
    Where where;
    Role role;
    bool strong;  // atomic, volatile, relaxed, ...: never races with another such
    bool whole;   // by the warp as one: fragment loads and stores
    Stamp stamp;
};

// What the shadow of some memory holds, one element per granule.
struct Cells {
    Stamp *write, *read, *other_read;  // other_read: by another warp than `read`
    Lane *write_lane, *read_lane;      // read_lane goes with `read`
};

struct Entry {
    std::uint32_t pc;
    bool strong;
};

struct Copy {
    std::uint32_t pc;
    std::uint32_t warp, lane;
    std::uint32_t group;
    std::uint32_t destination, bytes;
    std::uint64_t waits;  // of its warp, before it was issued
};

struct WarpState {
    Clock known{};
    Clock fenced{};                 // what was known at the last fence; its own entry 0: none yet
    Clock acquirable{};             // what a relaxed read has seen: known after a fence or a barrier
    Clock hinted{};                 // what flags have told, whether or not any fence stood before or behind them
    std::uint32_t fence_epoch = 0;  // of its block, at the last fence; 0: none yet
    Stamp lanes_known = 0;          // accesses of its own up to here are known to all of its lanes
    Stamp met = 0;                  // ... were executed before all of its lanes came together
    Mask arrived = 0;               // at a bar.warp.sync
    std::uint64_t epoch = 1;
    std::array<std::uint32_t, lanes> commits{};
    std::vector<std::uint32_t> copies;                  // in flight: indices into BlockState::copies
    std::array<std::uint32_t, lanes> waited_commits{};  // commits at the last wait
    std::uint64_t waits = 0;
    std::uint32_t last_wait = no_pc;
    std::int64_t last_pending = 0;
    std::vector<std::pair<std::uint64_t, Stamp>> stamps;  // by pc: epoch, stamp
    std::array<Stamp, lanes * lanes>* pairs = nullptr;    // [lane][other]: known by partial bar.warp.sync
    std::unique_ptr<std::array<Stamp, lanes * lanes>> pairs_storage;
};

inline constexpr unsigned page_bits = 12;

struct Page {
    std::vector<Stamp> write, read, other_read;
    std::vector<Lane> write_lane, read_lane;
    std::vector<std::uint32_t> write_block, write_pc;                       // block + 1
    std::vector<std::uint32_t> read_block, read_pc, older_block, older_pc;  // older: the last read by another block than read_block's
    std::vector<std::uint32_t> write_epoch, read_epoch, older_epoch;        // of the block that did it
    explicit Page(std::size_t n)
        : write(n),
          read(n),
          other_read(n),
          write_lane(n),
          read_lane(n),
          write_block(n),
          write_pc(n),
          read_block(n),
          read_pc(n),
          older_block(n),
          older_pc(n),
          write_epoch(n),
          read_epoch(n),
          older_epoch(n) {}
};

// What has been released at an address, or at an mbarrier in the phase that is under way and until the last that was completed.
struct Released {
    Clock known{};                          // behind fences; of completed phases
    Clock hinted{};                         // also without a fence
    Clock gathered{};                       // by the arrivals of an mbarrier's phase
    std::array<Mask, max_warps> arrived{};  // which lanes of each warp did, in that phase
    Clock first{};                          // ... and where the first of them stood
    Clock together{};                       // per warp, of completed phases in which all of its lanes arrived: what they all had done before
};

using Epochs = std::map<std::uint32_t, std::uint32_t>;  // by block, its newest epoch

inline void join(Epochs& to, const Epochs& from) {
    for (const auto& [block, epoch] : from) {
        auto& own = to[block];
        own = std::max(own, epoch);
    }
}

// A hardware barrier between two releases.
struct Phase {
    std::array<Mask, max_warps> arrived{}, waiting{};
    Clock gathered{}, fenced{};
    std::uint32_t fence_epoch = 0;
    bool counted = false;  // of a number of threads: those that have exited are none of them
};

struct BlockState {
    const Block* block = nullptr;
    std::uint32_t index = 0;
    std::vector<WarpState> warps;
    std::uint32_t sequence = 0, base = 0;  // entries[i] belongs to sequence base + 1 + i
    std::vector<Entry> entries;
    Stamp all_known = 0;  // every stamp up to here is known to every warp
    std::vector<Stamp> write, read, other_read;
    std::vector<Lane> write_lane, read_lane;
    std::vector<Copy> copies;
    std::vector<std::uint32_t> free_copies;
    std::array<Phase, barrier_count> phases{};
    std::map<std::pair<Space, std::uint64_t>, Released> released;     // by address
    Epochs ordered_blocks, acquirable_blocks;                         // what is known of other blocks, or is after the next fence or barrier
    std::uint32_t epoch = 1;                                          // grows with its fences and releases
    std::unordered_map<const Stamp*, std::vector<Stamp>> more_reads;  // by &Cells::other_read[granule]: of third and further warps
};

class Races final : public Check {
public:
    explicit Races(const Shared& shared) : shared_(shared), whole_(1u << page_bits, whole_warp), several_(64, several_lanes) {
        for (std::size_t k = 0; k < patterns_.size(); ++k)
            for (std::uint32_t i = 0; i < lanes << k; ++i) patterns_[k].push_back(static_cast<Lane>(i >> k));
        survey();
    }

    void block_start(const Block& block) override;
    void block_end(const Block& block) override;
    void memory(const MemoryEvent& event) override;
    void tensor(const TensorEvent& event) override;
    void barrier(const BarrierEvent& event) override;
    void async(const AsyncEvent& event) override;
    void mbarrier(const MbarrierEvent& event) override;
    void fence(const Where& where, Mask active) override;
    void meet(const Where& where, Mask here, Mask members) override;
    [[nodiscard]] std::vector<RawFinding> findings() override;

private:
    void survey();
    BlockState& state_of(std::uint32_t block);
    Stamp stamp(BlockState& b, const Where& where, bool strong);
    Cells shared_cells(BlockState& b) { return {b.write.data(), b.read.data(), b.other_read.data(), b.write_lane.data(), b.read_lane.data()}; }

    void touch(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
               unsigned shift, const Lane* lane_of);
    template <std::size_t fixed>
    void touch_some(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t n,
                    unsigned shift, const Lane* lane_of);
    template <std::size_t fixed>
    void remember(BlockState& b, const Access& access, const Cells& cells, std::size_t first, std::size_t n, const Lane* lane_of);
    template <std::size_t fixed>
    bool touch_lines(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event);
    template <bool writes, unsigned count>
    void touch_scattered(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event);
    void touch_lanes(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event);     // of at most 4 granules each
    bool touch_fragment(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event);  // false: not done
    void inspect(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane);
    void touch_global(BlockState& b, const Access& access, std::uint64_t address, std::uint32_t bytes, const Lane* lane_of);
    void between_blocks(BlockState& b, const Access& access, Page& page, std::uint64_t address, std::size_t g, unsigned lane);
    bool knows(const BlockState& b, unsigned warp, Stamp other) const { return b.warps[warp].known[other & warp_mask] >= other; }
    void same_instruction(BlockState& b, const MemoryEvent& event);
    void synchronise(BlockState& b, const MemoryEvent& event, const Inst& inst);
    void land(BlockState& b, const Where& where, Mask active, const std::uint32_t* until);
    void publish(BlockState& b, const WarpState& warp, std::uint64_t address, bool reads, bool writes, bool acquires, bool releases);
    void acquire(BlockState& b, WarpState& warp);
    [[nodiscard]] std::int64_t flag_passed(const BlockState& b, unsigned warp, Stamp other) const;
    void remember_third(BlockState& b, const Stamp* other_read, unsigned me);
    void other_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
                       unsigned shift, const Lane* lane_of);
    void third_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane);
    void whole_barrier(BlockState& b);
    void compact(BlockState& b);
    const Entry& entry(const BlockState& b, Stamp s) const { return b.entries[(s >> warp_bits) - b.base - 1]; }
    void report(const char* kind, const BlockState& b, const Access& access, unsigned lane, std::uint32_t other_pc, std::uint32_t other_warp,
                std::uint32_t other_lane, Space space, std::uint64_t address, std::vector<std::int64_t> values, bool swapped);
    bool unchanged(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address) const;
    Page& page(std::uint64_t number);

    // The lanes of granules that lanes from `lane` on touch, `bytes` each.
    [[nodiscard]] const Lane* lanes_of(std::uint32_t bytes, unsigned shift, unsigned lane) const {
        const auto k = static_cast<unsigned>(std::bit_width(std::max(bytes >> shift, 1u) - 1));
        return patterns_[k].data() + (std::size_t{lane} << k);
    }

    const Shared& shared_;
    std::array<std::vector<Lane>, 7> patterns_;  // per log2 of a lane's granules
    std::vector<Lane> whole_, several_;
    unsigned shared_shift_ = 4, global_shift_ = 4;
    bool synchronises_ = false;  // the program has fences, mbarriers or acquire-release accesses
    bool partly_ = false;        // ... or barriers of some threads: what warps know of each other differs
    Execute mbarrier_ = nullptr, store_ = nullptr, atom_ = nullptr, collective_[4]{};
    std::map<std::uint32_t, std::unique_ptr<BlockState>> states_;
    BlockState* last_ = nullptr;
    std::unique_ptr<BlockState> spare_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::uint64_t last_page_ = ~std::uint64_t{0};
    Page* last_page_data_ = nullptr;
    std::map<std::uint64_t, Epochs> released_blocks_;  // by global address: up to where the writes of which blocks can be seen there
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, Space>, RawFinding> found_;
    std::uint64_t events_ = 0;
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, Space>, std::uint64_t> counted_;
};

}  // namespace wmmadiag::races
