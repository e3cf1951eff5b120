// Trials: one prepared launch of a program that reads a selector, run for many values of it, each judged element by element.
//
// Nothing is checked or reported on the way. Value 0 is the program as it is; its run (`base`) tells which block writes which element.
// Where there is one launch, blocks that touch what another one writes are a group, as those are that add to the same elements. A value is
// tried on the groups that write wrong elements first, one by one, and given up as soon as they are no better. Whatever is right, or better, has
// run in all blocks; whatever makes groups depend on each other, in all blocks in their order. Results do not depend on the number of threads.
//
// Where the program dies of an access outside of all arrays, or one that is not aligned, such accesses may pass: they are counted then,
// and fewer of them are better, as fewer wrong elements are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "grid.hpp"

namespace wmmadiag {

enum class ItemType : std::uint8_t { f16, bf16, f32, f64, s8, u8, s16, u16, s32, u32, s64, u64, e4m3, e5m2 };

// What an item of a judged array is, where it is no element: it must stay as it is, or may hold anything.
inline constexpr std::int32_t guard_item = -1, free_item = -2;

// An array argument: its storage, item by item.
struct JudgedArray {
    std::uint64_t base = 0;  // device address
    ItemType type{};
    std::vector<std::int32_t> element;  // per item: an index into Expected, or guard_item, or free_item
    bool poisoned = false;              // items that nobody has written hold `poison`
    std::uint64_t poison = 0;
};

namespace accepts {
inline constexpr std::uint8_t nan = 1, plus_infinity = 2, minus_infinity = 4, not_finite = 8;
}  // namespace accepts

// Per element, over all arrays. Right is: finite and at most `bound` from `value` (a negative bound: never), or what `accepted` says; NaN
// and `not_finite` not where it is the poison.
struct Expected {
    std::vector<double> value, bound;
    std::vector<std::uint8_t> accepted;
    std::vector<std::uint8_t> wrong;  // whether the program that is to be mended gets it wrong
    double scale = 1;                 // mean magnitude of the finite values, which `TrialResult::error` is told by
};

// One of the launches of a trial.
struct TrialStage {
    RunRequest request;          // program, spec, regions (their memory holds the initial bytes, and is not changed), patience
    std::uint64_t selector = 0;  // device address of the 32 bits that the program reads; 0: there is none
    std::vector<std::pair<std::uint64_t, std::uint64_t>> cleared;  // (device address, bytes) of what holds zeros when it begins
};

struct TrialSetup {
    // Launched one after the other. Regions at the same device address with the same memory are one; judged arrays are in some of the
    // first's.
    std::vector<TrialStage> stages;
    bool strays_pass = false;      // accesses that belong nowhere read zeros, or are lost, and are counted, in place of ending the run
    bool local_unaligned = false;  // what a compiler in haste leaves in local memory was in registers, which lie nowhere
    std::vector<JudgedArray> arrays;
    Expected expected;
};

enum class TrialEnd : std::uint8_t { finished, stopped, fault, budget, interrupted };

struct TrialResult {
    TrialEnd end = TrialEnd::finished;
    FaultKind fault = FaultKind::none;
    bool in_order = false;           // all blocks, in their order
    std::uint64_t wrong = 0;         // elements; of those looked at, when stopped
    std::uint64_t mended = 0;        // right, and not so in Expected::wrong
    std::uint64_t broken = 0;        // the other way
    std::uint64_t damaged = 0;       // guard items changed
    std::uint64_t strays = 0;        // accesses of lanes that belong nowhere, where they pass
    std::uint64_t fewer = 0;         // strays that the base has and this one has not, of the blocks that were looked at
    std::uint64_t more = 0;          // the other way
    std::int64_t first = -1;         // the lowest wrong element; -1: none
    std::uint64_t instructions = 0;  // warp instructions
    double error = 0;                // how far off the wrong elements are, from 0 to 1 each: |difference| / (|difference| + scale)
    std::uint64_t looked = 0;        // elements looked at
    std::uint64_t trace = 0;         // of all bytes that were looked at: two runs with the same one wrote the same
};

struct TrialLimits {
    std::uint64_t times = 4, slack = 1u << 14;  // warp instructions: so many times the base's, and so many more per block
    std::uint64_t budget = 0;                   // of all launches, where the base did not end
    unsigned looks = 1;                         // groups with wrong elements that must be no better before a value is given up; 0: it never is
};

// The run with selector 0.
struct TrialBase {
    TrialResult result;
    bool independent = false;                 // there is one launch, before which nothing is cleared, of several groups of blocks or of one block
    std::vector<std::uint64_t> instructions;  // per block, one launch after the other
    std::vector<std::uint64_t> strays;        // the same
    std::vector<std::uint8_t> wrong;          // per element; empty where it did not end
    std::vector<std::uint32_t> wrong_blocks;  // the first of each group that wrote a wrong element, or has strays: that with the fewest first
};

class Trials {
public:
    virtual ~Trials() = default;

    // `poll` is called about every 20 ms on the calling thread; false interrupts.
    virtual const TrialBase& base(std::uint64_t budget, const std::function<bool()>& poll) = 0;
    // Takes another's base: of a program for the same launch and memory. False when these differ.
    virtual bool adopt(const Trials& other) = 0;
    virtual std::vector<TrialResult> run(const std::vector<std::uint32_t>& selectors, const TrialLimits& limits, unsigned threads,
                                         const std::function<bool()>& poll) = 0;
};

// Throws std::invalid_argument when there is no launch, an array lies outside the regions, or the sizes do not agree.
std::unique_ptr<Trials> make_trials(TrialSetup setup);

}  // namespace wmmadiag
