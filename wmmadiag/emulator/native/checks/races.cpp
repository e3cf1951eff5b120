// Races, by happens-before.
//
// Time: each (warp, stretch between two of its synchronisations, instruction) that touches memory gets a stamp, a number that grows. A
// warp knows of every other warp up to which stamp its accesses happened before ("vector clock", Lamport 1978, Mattern 1988); barriers,
// fences with atomics, and mbarriers join what warps know. A barrier of the whole block makes all stamps known to all, so that one
// comparison per granule decides in the usual case; the vectors are looked at for what is newer ("epochs" of FastTrack, Flanagan and
// Freund, PLDI 2009).
//
// Shadow: per granule (the smallest access that the program has: 1, 2, 4, ... bytes) the last write, and the last reads of two warps.
// cp.async writes at some time between its issue and the wait that covers it: in between, every access to its destination is a race.
// The kinds: read-write and write-write between warps; lanes-… between lanes of one warp with no bar.warp.sync between; in-flight-… with
// a copy in flight; blocks-… between blocks.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "../access.hpp"
#include "../check.hpp"

namespace wmmadiag {

namespace {

using Stamp = std::uint32_t;  // sequence << 5 | warp; or `in_flight` | index of the copy << 5 | warp

constexpr Stamp in_flight = 0x80000000u;
constexpr unsigned warp_bits = 5;
constexpr Stamp warp_mask = (1u << warp_bits) - 1;
constexpr std::uint32_t last_sequence = (in_flight >> warp_bits) - 2;
constexpr std::uint32_t whole_warp = 32, several_lanes = 33;  // in place of a lane
constexpr unsigned max_warps = 32;
constexpr std::uint32_t nobody = 0xffffffffu;

using Clock = std::array<Stamp, max_warps>;  // per warp, the newest stamp known

void join(Clock& to, const Clock& from) {
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
    Stamp *write, *read, *other_read;       // other_read: by another warp than `read`
    std::uint32_t *write_lane, *read_lane;  // read_lane goes with `read`
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
    Clock fenced{};         // what was known at the last fence; its own entry 0: none yet
    Stamp lanes_known = 0;  // accesses of its own up to here are known to all of its lanes
    Stamp met = 0;          // ... were executed before all of its lanes came together
    Mask arrived = 0;       // at a bar.warp.sync
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

constexpr unsigned page_bits = 12;

struct Page {
    std::vector<Stamp> write, read, other_read;
    std::vector<std::uint32_t> write_lane, read_lane;
    std::vector<std::uint32_t> write_block, write_pc;                       // block + 1
    std::vector<std::uint32_t> read_block, read_pc, older_block, older_pc;  // older: the last read by another block than read_block's
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
          older_pc(n) {}
};

struct BlockState {
    const Block* block = nullptr;
    std::uint32_t index = 0;
    std::vector<WarpState> warps;
    std::uint32_t sequence = 0, base = 0;  // entries[i] belongs to sequence base + 1 + i
    std::vector<Entry> entries;
    Stamp all_known = 0;  // every stamp up to here is known to every warp
    std::vector<Stamp> write, read, other_read;
    std::vector<std::uint32_t> write_lane, read_lane;
    std::vector<Copy> copies;
    std::vector<std::uint32_t> free_copies;
    std::array<std::array<Mask, max_warps>, barrier_count> arrived{};
    std::map<std::pair<Space, std::uint64_t>, Clock> released;  // by address
    std::unordered_set<std::uint32_t> ordered_blocks;
};

class Races final : public Check {
public:
    explicit Races(const Shared& shared) : shared_(shared), whole_(1u << page_bits, whole_warp), several_(64, several_lanes) {
        for (std::size_t k = 0; k < patterns_.size(); ++k)
            for (std::uint32_t i = 0; i < lanes << k; ++i) patterns_[k].push_back(i >> k);
        survey();
    }

    void block_start(const Block& block) override;
    void block_end(const Block& block) override;
    void memory(const MemoryEvent& event) override;
    void tensor(const TensorEvent& event) override;
    void barrier(const BarrierEvent& event) override;
    void async(const AsyncEvent& event) override;
    void fence(const Where& where, Mask active) override;
    void meet(const Where& where, Mask here, Mask members) override;
    [[nodiscard]] std::vector<RawFinding> findings() override;

private:
    void survey();
    BlockState& state_of(std::uint32_t block);
    Stamp stamp(BlockState& b, const Where& where, bool strong);
    Cells shared_cells(BlockState& b) { return {b.write.data(), b.read.data(), b.other_read.data(), b.write_lane.data(), b.read_lane.data()}; }

    void touch(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
               unsigned shift, const std::uint32_t* lane_of);
    template <std::size_t fixed>
    void touch_some(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t n,
                    unsigned shift, const std::uint32_t* lane_of);
    template <bool writes>
    void touch_scattered(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event);
    void inspect(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane);
    void touch_global(BlockState& b, const Access& access, std::uint64_t address, std::uint32_t bytes, const std::uint32_t* lane_of);
    void between_blocks(BlockState& b, const Access& access, Page& page, std::uint64_t address, std::size_t g, unsigned lane);
    bool knows(const BlockState& b, unsigned warp, Stamp other) const { return b.warps[warp].known[other & warp_mask] >= other; }
    void same_instruction(BlockState& b, const MemoryEvent& event);
    void synchronise(BlockState& b, const MemoryEvent& event, const Inst& inst);
    void land(BlockState& b, const Where& where, Mask active, const std::uint32_t* until);
    void whole_barrier(BlockState& b);
    void compact(BlockState& b);
    const Entry& entry(const BlockState& b, Stamp s) const { return b.entries[(s >> warp_bits) - b.base - 1]; }
    void report(const char* kind, const BlockState& b, const Access& access, unsigned lane, std::uint32_t other_pc, std::uint32_t other_warp,
                std::uint32_t other_lane, Space space, std::uint64_t address, std::vector<std::int64_t> values, bool swapped);
    bool unchanged(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address) const;
    Page& page(std::uint64_t number);

    // The lanes of granules that lanes from `lane` on touch, `bytes` each.
    [[nodiscard]] const std::uint32_t* lanes_of(std::uint32_t bytes, unsigned shift, unsigned lane) const {
        const auto k = static_cast<unsigned>(std::bit_width(std::max(bytes >> shift, 1u) - 1));
        return patterns_[k].data() + (std::size_t{lane} << k);
    }

    const Shared& shared_;
    std::array<std::vector<std::uint32_t>, 7> patterns_;  // per log2 of a lane's granules
    std::vector<std::uint32_t> whole_, several_;
    unsigned shared_shift_ = 4, global_shift_ = 4;
    bool synchronises_ = false;  // the program has fences, mbarriers or acquire-release accesses
    Execute mbarrier_ = nullptr, store_ = nullptr, atom_ = nullptr, collective_[4]{};
    std::map<std::uint32_t, std::unique_ptr<BlockState>> states_;
    BlockState* last_ = nullptr;
    std::unique_ptr<BlockState> spare_;
    std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
    std::uint64_t last_page_ = ~std::uint64_t{0};
    Page* last_page_data_ = nullptr;
    std::map<std::uint64_t, std::set<std::uint32_t>> released_blocks_;  // by global address: blocks whose fenced writes can be seen there
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, Space>, RawFinding> found_;
    std::uint64_t events_ = 0;
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t, Space>, std::uint64_t> counted_;
};

void Races::survey() {
    const auto code = shared_.program->code();
    const auto* ld = find_operation("ld");
    const auto* st = find_operation("st");
    const auto* atom = find_operation("atom");
    const auto* mbarrier = find_operation("mbarrier");
    const auto* fence = find_operation("fence");
    const auto* copy = find_operation("cp.async");
    mbarrier_ = mbarrier->execute;
    store_ = st->execute;
    atom_ = atom->execute;
    const char* names[] = {"wmma.load", "wmma.store", "ldmatrix", "stmatrix"};
    for (unsigned i = 0; i < 4; ++i) collective_[i] = find_operation(names[i])->execute;
    const auto narrow = [&](Space space, std::uint32_t bytes) {
        const auto shift = static_cast<unsigned>(std::countr_zero(std::max(bytes, 1u)));
        if (space == Space::shared || space == Space::generic) shared_shift_ = std::min(shared_shift_, shift);
        if (space == Space::global || space == Space::generic) global_shift_ = std::min(global_shift_, shift);
    };
    for (const auto& inst : code) {
        if (inst.execute == ld->execute || inst.execute == st->execute) narrow(inst.space, std::uint32_t{inst.bytes} * inst.count);
        else if (inst.execute == atom->execute) narrow(inst.space, 2);
        else if (inst.execute == mbarrier->execute) narrow(inst.space, 8);
        else if (inst.execute == copy->execute) narrow(Space::shared, 4), narrow(Space::global, 4);
        else if (inst.execute == collective_[0] || inst.execute == collective_[1]) narrow(inst.space, 4);
        synchronises_ |= inst.execute == mbarrier->execute || (fence != nullptr && inst.execute == fence->execute);
        synchronises_ |= (inst.execute == ld->execute || inst.execute == st->execute || inst.execute == atom->execute) &&
                         (inst.flags & (flag::acquire | flag::release)) != 0;
    }
}

void Races::block_start(const Block& block) {
    auto made = spare_ ? std::move(spare_) : std::make_unique<BlockState>();
    auto& b = *made;
    const auto cells = (std::size_t{shared_.spec.shared_base} + shared_.spec.shared_bytes + 15) / 16 * 16 >> shared_shift_;
    b.block = &block;
    b.index = block.index();
    b.warps.resize(block.warps().size());
    b.sequence = b.base = 0;
    b.all_known = warp_mask;
    for (auto& warp : b.warps) {
        warp.known.fill(warp_mask);
        warp.fenced.fill(0);
        warp.lanes_known = warp.met = warp_mask;
        warp.arrived = 0;
        warp.commits.fill(0);
        warp.copies.clear();
        warp.last_wait = no_pc;
        warp.last_pending = 0;
        warp.waits = 0;
        warp.waited_commits.fill(0);
        warp.pairs = nullptr;
        ++warp.epoch;  // which makes the stamps of the block before stale
        warp.stamps.resize(shared_.program->code().size(), {0, 0});
    }
    b.entries.clear();
    b.write.assign(cells, 0);
    b.read.assign(cells, 0);
    b.other_read.assign(cells, 0);
    b.write_lane.assign(cells, 0);
    b.read_lane.assign(cells, 0);
    b.copies.clear();
    b.free_copies.clear();
    for (auto& one : b.arrived) one.fill(0);
    b.released.clear();
    b.ordered_blocks.clear();
    last_ = made.get();
    states_[b.index] = std::move(made);
}

void Races::block_end(const Block& block) {
    const auto at = states_.find(block.index());
    if (at == states_.end()) return;
    if (last_ == at->second.get()) last_ = nullptr;
    spare_ = std::move(at->second);
    states_.erase(at);
}

BlockState& Races::state_of(std::uint32_t block) {
    if (last_ == nullptr || last_->index != block) last_ = states_.at(block).get();
    return *last_;
}

Stamp Races::stamp(BlockState& b, const Where& where, bool strong) {
    auto& warp = b.warps[where.warp];
    auto& [epoch, value] = warp.stamps[where.pc];
    if (epoch == warp.epoch) return value;
    if (b.sequence >= last_sequence) compact(b);
    ++b.sequence;
    b.entries.push_back({where.pc, strong});
    epoch = warp.epoch;
    value = b.sequence << warp_bits | where.warp;
    return value;
}

// Starts the sequence anew: everything until now counts as known. Only after 2^26 stamps in one block.
void Races::compact(BlockState& b) {
    for (auto* cells : {&b.write, &b.read, &b.other_read})
        for (auto& s : *cells)
            if ((s & in_flight) == 0) s = 0;
    b.entries.clear();
    b.sequence = b.base = 0;
    b.all_known = warp_mask;
    for (auto& warp : b.warps) {
        warp.known.fill(warp_mask);
        warp.fenced.fill(0);
        warp.lanes_known = warp.met = warp_mask;
        ++warp.epoch;
    }
    b.released.clear();
    pages_.clear();
    last_page_data_ = nullptr;
    last_page_ = ~std::uint64_t{0};
}

void Races::report(const char* kind, const BlockState& b, const Access& access, unsigned lane, std::uint32_t other_pc, std::uint32_t other_warp,
                   std::uint32_t other_lane, Space space, std::uint64_t address, std::vector<std::int64_t> values, bool swapped) {
    // `swapped`: the other access is named first, so that a pair has one order whichever ran first.
    auto pc = access.where.pc;
    std::uint32_t warp = access.where.warp, first_lane = lane;
    if (swapped) {
        std::swap(pc, other_pc);
        std::swap(warp, other_warp);
        std::swap(first_lane, other_lane);
    }
    const auto key = std::make_tuple(std::string(kind), pc, other_pc, space);
    auto [at, fresh] = found_.try_emplace(key);
    if (fresh) {
        auto& f = at->second;
        f.check = "races";
        f.kind = kind;
        f.pc = pc;
        f.other_pc = other_pc;
        f.space = space;
        f.address = address;
        f.bytes = std::uint64_t{1} << (space == Space::global ? global_shift_ : shared_shift_);
        f.block = b.index;
        f.warp = warp;
        f.lane = first_lane;
        f.other_warp = other_warp;
        f.other_lane = other_lane;
        f.values = std::move(values);
    }
    auto& event = counted_[key];
    if (event != events_) ++at->second.count;
    event = events_;
}

// Whether a plain store writes what is there already: then no order changes the result.
bool Races::unchanged(const BlockState& b, const Access& access, unsigned lane, Space space, std::uint64_t address) const {
    const auto& inst = shared_.program->code()[access.where.pc];
    if (inst.execute != store_ || lane >= lanes || access.role != Role::write) return false;
    const auto& warp = b.block->warps()[access.where.warp];
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    auto start = addresses.lane[lane];
    if (inst.space == Space::generic) start -= window_of(space_of(start));
    if (address < start) return false;
    const std::byte* here = nullptr;
    if (space == Space::shared) {
        here = b.block->shared_memory() + address;
    } else {
        const auto* allocation = shared_.memory->find(address);
        if (allocation == nullptr || !allocation->region.holds(address, 1)) return false;
        here = allocation->region.host + (address - allocation->region.base);
    }
    const auto element = (address - start) / inst.bytes, within = (address - start) % inst.bytes;
    if (element >= inst.count) return false;
    const auto* from = warp.at<std::byte>(inst.extra[element]) + std::size_t{lane} * inst.register_bytes + within;
    const auto length = std::min<std::size_t>(std::size_t{1} << (space == Space::global ? global_shift_ : shared_shift_), inst.bytes - within);
    return std::memcmp(here, from, length) == 0;
}

// One granule that may hold a race.
void Races::inspect(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto me = access.where.warp;
    const auto& warp = b.warps[me];
    const bool writes = access.role != Role::read;
    const auto lane_of = [](std::uint32_t l) { return l < lanes ? l : nobody; };
    const auto shown = lane_of(lane), mine = lane;
    const Stamp w = cells.write[g];
    if ((w & in_flight) != 0) {
        const auto& copy = b.copies[(w & ~in_flight) >> warp_bits];
        const auto& owner = b.warps[copy.warp];
        const bool own = copy.warp == me && !access.whole && copy.lane == lane;
        report(writes ? "in-flight-write" : "in-flight-read", b, access, shown, copy.pc, copy.warp, copy.lane, space, address,
               {own,
                copy.waits == owner.waits                       ? 0
                : copy.group >= owner.waited_commits[copy.lane] ? 1
                                                                : 2,
                owner.last_wait == no_pc ? -1 : static_cast<std::int64_t>(owner.last_wait), owner.last_pending,
                static_cast<std::int64_t>(owner.waited_commits[copy.lane]) - static_cast<std::int64_t>(copy.group)},
               false);
    } else if ((w & warp_mask) != me) {
        if (w > b.all_known && !knows(b, me, w) && !(access.strong && entry(b, w).strong)) {
            const bool same = writes && unchanged(b, access, lane, space, address);
            const char* kind = access.role == Role::read             ? "read-write"
                               : access.strong || entry(b, w).strong ? "atomic-write"
                               : same                                ? "write-same"
                                                                     : "write-write";
            report(kind, b, access, shown, entry(b, w).pc, w & warp_mask, lane_of(cells.write_lane[g]), space, address, {1}, false);
        }
    } else if (w > warp.lanes_known) {
        const auto other = cells.write_lane[g];
        const bool known = other < lanes && lane < lanes && warp.pairs != nullptr && (*warp.pairs)[lane * lanes + other] >= w;
        if (other != mine && !known && !(access.strong && entry(b, w).strong) && w != access.stamp) {
            const bool same = writes && unchanged(b, access, lane, space, address);
            if (!same)
                report(writes ? "lanes-write-write" : "lanes-read-write", b, access, shown, entry(b, w).pc, me, lane_of(other), space, address, {1},
                       false);
        }
    }
    if (!writes) return;
    for (const auto* reads : {cells.read, cells.other_read}) {
        const Stamp r = reads[g];
        if ((r & warp_mask) != me) {
            if (r > b.all_known && !knows(b, me, r) && !(access.strong && entry(b, r).strong))
                report(access.role == Role::atomic ? "atomic-read" : "read-write", b, access, shown, entry(b, r).pc, r & warp_mask,
                       reads == cells.read ? lane_of(cells.read_lane[g]) : nobody, space, address, {0}, true);
        } else if (r > std::max(warp.met, warp.lanes_known) && reads == cells.read) {
            const auto other = cells.read_lane[g];
            const bool known = other < lanes && lane < lanes && warp.pairs != nullptr && (*warp.pairs)[lane * lanes + other] >= r;
            if (other != mine && other != whole_warp && !known && !access.whole && !(access.strong && entry(b, r).strong))
                report("lanes-read-write", b, access, shown, entry(b, r).pc, me, lane_of(other), space, address, {0}, true);
        }
    }
}

// Granules [first, first + count) of one lane, or of the warp as one: looks for races, then remembers the access.
// Whether one of these stamps is newer than what is known: for the warp's own, than `own`; for others, than `others`.
inline bool newer(const Stamp* at, std::size_t count, Stamp me, Stamp own, Stamp others) {
    std::uint32_t bad = 0;
    for (std::size_t i = 0; i < count; ++i) bad |= static_cast<std::uint32_t>(at[i] > ((at[i] & warp_mask) == me ? own : others));
    return bad != 0;
}

// `n` granules from `first`, lane_of[i] the lane that touches each: looks for races, then remembers the access. A number that is known
// when compiling makes the short accesses of single lanes fast.
template <std::size_t fixed>
void Races::touch_some(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t n,
                       unsigned shift, const std::uint32_t* lane_of) {
    const std::size_t count = fixed == 0 ? n : fixed;
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, own = warp.lanes_known, s = access.stamp;
    const Stamp read_limit = std::max(own, warp.met);
    auto* const __restrict write = cells.write + first;
    auto* const __restrict read = cells.read + first;
    auto* const __restrict other_read = cells.other_read + first;
    const bool writes = access.role != Role::read;
    if (newer(write, count, me, own, others) ||
        (writes && (newer(read, count, me, read_limit, others) || newer(other_read, count, me, read_limit, others))))
        for (std::size_t i = 0; i < count; ++i) {
            // What a lane wrote and read itself is the usual case here, and no race.
            const auto lane = lane_of[i];
            const auto harmless = [&](Stamp at, std::uint32_t by) { return at <= others || ((at & (warp_mask | in_flight)) == me && by == lane); };
            if (harmless(write[i], cells.write_lane[first + i]) &&
                (!writes || (harmless(read[i], cells.read_lane[first + i]) && other_read[i] <= others)))
                continue;
            inspect(b, access, cells, space, base + (i << shift), first + i, lane);
        }
    if (writes) {
        auto* const __restrict write_lane = cells.write_lane + first;
        // A copy in flight stays marked: whatever comes before its wait is unordered with it, too. So does a plain write of this warp
        // under its own atomic, with which other atomics are no race.
        if (access.role == Role::atomic) {
            for (std::size_t i = 0; i < count; ++i) {
                const Stamp w = write[i];
                const bool kept = (w & in_flight) != 0 || ((w & warp_mask) == me && w > others && !entry(b, w).strong);
                write[i] = kept ? w : s;
            }
        } else {
            for (std::size_t i = 0; i < count; ++i) write[i] = (write[i] & in_flight) != 0 ? write[i] : s;
        }
        for (std::size_t i = 0; i < count; ++i) write_lane[i] = lane_of[i];
    }
    if (access.role == Role::write) return;
    auto* const __restrict read_lane = cells.read_lane + first;
    for (std::size_t i = 0; i < count; ++i) {
        const Stamp r = read[i];
        const std::uint32_t old = read_lane[i], mine = lane_of[i];
        const bool ours = (r & warp_mask) == me, take = r <= others || ours;
        const std::uint32_t lane = ours && r > read_limit && old != mine ? several_lanes : mine;
        read_lane[i] = take ? lane : old;
        other_read[i] = take ? other_read[i] : s;
        read[i] = take ? s : r;
    }
}

void Races::touch(BlockState& b, const Access& access, const Cells& cells, Space space, std::uint64_t base, std::size_t first, std::size_t count,
                  unsigned shift, const std::uint32_t* lane_of) {
    switch (count) {
        case 1: return touch_some<1>(b, access, cells, space, base, first, count, shift, lane_of);
        case 2: return touch_some<2>(b, access, cells, space, base, first, count, shift, lane_of);
        case 4: return touch_some<4>(b, access, cells, space, base, first, count, shift, lane_of);
        case 8: return touch_some<8>(b, access, cells, space, base, first, count, shift, lane_of);
        case 16: return touch_some<16>(b, access, cells, space, base, first, count, shift, lane_of);
        default: return touch_some<0>(b, access, cells, space, base, first, count, shift, lane_of);
    }
}

// The same for lanes that touch a few granules here and there: a loop without calls, but for what looks like a race.
template <bool writes>
void Races::touch_scattered(BlockState& b, const Access& access, const Cells& cells, const MemoryEvent& event) {
    const auto& warp = b.warps[access.where.warp];
    const Stamp me = access.where.warp, others = b.all_known, own = warp.lanes_known, s = access.stamp;
    const Stamp read_limit = std::max(own, warp.met);
    const auto shift = shared_shift_;
    const std::size_t count = std::max(event.bytes >> shift, 1u);
    const auto unknown = [&](Stamp at, Stamp limit, std::uint32_t by, std::uint32_t lane) {
        return at > others && (at & in_flight || (at & warp_mask) != me || (at > limit && by != lane));
    };
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<std::uint32_t>(std::countr_zero(m));
        const auto first = static_cast<std::size_t>(event.addresses[lane] >> shift);
        for (std::size_t g = first; g < first + count; ++g) {
            const Stamp w = cells.write[g], r = cells.read[g];
            if (unknown(w, own, cells.write_lane[g], lane) ||
                (writes && (unknown(r, read_limit, cells.read_lane[g], lane) || cells.other_read[g] > others)))
                inspect(b, access, cells, Space::shared, event.addresses[lane] + ((g - first) << shift), g, lane);
            if constexpr (writes) {
                cells.write[g] = (w & in_flight) != 0 ? w : s;
                cells.write_lane[g] = lane;
            } else {
                const bool ours = (r & warp_mask) == me;
                if (r <= others || ours) {
                    cells.read_lane[g] = ours && r > read_limit && cells.read_lane[g] != lane ? several_lanes : lane;
                    cells.read[g] = s;
                } else {
                    cells.other_read[g] = s;
                }
            }
        }
    }
}

Page& Races::page(std::uint64_t number) {
    if (number != last_page_ || last_page_data_ == nullptr) {
        auto& at = pages_[number];
        if (!at) at = std::make_unique<Page>((std::size_t{1} << page_bits) >> global_shift_);
        last_page_ = number;
        last_page_data_ = at.get();
    }
    return *last_page_data_;
}

void Races::touch_global(BlockState& b, const Access& access, std::uint64_t address, std::uint32_t bytes, const std::uint32_t* lane_of) {
    const auto mask = (std::uint64_t{1} << page_bits) - 1;
    const auto tag = b.index + 1;
    while (bytes != 0) {
        auto& p = page(address >> page_bits);
        const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, mask + 1 - (address & mask)));
        const std::size_t first = (address & mask) >> global_shift_, count = std::max<std::size_t>(length >> global_shift_, 1);
        for (std::size_t g = first; g < first + count; ++g) {
            if (!shared_.tracking) between_blocks(b, access, p, address + ((g - first) << global_shift_), g, lane_of[g - first]);
            // Stamps are those of one block.
            if (p.write_block[g] != tag) p.write[g] = 0;
            if (p.read_block[g] != tag) p.read[g] = p.other_read[g] = 0;
        }
        const Cells cells{p.write.data(), p.read.data(), p.other_read.data(), p.write_lane.data(), p.read_lane.data()};
        touch(b, access, cells, Space::global, address, first, count, global_shift_, lane_of);
        if (access.role != Role::read)
            for (std::size_t g = first; g < first + count; ++g) {
                p.write_block[g] = tag;
                p.write_pc[g] = access.where.pc;
            }
        if (access.role != Role::write)
            for (std::size_t g = first; g < first + count; ++g) {
                if (p.read_block[g] != tag) {
                    p.older_block[g] = p.read_block[g];
                    p.older_pc[g] = p.read_pc[g];
                }
                p.read_block[g] = tag;
                p.read_pc[g] = access.where.pc;
            }
        lane_of += count;
        address += length;
        bytes -= length;
    }
}

// Only atomics with fences order blocks; a launch whose blocks share memory runs in block order on one thread, see grid.cpp.
void Races::between_blocks(BlockState& b, const Access& access, Page& page, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto tag = b.index + 1;
    const auto strong = [&](std::uint32_t pc) {
        const auto& inst = shared_.program->code()[pc];
        return inst.execute != mbarrier_ && ((inst.flags & flag::strong) != 0 || inst.execute == atom_);
    };
    const auto shown = lane < lanes ? lane : nobody;
    const auto unordered = [&](std::uint32_t other, std::uint32_t pc) {
        return other != 0 && other != tag && !b.ordered_blocks.contains(other - 1) && !(access.strong && strong(pc));
    };
    if (unordered(page.write_block[g], page.write_pc[g])) {
        const bool same = access.role == Role::write && unchanged(b, access, lane, Space::global, address);
        report(access.role == Role::read ? "blocks-read-write"
               : same                    ? "blocks-write-same"
                                         : "blocks-write-write",
               b, access, shown, page.write_pc[g], nobody, nobody, Space::global, address, {1, static_cast<std::int64_t>(page.write_block[g]) - 1},
               false);
    }
    if (access.role == Role::read) return;
    for (const auto& [other, pc] : {std::pair{page.read_block[g], page.read_pc[g]}, std::pair{page.older_block[g], page.older_pc[g]}})
        if (unordered(other, pc) && !(access.role == Role::write && unchanged(b, access, lane, Space::global, address)))
            report("blocks-read-write", b, access, shown, pc, nobody, nobody, Space::global, address, {0, static_cast<std::int64_t>(other) - 1},
                   true);
}

// Two lanes of one store that write different values to one place: which of them stays is undefined.
void Races::same_instruction(BlockState& b, const MemoryEvent& event) {
    const auto& inst = shared_.program->code()[event.where.pc];
    if (inst.execute != store_ || std::popcount(event.active) < 2) return;
    std::uint64_t previous = 0;
    bool ascending = true, first = true;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto a = event.addresses[std::countr_zero(m)];
        ascending &= first || a >= previous + event.bytes;
        previous = a;
        first = false;
    }
    if (ascending) return;
    std::array<std::pair<std::uint64_t, unsigned>, lanes> sorted;
    unsigned n = 0;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        sorted[n++] = {event.addresses[lane], lane};
    }
    std::sort(sorted.begin(), sorted.begin() + n);
    const auto& warp = b.block->warps()[event.where.warp];
    for (unsigned i = 1; i < n; ++i) {
        if (sorted[i].first >= sorted[i - 1].first + event.bytes) continue;
        bool differ = false;  // addresses are aligned to the access, so lanes overlap wholly or not at all
        for (unsigned e = 0; e < inst.count; ++e) {
            const auto* from = warp.at<std::byte>(inst.extra[e]);
            differ |= std::memcmp(from + std::size_t{sorted[i].second} * inst.register_bytes,
                                  from + std::size_t{sorted[i - 1].second} * inst.register_bytes, std::min(inst.bytes, inst.register_bytes)) != 0;
        }
        if (!differ) continue;
        report("one-instruction", b, {event.where, Role::write, false, false, 0}, sorted[i].second, event.where.pc, event.where.warp,
               sorted[i - 1].second, event.space, sorted[i].first, {}, false);
    }
}

// Atomics, strong accesses and mbarriers: a write there tells what was known at the writer's last fence; a read there learns it.
void Races::synchronise(BlockState& b, const MemoryEvent& event, const Inst& inst) {
    auto& warp = b.warps[event.where.warp];
    const bool is_mbarrier = inst.execute == mbarrier_;
    const bool writes = event.kind != AccessKind::load, reads = event.kind != AccessKind::store;
    const Stamp now = b.sequence << warp_bits | event.where.warp;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto address = event.addresses[std::countr_zero(m)];
        auto [at, fresh] = b.released.try_emplace({event.space, address});
        if (reads) join(warp.known, at->second);
        if (writes) {
            if (is_mbarrier || (inst.flags & flag::release) != 0) {
                join(at->second, warp.known);
                at->second[event.where.warp] = now;
            } else {
                join(at->second, warp.fenced);
            }
        }
        if (event.space != Space::global || shared_.tracking) continue;
        auto& blocks = released_blocks_[address];
        if (reads)
            for (const auto other : blocks) b.ordered_blocks.insert(other);
        if (writes && (warp.fenced[event.where.warp] != 0 || (inst.flags & flag::release) != 0)) {
            blocks.insert(b.index);
            blocks.insert(b.ordered_blocks.begin(), b.ordered_blocks.end());
        }
    }
    if (writes) ++warp.epoch;
}

void Races::memory(const MemoryEvent& event) {
    if (event.space == Space::local || event.kind == AccessKind::async_store || event.active == 0) return;
    auto& b = state_of(event.where.block);
    const auto& inst = shared_.program->code()[event.where.pc];
    ++events_;
    if (event.space == Space::generic) {  // lanes in several spaces: one by one
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            Addresses one{};
            const auto space = space_of(event.addresses[lane]);
            one.lane[lane] = event.addresses[lane] - window_of(space);
            memory({event.where, space, event.kind, m & -m, event.bytes, one.lane});
        }
        return;
    }
    const bool whole = inst.execute == collective_[0] || inst.execute == collective_[1];
    const bool matrix = whole || inst.execute == collective_[2] || inst.execute == collective_[3];
    if (matrix) b.warps[event.where.warp].met = b.sequence << warp_bits | warp_mask;
    const auto role = event.kind == AccessKind::atomic ? Role::atomic : event.kind == AccessKind::store ? Role::write : Role::read;
    if (inst.execute == mbarrier_) {
        synchronise(b, event, inst);
        return;
    }
    const bool strong = role == Role::atomic || (inst.flags & flag::strong) != 0;
    if (strong && synchronises_) synchronise(b, event, inst);
    if (event.space == Space::global) {
        // While blocks run in parallel no buffer is both read and written, or the launch is run again in order.
        if (role == Role::read && (shared_.tracking || (inst.flags & flag::read_only) != 0)) return;
        if (role == Role::read) {
            const auto* allocation = shared_.memory->find(event.addresses[std::countr_zero(event.active)]);
            if (allocation != nullptr && !allocation->region.writable) return;
        }
    } else {
        for (Mask m = event.active; m != 0; m &= m - 1) {  // out of bounds: the run is about to end
            const auto a = event.addresses[std::countr_zero(m)];
            if (a + event.bytes > std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes) return;
        }
    }
    const Access access{event.where, role, strong, matrix, stamp(b, event.where, strong)};
    const bool global = event.space == Space::global;
    const auto shift = global ? global_shift_ : shared_shift_;
    const auto cells = shared_cells(b);
    const auto go = [&](std::uint64_t address, std::uint32_t bytes, const std::uint32_t* lane_of) {
        if (global) touch_global(b, access, address, bytes, lane_of);
        else touch(b, access, cells, Space::shared, address, address >> shift, std::max<std::size_t>(bytes >> shift, 1), shift, lane_of);
    };
    const auto* addresses = event.addresses;
    const auto bytes = event.bytes;
    if (!matrix && event.active == all_lanes) {
        std::uint64_t apart = 0, astride = 0;
        for (unsigned l = 0; l < lanes; ++l) {
            apart |= addresses[l] ^ addresses[0];
            astride |= addresses[l] ^ (addresses[0] + std::uint64_t{l} * bytes);
        }
        if (apart == 0 && role == Role::read) return go(addresses[0], bytes, several_.data());
        if (astride == 0 && std::has_single_bit(bytes)) return go(addresses[0], bytes * lanes, lanes_of(bytes, shift, 0));
    }
    if (role == Role::write && !matrix) same_instruction(b, event);
    if (!global && !matrix && role != Role::atomic && bytes >> shift <= 4) {
        if (role == Role::write) touch_scattered<true>(b, access, cells, event);
        else touch_scattered<false>(b, access, cells, event);
        return;
    }
    for (Mask m = event.active; m != 0;) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        m &= m - 1;
        // Lanes, or lines of a fragment, that follow each other are looked at together.
        std::uint32_t length = bytes;
        for (unsigned next = lane + 1;
             next < lanes && (m >> next & 1) != 0 && addresses[next] == addresses[lane] + length && (matrix || std::has_single_bit(bytes)); ++next) {
            length += bytes;
            m &= m - 1;
        }
        go(addresses[lane], length, matrix ? whole_.data() : lanes_of(bytes, shift, lane));
    }
}

void Races::tensor(const TensorEvent& event) {
    auto& b = state_of(event.where.block);
    b.warps[event.where.warp].met = b.sequence << warp_bits | warp_mask;
}

void Races::meet(const Where& where, Mask here, Mask) {
    auto& b = state_of(where.block);
    const auto live = b.block->warps()[where.warp].live();
    if ((here & live) == live) b.warps[where.warp].met = b.sequence << warp_bits | warp_mask;
}

void Races::fence(const Where& where, Mask) {
    auto& b = state_of(where.block);
    auto& warp = b.warps[where.warp];
    warp.fenced = warp.known;
    warp.fenced[where.warp] = b.sequence << warp_bits | where.warp;
    ++warp.epoch;
}

void Races::whole_barrier(BlockState& b) {
    const Stamp now = b.sequence << warp_bits | warp_mask;
    b.all_known = now;
    for (auto& warp : b.warps) {
        warp.known.fill(now);
        warp.lanes_known = warp.met = now;
        warp.arrived = 0;
        warp.pairs = nullptr;
        ++warp.epoch;
    }
    if (b.entries.size() > (1u << 16)) {
        b.entries.clear();
        b.base = b.sequence;
    }
}

void Races::barrier(const BarrierEvent& event) {
    auto& b = state_of(event.where.block);
    if (event.kind == BarrierKind::warp) {
        auto& warp = b.warps[event.where.warp];
        const auto& machine = b.block->warps()[event.where.warp];
        const auto& inst = shared_.program->code()[event.where.pc];
        const auto live = machine.live();
        const Mask members = machine.at<std::uint32_t>(inst.s[0])[std::countr_zero(event.active)];
        warp.arrived |= event.active;
        if ((members & live & ~warp.arrived) != 0) return;
        warp.arrived &= ~members;
        const Stamp now = b.sequence << warp_bits | event.where.warp;
        ++warp.epoch;
        if ((live & ~members) == 0) {
            warp.lanes_known = warp.met = now;
            return;
        }
        if (warp.pairs == nullptr) {
            if (!warp.pairs_storage) warp.pairs_storage = std::make_unique<std::array<Stamp, lanes * lanes>>();
            warp.pairs = warp.pairs_storage.get();
            warp.pairs->fill(0);
        }
        std::array<Stamp, lanes> sum{};
        for (Mask m = members; m != 0; m &= m - 1)
            for (unsigned l = 0; l < lanes; ++l) sum[l] = std::max(sum[l], (*warp.pairs)[static_cast<unsigned>(std::countr_zero(m)) * lanes + l]);
        for (Mask m = members; m != 0; m &= m - 1) sum[std::countr_zero(m)] = now;
        for (Mask m = members; m != 0; m &= m - 1)
            std::copy(sum.begin(), sum.end(), warp.pairs->begin() + static_cast<std::ptrdiff_t>(static_cast<unsigned>(std::countr_zero(m)) * lanes));
        return;
    }
    auto& arrived = b.arrived[event.barrier];
    if (event.kind != BarrierKind::release) {
        arrived[event.where.warp] |= event.active;
        return;
    }
    bool everyone = true;
    const auto& machines = b.block->warps();
    for (unsigned w = 0; w < machines.size(); ++w) everyone &= (machines[w].live() & ~arrived[w]) == 0;
    if (everyone) {
        whole_barrier(b);
    } else {
        Clock sum{};
        for (unsigned w = 0; w < machines.size(); ++w) {
            if (arrived[w] == 0) continue;
            join(sum, b.warps[w].known);
            sum[w] = std::max(sum[w], b.sequence << warp_bits | w);
        }
        for (unsigned w = 0; w < machines.size(); ++w) {
            if (arrived[w] == 0) continue;
            // Those that only arrived learn nothing; taking them for waiting ones hides little and needs no record of which.
            join(b.warps[w].known, sum);
            if ((machines[w].live() & ~arrived[w]) == 0) b.warps[w].lanes_known = b.warps[w].met = b.sequence << warp_bits | w;
            ++b.warps[w].epoch;
        }
    }
    arrived.fill(0);
}

void Races::land(BlockState& b, const Where& where, Mask active, const std::uint32_t* until) {
    const auto cells = shared_cells(b);
    std::erase_if(b.warps[where.warp].copies, [&](std::uint32_t index) {
        const auto& copy = b.copies[index];
        if ((active >> copy.lane & 1) == 0 || copy.group >= until[copy.lane]) return false;
        const Stamp marker = in_flight | index << warp_bits | copy.warp;
        const Stamp now = stamp(b, {where.block, where.warp, copy.pc}, false);
        for (auto g = copy.destination >> shared_shift_; g < (copy.destination + copy.bytes) >> shared_shift_; ++g)
            if (cells.write[g] == marker) {
                cells.write[g] = now;
                cells.write_lane[g] = copy.lane;
            }
        b.free_copies.push_back(index);
        return true;
    });
}

void Races::async(const AsyncEvent& event) {
    auto& b = state_of(event.where.block);
    auto& warp = b.warps[event.where.warp];
    ++events_;
    switch (event.kind) {
        case AsyncKind::issue: {
            const auto cells = shared_cells(b);
            const Access access{event.where, Role::write, false, false, stamp(b, event.where, false)};
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(m));
                const auto to = event.destinations[lane];
                const std::size_t first = to >> shared_shift_, count = event.bytes >> shared_shift_;
                touch(b, access, cells, Space::shared, to, first, count, shared_shift_, lanes_of(event.bytes, shared_shift_, lane));
                auto index = static_cast<std::uint32_t>(b.copies.size());
                if (b.free_copies.empty()) {
                    b.copies.emplace_back();
                } else {
                    index = b.free_copies.back();
                    b.free_copies.pop_back();
                }
                b.copies[index] = {event.where.pc, event.where.warp, lane, event.groups[lane], to, event.bytes, warp.waits};
                warp.copies.push_back(index);
                std::fill_n(cells.write + first, count, in_flight | index << warp_bits | event.where.warp);
            }
            break;
        }
        case AsyncKind::commit:
            for (Mask m = event.active; m != 0; m &= m - 1) ++warp.commits[std::countr_zero(m)];
            break;
        case AsyncKind::wait:
            warp.last_wait = event.where.pc;
            warp.last_pending = event.pending;
            warp.waited_commits = warp.commits;
            ++warp.waits;
            land(b, event.where, event.active, event.groups);
            break;
        case AsyncKind::arrive: {
            std::array<std::uint32_t, lanes> all;
            all.fill(nobody);
            land(b, event.where, event.active, all.data());
            break;
        }
    }
}

std::vector<RawFinding> Races::findings() {
    std::vector<RawFinding> all;
    for (auto& [key, finding] : found_) all.push_back(std::move(finding));
    found_.clear();
    counted_.clear();
    return all;
}

}  // namespace

std::unique_ptr<Check> make_races(const Shared& shared) { return std::make_unique<Races>(shared); }

}  // namespace wmmadiag
