// What can be seen of a run. Nothing here costs anything while nobody listens: the interpreter asks once per memory, barrier or
// tensor-core instruction whether there is an observer, and register writes are seen by a separate loop.
#pragma once

#include <cstdint>

#include "lane_op.hpp"
#include "program.hpp"

namespace wmmadiag {

class Block;

struct Where {
    std::uint32_t block;  // linear index in the grid
    std::uint32_t warp;   // in the block
    std::uint32_t pc;
};

enum class AccessKind : std::uint8_t { load, store, atomic, async_load, async_store };

// `addresses`: 32 of them, those of lanes in `active` valid; a global address, or an offset in shared or local memory.
// Each lane touches `bytes` bytes.
struct MemoryEvent {
    Where where;
    Space space;
    AccessKind kind;
    Mask active;
    std::uint32_t bytes;
    const std::uint64_t* addresses;
};

// Operands and result as dense matrices, see tensor_core.hpp; their columns are in `op->column_order`.
struct TensorEvent {
    Where where;
    const TensorOp* op;
    const void *a, *b, *c, *d;
};

enum class BarrierKind : std::uint8_t { arrive, wait, release, warp };

struct BarrierEvent {
    Where where;
    BarrierKind kind;
    std::uint32_t barrier;
    Mask active;
};

// cp.async: issued, its group closed, waited for, or tied to an mbarrier.
enum class AsyncKind : std::uint8_t { issue, commit, wait, arrive };

struct AsyncEvent {
    Where where;
    AsyncKind kind;
    Mask active;
    std::uint32_t bytes;                // issue: that each lane copies
    const std::uint32_t* destinations;  // issue: 32 offsets in shared memory
    const std::uint32_t* groups;        // issue: the lane's group. wait: groups below it have landed (arrive: all have)
    std::int64_t pending;               // wait: groups that may stay in flight; -1: none, not even uncommitted ones
};

// mbarrier.*, after it was carried out, lane by lane in their order.
enum class MbarrierKind : std::uint8_t { init, inval, arrive, expect, wait };  // expect: of bytes, and no arrival

struct MbarrierEvent {
    Where where;
    MbarrierKind kind;
    Space space;
    Mask active;
    const std::uint64_t* addresses;  // 32
    Mask done;                       // wait: lanes that saw the phase completed. arrive: lanes whose arrival completed it
};

struct WriteEvent {
    Where where;
    Mask active;
    const Inst* inst;
    const Warp* warp;
    Mask running;  // lanes at this pc, before the guard
};

class Observer {
public:
    virtual ~Observer() = default;
    // A block begins: its registers and memory hold their poison. And it has ended, every thread having exited.
    virtual void block_start(const Block&) {}
    virtual void block_end(const Block&) {}
    virtual void memory(const MemoryEvent&) {}
    virtual void tensor(const TensorEvent&) {}
    virtual void barrier(const BarrierEvent&) {}
    virtual void async(const AsyncEvent&) {}
    virtual void mbarrier(const MbarrierEvent&) {}
    virtual void fence(const Where&, Mask) {}  // membar, fence
    // shfl, vote, match, redux, elect: `here` have come together, naming `members`. Orders no memory.
    virtual void meet(const Where&, [[maybe_unused]] Mask here, [[maybe_unused]] Mask members) {}
    virtual void left(const Where&, Mask) {}  // these lanes exited
    virtual void executed(const WriteEvent&) {}
    // Before an instruction runs that `executed` shows afterwards.
    virtual void executing(const WriteEvent&) {}
    [[nodiscard]] virtual bool wants_operands() const { return false; }
    [[nodiscard]] virtual bool wants_operands_of([[maybe_unused]] std::uint32_t pc) const { return wants_operands(); }
    // An instruction whose guard held in no lane; `active` is 0.
    virtual void skipped(const WriteEvent&) {}
    // Whether `executed` and `skipped` are wanted: each instruction, after it ran.
    [[nodiscard]] virtual bool wants_instructions() const { return false; }
    [[nodiscard]] virtual bool wants_result_of([[maybe_unused]] std::uint32_t pc) const { return wants_instructions(); }
};

}  // namespace wmmadiag
