// One warp: 32 lanes, their registers, and the groups of lanes that run together.
//
// Divergence: lanes at the same pc form a group. The group with the smallest pc runs; the program is laid out so that this is
// always the one furthest from the exit (wmmadiag/emulator/layout.py), so groups meet again at the earliest point they can
// ("thread frontiers", Diamos et al., MICRO 2011). A group that runs long while another could run gives way to it, so lanes that
// wait for each other in a loop make progress, as on chips since Volta.
#pragma once

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "memory.hpp"
#include "observer.hpp"
#include "program.hpp"

namespace wmmadiag {

class Block;
struct Barrier;

enum class FaultKind : std::uint8_t {
    none,
    out_of_bounds,
    misaligned,
    read_only,
    wrong_space,
    trap,
    assertion,
    deadlock,
    partial_warp,
    bad_operand,
    unsupported,
};

struct Fault {
    FaultKind kind = FaultKind::none;
    std::uint32_t block = 0, warp = 0, lane = 0, pc = 0;
    Space space = Space::generic;
    bool write = false;
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::string text;
};

enum class GroupState : std::uint8_t { ready, barrier, sync };

struct Group {
    std::uint32_t pc;
    Mask mask;
    GroupState state;
    std::uint32_t barrier;   // id, when state is barrier
    std::uint64_t last_ran;  // Warp::executed when it last gave way
};

// Copies in flight from global to shared memory (cp.async). They become visible at the wait that covers them, not before.
struct AsyncCopy {
    std::uint32_t pc;
    Mask lanes_left;
    std::uint32_t bytes;
    std::array<std::uint32_t, lanes> destination;
    std::array<std::uint32_t, lanes> group;  // the lane's commit count when issued
    std::vector<std::byte> data;             // bytes per lane
};

// The lanes whose register holds `value`.
inline Mask lanes_with(const std::uint32_t* values, std::uint32_t value) {
    Mask found = 0;
    for (unsigned l = 0; l < lanes; ++l) found |= Mask{values[l] == value} << l;
    return found;
}

// `cut`: the quota is used up. `gave_way`: other warps should have a turn.
enum class WarpStatus : std::uint8_t { cut, gave_way, blocked, done, faulted };

class Warp {
public:
    void start(Block& block, std::uint32_t index, std::uint32_t threads);

    // Chooses the group of lanes that runs next; false when none can.
    bool ready();
    // Runs until every lane is blocked or gone, `quota` instructions are used up, or a fault. Takes what it used from `quota`. Only after
    // `ready()`, or a run that was cut: however often it is cut, it does the same.
    WarpStatus run(std::uint64_t& quota);

    // Register and constant access for the handlers.
    template <class T>
    [[nodiscard]] T* at(Operand operand) const {
        return reinterpret_cast<T*>(bases_[operand >> 31] + (operand & ~constant_bit));
    }

    // Control flow, for the handlers.
    Flow branch(const Inst&, Mask taken);
    Flow branch_indexed(const Inst&, Mask active);
    Flow exit_lanes(Mask active);
    // Next when all of `needed` (less lanes that are gone) run together now; otherwise the group waits at this instruction.
    Flow converge(Mask active, Mask needed);
    Flow converge_whole(Mask active);           // .aligned: all 32 lanes, or a fault
    Flow wait_here(Mask waiting);               // these lanes wait at this instruction until others come or exit
    Flow sync_lanes(const Inst&, Mask active);  // bar.warp.sync
    Flow block_at_barrier(Mask active, std::uint32_t barrier);
    void release(std::uint32_t barrier, const Barrier& result);  // lanes that wait at it go on

    // What a strong access or an atomic has read, as the last one did at the same instruction: the warp polls, and gives way.
    Flow polled(const Inst&, std::uint64_t value);
    Flow sleep();
    [[nodiscard]] bool polls() const { return polls_; }

    Flow fail(FaultKind kind, Mask lane_mask, std::string text = {});
    Flow fail_access(FaultKind kind, unsigned lane, Space space, std::uint64_t address, std::uint64_t bytes, bool write);

    [[nodiscard]] Mask live() const { return live_; }
    [[nodiscard]] Mask running() const { return mask_; }
    [[nodiscard]] std::uint32_t pc() const { return pc_; }
    [[nodiscard]] std::uint32_t index() const { return index_; }
    [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
    [[nodiscard]] Where where() const;
    [[nodiscard]] Block& block() const { return *block_; }
    [[nodiscard]] std::byte* local(unsigned lane) const;
    [[nodiscard]] std::uint64_t executed() const { return executed_; }
    [[nodiscard]] const std::byte* registers() const { return bases_[0]; }

    std::vector<AsyncCopy> copies;
    std::array<std::uint32_t, lanes> commits{};

    Fault fault;

private:
    enum class Watched : std::uint8_t { nothing, some, instructions };
    template <Watched watched>
    WarpStatus run_loop(std::uint64_t& quota);
    void run_steps(const LaneStep* step, const LaneStep* end);             // one after the other, by the running group
    bool select();                                                         // choose the group to run; false when none can
    void shelve(Mask lanes, GroupState state, std::uint32_t barrier = 0);  // these lanes of the running group wait at pc
    void merge_groups();

    Block* block_ = nullptr;
    const Inst* polled_ = nullptr;  // the last strong access or atomic,
    std::uint64_t seen_ = 0;        // what it read,
    std::uint32_t again_ = 0;       // and how often it has read that
    bool polls_ = false;            // its last turn ended since it polled
    const Inst* code_ = nullptr;
    const LaneStep* steps_ = nullptr;
    std::array<std::byte*, 2> bases_{};  // of registers and of constants, by an operand's `constant_bit`
    std::uint32_t index_ = 0;
    std::uint32_t pc_ = 0;
    std::uint32_t limit_ = 0;  // the pc at which the running group must look at the others
    Mask mask_ = 0;            // the running group; 0 when none is chosen
    Mask live_ = 0;
    std::uint64_t executed_ = 0;
    std::uint64_t slice_end_ = 0;
    bool giving_way_ = false;    // a starved group has its turn
    std::vector<Group> groups_;  // all but the running one
};

}  // namespace wmmadiag
