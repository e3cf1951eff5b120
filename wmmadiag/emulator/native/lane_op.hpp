// Lane operations: PTX instructions that compute each lane's result from the same lane's operands, with no memory.
//
// A lane operation is a pure function on arrays of 32 values. It must write no lane outside `active`, must not fault on any
// input (integer division by zero included), must not depend on the compiler's floating-point contraction, and must give the
// same bits on every CPU and in every build (baseline, AVX2, AVX-512, aarch64).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "modifiers.hpp"

namespace wmmadiag {

inline constexpr unsigned lanes = 32;
using Mask = std::uint32_t;  // bit l: lane l
inline constexpr Mask all_lanes = 0xffffffffu;

// Operands point at register storage, 64-byte aligned:
//   8-bit registers (b8)    uint16_t[32], low 8 bits valid (PTX has no 8-bit ALU operations; cvt reads and writes them)
//   16-bit                  uint16_t[32]
//   32-bit                  uint32_t[32]
//   64-bit                  uint64_t[32]
//   128-bit                 {uint64_t lo, hi}[32]
//   predicates              one Mask
// Immediates and special registers are broadcast to the same form before execution. Destination and sources may be the same array,
// but never overlap otherwise. Views as int32_t, float, ... go through std::bit_cast or memcpy, never through a type pun that
// breaks aliasing (the engine is built with -fno-strict-aliasing all the same).
struct LaneArgs {
    Mask active;
    Modifiers modifiers;
    void* d;           // destination
    void* d2;          // second destination (setp's q, the carry flag), or nullptr
    const void* s[4];  // sources a, b, c, d; nullptr where absent
};

using LaneFunction = void (*)(const LaneArgs&);

struct LaneOp {
    std::string_view name;  // canonical: opcode and what selects the semantics, then types: "add.f32", "mul.wide.s16", "cvt.f16.f32", "setp.u64"
    LaneFunction (*select)(Modifiers);  // the function for these modifiers: lets an operation have a fast path for plain ones
};

// One table per file in lane_ops/.
std::span<const LaneOp> integer_ops();
std::span<const LaneOp> logic_ops();
std::span<const LaneOp> compare_ops();
std::span<const LaneOp> float_ops();
std::span<const LaneOp> half_ops();
std::span<const LaneOp> convert_ops();
std::span<const LaneOp> approximate_ops();

// All of them, sorted by name.
std::span<const LaneOp> lane_ops();

// nullptr if there is no such operation.
const LaneOp* find_lane_op(std::string_view name);

}  // namespace wmmadiag
