// The decoded program: what lower.py hands over, and what the interpreter executes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lane_op.hpp"
#include "tensor_core.hpp"

namespace wmmadiag {

// Throws std::invalid_argument: a program that cannot be.
[[noreturn]] void refuse(const std::string& what);

class Warp;
struct Inst;

// Byte offset into the warp's register file, or into the program's constants when `constant_bit` is set.
using Operand = std::uint32_t;
inline constexpr Operand constant_bit = 0x80000000u;
inline constexpr Operand no_operand = 0xffffffffu;

enum class Space : std::uint8_t { generic, global, shared, local };

// How execution goes on after an instruction.
enum class Flow : std::uint8_t {
    next,   // at pc + 1
    jump,   // the handler set pc, or split or blocked the running group
    yield,  // at pc + 1, but other warps should have a turn first: this one polls
    fault,  // the run ends; Warp::fault is set
};

using Execute = Flow (*)(Warp&, const Inst&, Mask active);

// One instruction as lower.py writes it (a NumPy structured array with these fields, in this order).
struct RawInst {
    std::uint32_t op;         // index into ProgramSource::operations
    std::uint32_t modifiers;  // Modifiers::word
    Operand guard;            // predicate, never absent: unguarded instructions name a constant all-ones mask
    std::uint32_t guard_invert;
    Operand d, d2;
    Operand s[4];
    std::uint32_t target;                              // branch target, or index of the tensor operation
    std::uint32_t extra;                               // index into ProgramSource::extra
    std::uint8_t space, bytes, register_bytes, count;  // of a memory access: bytes and count of elements per lane
    std::uint32_t flags;                               // per operation, see the Flag constants
    std::int64_t immediate;                            // address offset, ...
};
static_assert(sizeof(RawInst) == 64);

namespace flag {
inline constexpr std::uint32_t sign_extend = 1u << 0;  // ld of a signed type into a wider register
inline constexpr std::uint32_t address32 = 1u << 1;    // the address register has 32 bits
inline constexpr std::uint32_t transposed = 1u << 3;   // ldmatrix .trans; wmma.load and store across the dense lines

inline constexpr std::uint32_t whole_ldm = 1u << 5;     // wmma.load and store: see wmmadiag/fragments/memory_access.py
inline constexpr std::uint32_t strong = 1u << 8;        // ld, st: volatile, relaxed, acquire, release or mmio: not a plain access
inline constexpr std::uint32_t acquire = 1u << 9;       // ld, atom, fence
inline constexpr std::uint32_t release = 1u << 10;      // st, atom, fence
inline constexpr std::uint32_t read_only = 1u << 11;    // ld.global.nc: nobody writes there during the launch
inline constexpr std::uint32_t block_scope = 1u << 12;  // a strong access or a fence that counts within its block only
inline constexpr std::uint32_t unseen = 1u << 13;       // atom: nothing reads its result, it is a reduction
inline constexpr std::uint32_t wide_state = 1u << 7;    // mbarrier: has a state operand
inline constexpr unsigned code_shift = 16;              // an enum of the operation: AtomicOp, ShuffleMode, ...
}  // namespace flag

// Where one matrix's elements lie in the lanes' registers, from wmmadiag.fragments. The matrix is kept dense, line after line: rows of
// A, C and D, columns of B, elements packed as in registers (tensor_core.hpp).
struct FragmentMap {
    std::uint16_t lines = 0, width = 0;
    std::uint8_t registers = 0;       // per lane
    std::uint8_t elements = 0;        // per register: 1, 2 (f16), 4 (s8), 8 (s4), 32 (b1)
    std::uint8_t element_bits = 0;    // 1, 4, 8, 16, 32, 64
    std::uint8_t register_bytes = 0;  // 4 or 8
    std::vector<std::int16_t> index;  // [register][element][lane]: line * width + position in the line

    // Derived by `prepare`. Where a register is a whole word of the dense matrix: [register][lane] of those words.
    std::vector<std::uint16_t> words;
    // How the words of each four lanes from a multiple of four lie. quads: they follow each other. pairs: they alternate with those of
    // the next register, which are each the word after; both numbers of such a pair have the same pieces.
    enum class Order : std::uint8_t { elements, words, pairs, quads } order = Order::elements;
    struct Piece {
        std::uint16_t line, byte;  // where the four words begin (pairs: the eight)
        std::uint16_t dense;       // the same, in bytes from the dense matrix's begin
    };
    std::vector<Piece> pieces;  // of pairs and quads: [register][lane / 4]
    // Quads of 16 bytes; those of each register begin at the same byte of eight lines from a multiple of eight, in this order.
    bool squares = false;
    std::array<std::uint8_t, 8> square_order{};
    [[nodiscard]] bool plain_squares() const { return squares && square_order == std::array<std::uint8_t, 8>{0, 1, 2, 3, 4, 5, 6, 7}; }

    std::vector<std::uint8_t> original;  // of each register, the first that holds the same elements
    std::vector<std::uint8_t> next;      // and the next one that does; `registers` where there is none

    // Where all pieces are such: a piece of each of eight lines that follow each other, from the same byte. quads: of a register, and of
    // another that holds the same, or the same one. pairs: of two registers.
    struct Stack {
        std::uint16_t line, byte;
        std::uint8_t first, second;
    };
    std::vector<Stack> stacks;

    // Throws std::invalid_argument when the sizes do not agree.
    void prepare();
    void find_stacks();

    // Of registers `slots`, those that hold the matrix's squares, [line / 8][16 bytes of a line]; none where some square is missing.
    [[nodiscard]] std::vector<Operand> squares_in(const std::vector<Operand>& slots) const;
};

struct TensorOp {
    MmaRule rule{};
    MmaFunction function = nullptr;
    std::uint32_t a_map = 0, b_map = 0, c_map = 0, d_map = 0;  // indices into ProgramSource::maps
    std::vector<Operand> a, b, c, d;                           // registers; a load or store uses d alone
    // Position of column j among the lines of B and in the lines of C and D; empty: j. Outputs do not depend on each other, so an order
    // that keeps lanes' registers together is free.
    std::vector<std::uint16_t> column_order;
    std::uint8_t tiles = 1;  // independent matrices that follow each other (mma.m8n8k4 f16: 4)
    // Derived: where all maps are squares and the rule has a function for those, it, and the registers in its order, zeros behind them.
    using Places = std::array<Operand, squares_limit>;
    MmaSquares squares = nullptr;
    Places a_places{}, b_places{}, c_places{}, d_places{};
    bool in_registers = true;  // none of them is a constant
    BLines b_lines = plain_b_lines;
};

// What an operation in lanes needs, watched or not, comes first, in one cache line.
struct alignas(64) Inst {
    Execute execute;
    Execute unwatched;  // the same for a block without an observer: in fewer steps where there is a way
    LaneFunction lane;
    Modifiers modifiers;
    Operand guard;
    Mask guard_invert;
    std::uint32_t run;  // so many instructions from here on are Program::steps, without a guard
    Operand d, d2;
    Operand s[4];
    const std::uint32_t* extra;
    const TensorOp* tensor;  // of mma, wmma.load and store
    std::int64_t immediate;
    std::uint32_t target;
    std::uint32_t flags;
    std::uint32_t code;  // flags >> code_shift
    Space space;
    std::uint8_t bytes, register_bytes, count;
    bool always;  // runs even when no lane's guard holds (branches)
};

// An operation in lanes with up to three sources, in as few bytes as it takes: many follow each other.
struct LaneStep {
    LaneFunction lane;
    Modifiers modifiers;
    Operand d, s[3];  // as in Inst, but `absent` for no_operand

    static constexpr Operand absent = 3u << 30;  // of the two bits that choose a base: see Warp::run_steps
};
static_assert(sizeof(LaneStep) == 32);

// How a register slot is filled when a warp starts.
enum class Preset : std::uint8_t {
    tid_x,
    tid_y,
    tid_z,
    ctaid_x,
    ctaid_y,
    ctaid_z,
    ntid_x,
    ntid_y,
    ntid_z,
    nctaid_x,
    nctaid_y,
    nctaid_z,
    laneid,
    warpid,
    nwarpid,
    smid,
    nsmid,
    gridid,
    lanemask_eq,
    lanemask_lt,
    lanemask_le,
    lanemask_gt,
    lanemask_ge,
    dynamic_smem_size,
    total_smem_size,
    zero,
    // Of the cluster of blocks: where the block stands in it, how large it is, where it stands in the grid, and how many there are.
    cluster_ctaid_x,
    cluster_ctaid_y,
    cluster_ctaid_z,
    cluster_nctaid_x,
    cluster_nctaid_y,
    cluster_nctaid_z,
    clusterid_x,
    clusterid_y,
    clusterid_z,
    nclusterid_x,
    nclusterid_y,
    nclusterid_z,
    cluster_ctarank,
    cluster_nctarank,
    shared_stride,    // bytes from one block's shared memory to the next one's
    cluster_barrier,  // address in shared memory of the mbarrier that all threads of the cluster arrive at
    last = cluster_barrier,
};

struct PresetSlot {
    Preset preset;
    Operand slot;
    std::uint8_t bytes;  // of the register: 2, 4, 8
};

struct ProgramSource {
    std::vector<std::string> operations;
    std::vector<RawInst> code;
    std::vector<std::uint32_t> extra;
    std::vector<std::byte> constants;  // broadcast to 32 lanes
    std::vector<PresetSlot> presets;
    std::vector<FragmentMap> maps;
    std::vector<TensorOp> tensor;
    std::uint32_t register_bytes = 0;  // per warp
    std::uint32_t local_bytes = 0;     // per lane
};

class Program {
public:
    // Throws std::invalid_argument naming the instruction when the source is inconsistent: every operand, target and index is
    // checked here, so that the interpreter need not.
    explicit Program(ProgramSource source);

    [[nodiscard]] std::span<const Inst> code() const { return code_; }
    [[nodiscard]] const LaneStep* steps() const { return steps_.data(); }  // by pc, where Inst::run is not 0
    [[nodiscard]] const std::byte* constants() const { return constants_.get(); }
    [[nodiscard]] const ProgramSource& source() const { return source_; }

private:
    struct Free {
        void operator()(std::byte* p) const;
    };
    void check(const RawInst& raw, std::size_t index) const;
    void find_steps();

    ProgramSource source_;
    std::vector<Inst> code_;
    std::vector<LaneStep> steps_;
    std::unique_ptr<std::byte, Free> constants_;
};

struct Operation {
    std::string_view name;
    Execute execute;
    bool always = false;
    Execute (*unwatched)(const Inst&, const ProgramSource&) = nullptr;  // chooses Inst::unwatched; nullptr: it is `execute`
};

// One table per execute_*.cpp.
std::span<const Operation> control_operations();
std::span<const Operation> memory_operations();
std::span<const Operation> atomic_operations();
std::span<const Operation> async_operations();
std::span<const Operation> warp_operations();
std::span<const Operation> tensor_operations();

const Operation* find_operation(std::string_view name);

}  // namespace wmmadiag
