// A launch that stops where it is told to, shows its state, and goes back.
//
// Blocks run in order on one thread, with the engine's own scheduler and handlers, so every moment has a number: `time`, the warp
// instructions executed since the launch began, in all blocks. Going back restores the latest snapshot before a time and runs on from it.
// Snapshots hold the running block's state, and the pages of global memory that were written after them, as they were before.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "grid.hpp"

namespace wmmadiag {

inline constexpr std::uint32_t any = 0xffffffffu;

// How a NaN in an instruction's destination shows.
enum class NanKind : std::uint8_t { none, f16, bf16, f16x2, bf16x2, f32, f64, f32x2 };

struct Watch {
    Space space = Space::global;
    std::uint64_t begin = 0, end = 0;  // bytes, [begin, end)
    std::uint32_t block = any;
    std::uint32_t warp = any, lane = any;  // of local memory
    bool reads = false, writes = true;
};

// Where to stop. The first that is met counts.
struct StopConditions {
    std::vector<std::uint8_t> before;       // per instruction: not 0: stop before a warp runs it
    std::uint32_t block = any, warp = any;  // in these alone, as far as `before` and `nan` go
    std::vector<Watch> watches;             // after an access
    std::vector<std::uint8_t> nan;          // per instruction its NanKind: stop after it makes a NaN
    bool block_end = false;                 // when a block has ended
    std::uint64_t skip = 0;                 // let so many pass
    std::uint64_t until = std::numeric_limits<std::uint64_t>::max();
    bool last = false;  // go on until `until`, and report the last one that was met
};

enum class StopReason : std::uint8_t { time, instruction, watch, nan, block_end, finished, fault, interrupted };

struct Stop {
    StopReason reason = StopReason::time;
    std::uint64_t time = 0;
    std::uint64_t met = 0;      // conditions met, with `last`; 0: none
    Where where{0, 0, 0};       // of the instruction: the next one, or the one that made the access or the NaN
    Mask lanes = 0;             // that accessed a watched byte, or hold the NaN
    std::uint32_t watch = 0;    // index
    std::uint64_t address = 0;  // first watched byte that was accessed
    AccessKind access = AccessKind::load;
};

struct DebugMemory {
    std::uint64_t snapshots = 0, bytes = 0, limit = 0, interval = 0;
};

// Its methods must not be called after one of them threw.
class Debugger {
public:
    virtual ~Debugger() = default;

    // `poll` is called every few milliseconds; false interrupts.
    virtual Stop run(const StopConditions& conditions, const std::function<bool()>& poll) = 0;
    // To a time, forwards or backwards; as far as the launch goes. False when interrupted.
    virtual bool seek(std::uint64_t time, const std::function<bool()>& poll) = 0;
    // As `seek`, from the current block's start on and with a check that watches. `time` must lie in the current block.
    // `table`: Shared::check_table.
    virtual bool watch(const std::string& check, std::vector<std::int64_t> table, std::uint64_t time, const std::function<bool()>& poll) = 0;
    [[nodiscard]] virtual std::vector<RawFinding> findings() = 0;  // of that check
    // Its tags (provenance/tag.hpp) of a register of a warp, lane after lane, granule after granule. Empty when it follows none.
    [[nodiscard]] virtual std::vector<std::uint64_t> tags(std::uint32_t warp, Operand slot, unsigned bytes) = 0;

    [[nodiscard]] virtual std::uint64_t time() const = 0;
    [[nodiscard]] virtual bool finished() const = 0;
    [[nodiscard]] virtual const Fault& fault() const = 0;                       // of kind none unless the launch died here
    [[nodiscard]] virtual const Block& block() const = 0;                       // the running one; the last one when all have ended
    [[nodiscard]] virtual const Warp* next() const = 0;                         // the warp that goes on; nullptr at the end
    [[nodiscard]] virtual std::vector<std::uint64_t> block_starts() const = 0;  // times, of the blocks begun so far
    [[nodiscard]] virtual std::string output() const = 0;                       // of device printf, up to now
    [[nodiscard]] virtual DebugMemory memory() const = 0;
};

// `memory_limit`: bytes for snapshots, as far as two of them fit. `interval`: instructions between them, at first.
std::unique_ptr<Debugger> make_debugger(RunRequest request, std::uint64_t memory_limit, std::uint64_t interval);

}  // namespace wmmadiag
