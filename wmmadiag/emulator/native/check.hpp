// Checks: observers that watch a run and collect findings. Each worker thread has its own set, and watches a block from its start to its
// end; blocks that wait for each other may take turns, so state is kept per block. What all workers found is merged at the end.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "block.hpp"
#include "observer.hpp"

namespace wmmadiag {

inline constexpr std::uint32_t no_pc = 0xffffffffu;

// One kind of thing that went wrong at one place (or between two). Python gives it words, names and lines.
struct RawFinding {
    std::string check;               // name of the check
    std::string kind;                // stable id within it
    std::uint32_t pc = no_pc;        // where
    std::uint32_t other_pc = no_pc;  // the other access of a race, the writer, ...
    Space space = Space::generic;
    std::uint64_t address = 0;  // first seen: offset in shared or local memory, or device address
    std::uint64_t bytes = 0;
    std::uint32_t block = 0, warp = 0, lane = 0;  // first seen
    std::uint32_t other_block = 0, other_warp = 0, other_lane = 0;
    std::uint64_t pass = 0, other_pass = 0;  // of a pair: how often that warp had come to its instruction; 0: not known
    std::uint64_t count = 0;                 // how often, over the whole run
    std::vector<std::int64_t> values;        // what else the kind's text needs
};

class Check : public Observer {
public:
    // What was found since the run began; called once, after the last block.
    [[nodiscard]] virtual std::vector<RawFinding> findings() = 0;
};

struct CheckEntry {
    std::string_view name;
    std::unique_ptr<Check> (*make)(const Shared&);
};

// One file checks/NAME.cpp per check; listed in checks/checks.cpp.
std::span<const CheckEntry> all_checks();

// The checks of one worker, as one observer.
class CheckSet final : public Observer {
public:
    // Throws std::invalid_argument for an unknown name. `listener` may be nullptr.
    CheckSet(const std::vector<std::string>& names, const Shared& shared, Observer* listener);

    void block_start(const Block& block) override;
    void block_end(const Block& block) override;
    void memory(const MemoryEvent& event) override;
    void tensor(const TensorEvent& event) override;
    void barrier(const BarrierEvent& event) override;
    void async(const AsyncEvent& event) override;
    void mbarrier(const MbarrierEvent& event) override;
    void fence(const Where& where, Mask active) override;
    void meet(const Where& where, Mask here, Mask members) override;
    void left(const Where& where, Mask active) override;
    void executed(const WriteEvent& event) override;
    void skipped(const WriteEvent& event) override;
    void executing(const WriteEvent& event) override;
    [[nodiscard]] bool wants_instructions() const override { return !instructions_.empty(); }

    // Adds what these checks found to `merged`: findings of one kind and place become one, the first seen being that of the lowest block.
    void collect(std::vector<RawFinding>& merged);

private:
    std::vector<std::unique_ptr<Check>> checks_;
    std::vector<Observer*> all_;
    std::vector<Observer*> instructions_;                  // those that want them
    std::vector<std::uint16_t> results_of_, operands_of_;  // by pc: a bit for each of instructions_
};

}  // namespace wmmadiag
