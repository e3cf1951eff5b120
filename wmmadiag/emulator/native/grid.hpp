// Runs a whole launch: blocks over threads, budgets, and the rule that the bits never depend on the number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "block.hpp"
#include "check.hpp"

namespace wmmadiag {

// Global memory that nothing has written yet: `Allocation::begins_unwritten`.
struct Unwritten {
    std::uint64_t address = 0, bytes = 0;
    std::uint64_t* kept = nullptr;
};

struct RunRequest {
    const Program* program = nullptr;
    GridSpec spec;
    std::vector<Region> regions;
    std::vector<Unwritten> unwritten;
    Observer* observer = nullptr;           // if set, blocks run in order on one thread
    std::vector<std::string> checks;        // names, see check.hpp
    std::vector<std::int64_t> check_table;  // Shared::check_table
    unsigned threads = 1;
    std::uint64_t instruction_budget = 0;  // warp instructions; 0: none
    double seconds_budget = 0;             // 0: none
    bool in_order = false;                 // blocks in order on one thread
    std::uint64_t sample = 0;              // so many blocks, spread over the grid, are watched by checks; 0: all
    std::uint64_t* begun = nullptr;        // counts the blocks that have begun, for whoever looks on
    std::uint64_t patience = 1u << 22;     // warp instructions until a block that does not end lets the next one start
};

enum class Outcome : std::uint8_t { finished, fault, out_of_instructions, out_of_time, interrupted };

// Where a group of lanes stands when a run ends early.
struct Standing {
    std::uint32_t block, warp, pc;
    Mask lanes;
    GroupState state;
    std::uint32_t barrier;
};

struct RunResult {
    Outcome outcome = Outcome::finished;
    Fault fault;
    std::vector<Standing> standings;
    std::uint64_t instructions = 0;  // warp instructions
    std::string output;              // device printf, in block order
    unsigned threads = 1;
    std::vector<RawFinding> findings;
    bool order_mattered = false;  // blocks wrote or read what others wrote: ran in block order
};

// `poll` is called about every 20 ms on the calling thread; false interrupts the run. Exceptions thrown by the observer come out here.
RunResult run_grid(const RunRequest& request, const std::function<bool()>& poll);

}  // namespace wmmadiag
