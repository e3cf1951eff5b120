// Races, by happens-before.
//
// Time: each (warp, stretch between two of its synchronisations, instruction) that touches memory gets a stamp, a number that grows. A
// warp knows of every other warp up to which stamp its accesses happened before ("vector clock", Lamport 1978, Mattern 1988); barriers,
// fences with atomics, and mbarriers join what warps know. A barrier of the whole block makes all stamps known to all, so that one
// comparison per granule decides in the usual case; the vectors are looked at for what is newer ("epochs" of FastTrack, Flanagan and
// Freund, PLDI 2009).
//
// Shadow: per granule (the smallest access that the program has: 1, 2, 4, ... bytes) the last write, and the last reads of two warps; of
// more, where barriers of some threads or flags let warps know different things. Between blocks: the last write, and the set of all reads
// since; a set is shared by the granules that the same have read (races_global.cpp).
// cp.async writes at some time between its issue and the wait that covers it: in between, every access to its destination is a race.
// The kinds: read-write and write-write between warps; lanes-… between lanes of one warp with no bar.warp.sync between; in-flight-… with
// a copy in flight; blocks-… between blocks; …relaxed-… of two strong accesses, which are no data race and have no order either.
//
// The model is that of docs/memory-model.md.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <string_view>
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

// What a warp knows of other blocks: of each, by its index, up to which stamp of its warps. Never changed, so that many can hold it.
using View = std::vector<std::pair<std::uint32_t, std::shared_ptr<const Clock>>>;
using Foreign = std::shared_ptr<const View>;

void join(Foreign& to, const Foreign& from);
[[nodiscard]] const Clock* clock_of(const Foreign& known, std::uint32_t block);

enum class Role : std::uint8_t { read, write, atomic };

// What kind of strong access it is: two that are morally strong towards each other are no data race.
namespace strength {
inline constexpr std::uint8_t weak = 0, strong = 1, block_scope = 2, read_modify_write = 4;
}

struct Access {
    Where where;
    Role role;
    std::uint8_t strength;
    bool whole;  // by the warp as one: fragment loads and stores
    Stamp stamp;
    std::uint32_t pass;  // how often the warp has come to this instruction
    [[nodiscard]] bool strong() const { return strength != strength::weak; }
};

// What the shadow of some memory holds, one element per granule.
struct Cells {
    Stamp *write, *read, *other_read;  // other_read: by another warp than `read`
    Lane *write_lane, *read_lane;      // read_lane goes with `read`
};

struct Entry {
    std::uint32_t pc;
    std::uint8_t strength;
    std::uint32_t pass;
};

struct Copy {
    std::uint32_t pc;
    std::uint32_t warp, lane;
    std::uint32_t group;
    std::uint32_t destination, bytes;
    std::uint64_t waits;  // of its warp, before it was issued
};

using Pairs = std::array<Stamp, lanes * lanes>;  // [lane][other]: up to which stamp a lane knows what another has done

struct WarpState {
    Clock known{};
    Clock fenced{};              // what was known at the last fence; its own entry 0: none yet
    Clock acquirable{};          // what a relaxed read has seen: known after a fence or a barrier
    Clock hinted{};              // what flags have told, whether or not any fence stood before or behind them
    Foreign foreign;             // other blocks, as `known`,
    Foreign foreign_fenced;      // as `fenced`, with its own block in it,
    Foreign foreign_acquirable;  // and as `acquirable`
    bool behind_fence = false;   // it has touched no memory since its last fence that releases
    Stamp lanes_known = 0;       // accesses of its own up to here are known to all of its lanes
    Stamp met = 0;               // ... were executed before all of its lanes came together
    Mask arrived = 0;            // at a bar.warp.sync
    std::uint64_t epoch = 1;
    std::array<std::uint32_t, lanes> commits{};
    std::vector<std::uint32_t> copies;                  // in flight: indices into BlockState::copies
    std::array<std::uint32_t, lanes> waited_commits{};  // commits at the last wait
    std::uint64_t waits = 0;
    std::uint32_t last_wait = no_pc;
    std::int64_t last_pending = 0;
    struct Latest {
        std::uint64_t epoch = 0;
        Stamp stamp = 0;
        std::uint32_t passes = 0;
    };
    std::vector<Latest> stamps;  // by pc
    Pairs* pairs = nullptr;      // what lanes know of each other beyond `lanes_known`: by bar.warp.sync of some, by what they released
    std::unique_ptr<Pairs> pairs_storage;
    std::unique_ptr<Pairs> acquirable_pairs;  // likewise, as `acquirable`
    std::array<Stamp, lanes> lane_fenced{};   // of each lane, its last fence that releases
};

inline constexpr unsigned page_bits = 12;

struct Page {
    std::vector<Stamp> write, read, other_read;
    std::vector<Lane> write_lane, read_lane;
    std::vector<std::uint32_t> write_block, read_block;  // of the stamps: block + 1
    std::vector<std::uint32_t> last_write, readers;      // between blocks: indices of a Foreigner; readers since that write: a set
    explicit Page(std::size_t n)
        : write(n), read(n), other_read(n), write_lane(n), read_lane(n), write_block(n), read_block(n), last_write(n), readers(n) {}
};

// An access as other blocks see it. A set of reads is the index of the one that was added last.
struct Foreigner {
    std::uint32_t block = nobody;  // nobody: none
    Stamp stamp = 0;
    std::uint32_t pc = no_pc;
    std::uint32_t pass = 0;
    std::uint8_t strength = strength::weak;
    std::uint32_t others = 0;  // the rest of the set
};

// The order of the strong writes at an address, as far as it is forced (coherence order): a read-modify-write comes after what it has read,
// and what a thread does there later comes after what it has seen there.
struct Coherence {
    struct Party {
        Stamp read = 0, wrote = 0;         // its newest read there, and its newest write
        std::uint64_t version = 0;         // of that write
        std::uint64_t from = 1, seen = 0;  // the versions that its newest read comes after
    };
    std::uint64_t version = 0, chain = 1;    // chain: there were only read-modify-writes since
    std::map<std::uint64_t, Party> parties;  // by block << 32 | warp
};

// Versions at an address, as ranges: the first and the last of each.
using Seen = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// What has been released at an address, or at an mbarrier in the phase that is under way and until the last that was completed.
struct Released {
    Clock known{};                          // behind fences; of completed phases
    Foreign foreign, gathered_foreign;      // of other blocks
    Clock hinted{};                         // also without a fence
    Clock gathered{};                       // by the arrivals of an mbarrier's phase
    std::array<Mask, max_warps> arrived{};  // which lanes of each warp did, in that phase
    Clock first{};                          // ... and where the first of them stood
    Clock whole{};                          // the same of the last time that all lanes of a warp had, which they may do several times
    Clock together{};                       // per warp, of completed phases in which all of its lanes arrived: what they all had done before
    std::map<std::uint32_t, std::array<Stamp, lanes>> of_lanes;  // by warp: of which lanes, up to where
    // Of an mbarrier: who made or ended it (stamp 0: nobody yet, or it is known to all), and per warp what it did with it last.
    Stamp made = 0;
    std::uint32_t made_lane = 0;
    std::uint32_t told = 0;  // of which warps it was said that they do not know of that: once is enough
    Clock used{};
};

// A hardware barrier between two releases.
struct Phase {
    std::array<Mask, max_warps> arrived{}, waiting{};
    Clock gathered{}, fenced{};
    Foreign foreign, foreign_fenced;
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
    std::vector<Phase> phases;                                     // of each block of the cluster, `barrier_count`
    std::map<std::pair<Space, std::uint64_t>, Released> released;  // by address
    std::unordered_map<std::uint64_t, Coherence> coherence;        // of shared memory
    // Where warps part into groups that synchronise: when each lane of a warp read a granule last; by `lane_key`.
    std::unordered_map<std::uint64_t, std::array<Stamp, lanes>> lane_reads;
    std::unordered_map<const Stamp*, std::vector<Stamp>> more_reads;   // by &Cells::other_read[granule]: of third and further warps
    std::unordered_map<const Stamp*, std::vector<Stamp>> more_writes;  // by &Cells::write[granule]: atomics of other warps before its own

    // Starts the sequence anew: everything until now counts as known.
    void begin_sequence() {
        sequence = base = 0;
        all_known = warp_mask;
        for (auto& warp : warps) {
            warp.known.fill(warp_mask);
            for (auto* clock : {&warp.fenced, &warp.acquirable, &warp.hinted}) clock->fill(0);
            warp.lanes_known = warp.met = warp_mask;
            warp.pairs = nullptr;
            warp.acquirable_pairs.reset();
            warp.lane_fenced.fill(0);
            ++warp.epoch;  // which makes the stamps until now stale
        }
        entries.clear();
        released.clear();
        coherence.clear();
        lane_reads.clear();
        more_reads.clear();
        more_writes.clear();
    }
};

// The earlier of two accesses.
struct Earlier {
    std::uint32_t block, warp, lane, pc, pass;
    Stamp stamp;
};

class Reversal;

class Races final : public Check {
public:
    // `reversal`: this run is to show what another order of some accesses does.
    Races(const Shared& shared, std::unique_ptr<Reversal> reversal);
    Races(const Races&) = delete;
    Races& operator=(const Races&) = delete;
    ~Races() override;

    void block_start(const Block& block) override;
    void block_end(const Block& block) override;
    void memory(const MemoryEvent& event) override;
    void tensor(const TensorEvent& event) override;
    void barrier(const BarrierEvent& event) override;
    void async(const AsyncEvent& event) override;
    void mbarrier(const MbarrierEvent& event) override;
    void fence(const Where& where, Mask active) override;
    void meet(const Where& where, Mask here, Mask members) override;
    void executed(const WriteEvent& event) override;
    [[nodiscard]] bool wants_instructions() const override { return reversal_ != nullptr; }
    [[nodiscard]] bool wants_result_of(std::uint32_t pc) const override;
    [[nodiscard]] std::vector<RawFinding> findings() override;

private:
    void survey();
    BlockState& state_of(std::uint32_t block);
    void watch(const MemoryEvent& event);
    void touch_event(BlockState& b, const MemoryEvent& event, Role role, std::uint8_t strength, bool matrix);
    Access access_of(BlockState& b, const Where& where, Role role, std::uint8_t strength, bool whole);
    Stamp stamp(BlockState& b, const Where& where, std::uint8_t strength);
    [[nodiscard]] std::uint8_t strength_of(const Inst& inst, Role role) const;
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
    void cohere(Coherence& at, std::uint64_t party, bool looks, bool replaces, bool writes, Stamp now);
    [[nodiscard]] Coherence* coherence_at(BlockState& b, Space space, std::uint64_t address);
    [[nodiscard]] Seen seen_in_coherence(BlockState& b, unsigned warp, const Coherence& at) const;
    [[nodiscard]] static bool after_in_coherence(const Coherence& at, const Seen& seen, std::uint32_t block, Stamp earlier);
    [[nodiscard]] bool after_in_coherence(BlockState& b, unsigned warp, Space space, std::uint64_t address, std::uint32_t block, Stamp earlier);
    [[nodiscard]] Foreign own_view(const BlockState& b, const WarpState& warp, std::uint32_t index) const;
    void learn(const BlockState& b, WarpState& warp, const Foreign& from);
    void sync_lanes(BlockState& b, std::uint32_t index, Mask here, Mask members);
    [[nodiscard]] static Pairs& pairs_of(WarpState& warp);
    static void hear(WarpState& warp, std::uint32_t index, unsigned lane, const Released& at, bool at_once);
    static void acquire_lanes(WarpState& warp, Mask active);
    static void tell(const WarpState& warp, std::uint32_t index, unsigned lane, Released& at, Stamp until);
    [[nodiscard]] bool lane_knows(const WarpState& warp, std::uint32_t index, Lane lane, Lane other, Stamp stamp) const;
    void remember_lanes(BlockState& b, const Access& access, const MemoryEvent& event, unsigned shift);
    [[nodiscard]] std::uint32_t unknown_reader(const BlockState& b, unsigned warp, Space space, std::uint64_t address, unsigned lane) const;
    [[nodiscard]] static std::uint64_t lane_key(Space space, unsigned warp, std::uint64_t granule) {
        return std::uint64_t{space == Space::global} << 63 | std::uint64_t{warp} << 58 | granule;
    }
    void land(BlockState& b, const Where& where, Mask active, const std::uint32_t* until);
    void acquire(BlockState& b, WarpState& warp, bool device_wide);
    [[nodiscard]] std::int64_t flag_passed(const BlockState& b, unsigned warp, Stamp other) const;
    void remember_third(BlockState& b, const Stamp* other_read, unsigned me);
    void other_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
                       unsigned shift, const Lane* lane_of);
    void other_atomics(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane);
    void third_readers(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane);
    void life_of_mbarrier(BlockState& b, const MbarrierEvent& event, const Access& access, unsigned lane, Released& at);
    void whole_barrier(BlockState& b);
    void compact(BlockState& b);
    const Entry& entry(const BlockState& b, Stamp s) const { return b.entries[(s >> warp_bits) - b.base - 1]; }
    // `swapped`: the earlier access is named first, so that a pair has one order whichever ran first.
    void report(std::string_view kind, BlockState& b, const Access& access, unsigned lane, const Earlier& earlier, Space space, std::uint64_t address,
                std::vector<std::int64_t> values, bool swapped);
    [[nodiscard]] static Earlier earlier_of(const BlockState& b, Stamp s, std::uint32_t lane);
    void turn(BlockState& b, const Access& access, unsigned lane, const Earlier& earlier, Space space, std::uint64_t address, bool read_first);
    void remember_seen(const BlockState& b, const MemoryEvent& event);
    void foresee(BlockState& b, const Access& access, const MemoryEvent& event);
    // Calls `see` with the address and the memory of each granule that the lanes of an access touch.
    template <class See>
    void each_granule(const BlockState& b, const MemoryEvent& event, See see) const;
    [[nodiscard]] std::uint64_t granule_of(Space space) const { return std::uint64_t{1} << (space == Space::global ? global_shift_ : shared_shift_); }
    [[nodiscard]] bool inside(Space space, std::uint64_t address, std::uint64_t bytes) const;
    [[nodiscard]] std::byte* host(const BlockState& b, Space space, std::uint64_t address, std::uint64_t bytes) const;
    bool unchanged(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address) const {
        return leaves(b, access, lane, space, address, nullptr);
    }
    bool leaves(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address, const std::byte* bytes) const;
    Page& page(std::uint64_t number);
    std::uint32_t foreigner(const BlockState& b, const Access& access, std::uint32_t others);
    std::uint32_t with_reader(const BlockState& b, const Access& access, std::uint32_t set);

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
    bool observes_ = false;      // ... or looks at what strong writes have left
    bool atomics_ = false;       // ... or has atomics, of which several may stand side by side
    bool tiles_ = false;         // ... or lets some lanes of a warp synchronise
    bool between_ = false;       // several blocks, one after another: they are compared, too
    Execute mbarrier_ = nullptr, store_ = nullptr, atom_ = nullptr, shuffle_ = nullptr, copy_ = nullptr, collective_[4]{};
    std::map<std::uint32_t, std::unique_ptr<BlockState>> states_;
    BlockState* last_ = nullptr;
    std::unique_ptr<BlockState> spare_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::uint64_t last_page_ = ~std::uint64_t{0};
    Page* last_page_data_ = nullptr;
    std::unordered_map<std::uint64_t, Foreign> released_;        // between blocks, by global address
    std::unordered_map<std::uint64_t, Coherence> coherence_;     // of global memory
    static constexpr std::uint64_t most_parties = 1u << 20;      // then no further places are followed
    std::uint64_t parties_ = 0;                                  // of all places, since the last block of several ended
    std::vector<Foreigner> foreigners_{Foreigner{}};             // the first: none
    std::unordered_map<std::uint64_t, std::uint32_t> unions_;    // set << 32 | Foreigner: the set with it
    std::unordered_map<std::uint64_t, std::uint32_t> of_stamp_;  // block << 32 | stamp: its Foreigner
    std::uint64_t events_ = 0;
    struct Found {
        RawFinding finding;
        std::uint64_t event;  // that it was counted for last
    };
    std::map<std::tuple<std::string_view, std::uint32_t, std::uint32_t, Space>, Found> found_;
    std::unique_ptr<Reversal> reversal_;
    Mask stray_ = 0;  // lanes whose shuffle took an undefined value
};

}  // namespace wmmadiag::races
