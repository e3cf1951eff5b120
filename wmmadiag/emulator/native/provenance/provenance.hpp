// Where values come from: tags that travel with every value of a run. See tag.hpp, matrices.hpp and docs in wmmadiag/provenance.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "../access.hpp"
#include "../check.hpp"
#include "matrices.hpp"
#include "samples.hpp"
#include "tag.hpp"

namespace wmmadiag::provenance {

// How an instruction moves tags.
enum class Rule : std::uint8_t {
    ignore,       // writes no register that can hold an element
    clear,        // writes something of no matrix
    copy,         // granule by granule
    integer,      // integer to integer: the low granules, zeros above
    lanes,        // one value per lane, of all sources
    halves,       // packed 16-bit values
    pack_halves,  // cvt.f16x2.f32
    select,
    shift_left,
    shift_right,
    mask,
    permute,
    shuffle,
    reduce,
    pack,
    unpack,
    load,
    store,
    atomic,
    copy_async,
    load_fragment,
    store_fragment,
    load_matrices,
    store_matrices,
    transpose_matrix,
    multiply,
};

enum class Arithmetic : std::uint8_t { add, subtract, multiply, fused, negate, extremum, other };

// Where one matrix of a tensor operation lies in the shadow: granule of the first byte of each dense position, relative to the warp's
// register shadow; `no_granule` for a constant.
inline constexpr std::uint32_t no_granule = 0xffffffffu;

// Elements that follow each other in registers (a load's or a store's) or in the dense matrix, and lie `step` apart in one line elsewhere.
struct Run {
    std::uint32_t to, from, count, step;
};

// What a fragment's registers hold where its lines follow each other in a matrix: for every granule, register by register, how far its
// element's row and column are from the first's; lines being rows, and being columns.
struct Ramp {
    std::vector<Tag> offsets[2];
    std::size_t granules = 0;             // of a register, all lanes together
    std::uint32_t first = 0, second = 0;  // dense positions of the first element and of the next one in its line
};

struct Gather {
    std::vector<std::uint32_t> granule;                            // [line * width + position]
    std::vector<std::pair<std::uint32_t, std::uint32_t>> scatter;  // (granule, dense position) of every element held
    // Of a load or store: memory line of each dense position in the high half, granules from its begin in the low half.
    std::vector<std::uint32_t> place;
    // Of a load or store: granules and the places they come from or go to; otherwise dense positions and the granules they come from. Empty:
    // too short to be worth it.
    std::vector<Run> runs;
    std::vector<Operand> slots;
    unsigned lines = 0, width = 0, bits = 0, granules = 0;  // granules per element; 0: not followed
    const Ramp* ramp = nullptr;                             // of a multiplication; nullptr: elements do not fill the registers
};

// One tag for each lane.
struct LaneTags {
    alignas(64) Tag of[lanes];
};

// How two tags combine: bits that are set, and what is kept of either. What is decided for one pair holds for every pair of the same
// matrices and flags whose rows and whose columns agree or differ in the same way, if `everywhere`.
struct Blend {
    Tag set = none, keep_a = none, keep_b = none;
    bool everywhere = true;
    bool wrong = false;  // a row's statistic meets another row

    static constexpr Blend error() { return {none, none, none, false, true}; }
    constexpr Tag operator()(Tag a, Tag b) const { return set | (a & keep_a) | (b & keep_b); }
};

struct Plan {
    Rule rule = Rule::ignore;
    Arithmetic arithmetic = Arithmetic::other;
    std::uint8_t wide_source = 0xff;           // a source as wide as the destination: the addend of mad.wide, add.f32.f16, ...
    std::uint8_t width = 4, source_width = 4;  // bytes per lane of destination and sources
    bool floating = false;                     // values of f16 or f32, by width
    bool arithmetic_shift = false;
    std::unique_ptr<std::array<Gather, 4>> gather;  // a, b, c, d; a load or store: d
};

struct AsyncTags {
    std::uint32_t pc;
    Mask left;
    unsigned granules;
    std::vector<Tag> tags;  // [lane][granule]
};

struct WarpShadow {
    std::vector<Tag> tags;              // of the register file
    std::vector<std::uint8_t> tagged;   // per 64 bytes: 0: all tags here are none, whatever `tags` says
    std::vector<std::uint32_t> writer;  // per 64 bytes: the instruction that wrote tags here last
    std::vector<Tag> local;
    std::deque<AsyncTags> copies;
    std::unordered_map<Tag, Tag> last_sum;  // per first element of a multiplication's tile: how far its sum had come last
};

struct BlockShadow {
    std::vector<WarpShadow> warps;
    std::vector<Tag> shared;
};

struct Region {
    std::uint64_t base, bytes;
    Tag* tags;
};

struct Access {
    Where where;
    Space space;
    AccessKind kind;
    Mask active;
    std::uint32_t bytes;
    std::uint64_t addresses[lanes];
};

enum class Kind : std::uint8_t {
    unwritten,    // 0: read of memory that nothing wrote
    operand_a,    // 1: a row of A is not one row or column of one matrix
    operand_b,    // 2: likewise, a column of B
    contraction,  // 3: A's and B's indices along k differ
    accumulator,  // 4: the accumulator holds another element
    statistic,    // 5: a row's statistic used on another row
};

struct Record {
    Kind kind{};
    std::uint32_t pc = no_pc, a_pc = no_pc, b_pc = no_pc;
    std::uint64_t count = 0;
    std::uint32_t block = 0, warp = 0, line = 0, column = 0, k = 0;
    std::uint32_t lane = 0;  // of an access; of a contraction: axis of A that runs along k, and of B in bit 1
    Space space = Space::generic;
    std::uint64_t address = 0;
    Tag first = none, second = none;
};

// What happened to sums or fragments at a place without making a value wrong by itself.
enum class EventKind : std::uint8_t { overwritten, restarted, stride, foreign_sum };

struct Use {
    std::uint64_t count = 0;
    std::uint32_t rows[2]{~0u, 0}, columns[2]{~0u, 0}, ks[2]{~0u, 0};
    std::uint32_t a_pc = no_pc, b_pc = no_pc;
    bool swapped = false;
};

class Provenance final : public Check {
public:
    explicit Provenance(const Shared& shared);

    void block_start(const Block& block) override;
    void block_end(const Block& block) override;
    void memory(const MemoryEvent& event) override;
    void tensor(const TensorEvent& event) override;
    void meet(const Where& where, Mask here, Mask members) override;
    void executed(const WriteEvent& event) override;
    [[nodiscard]] bool wants_instructions() const override { return true; }
    [[nodiscard]] std::vector<RawFinding> findings() override;
    // Tags of a register of a block that runs: lane after lane, granule after granule. Empty where nothing is known of it.
    [[nodiscard]] std::vector<Tag> register_tags(std::uint32_t block, std::uint32_t warp, Operand slot, unsigned width) const;

private:
    // plan.cpp
    void make_plans();
    Gather make_gather(std::uint32_t map, const std::vector<Operand>& slots) const;

    const Ramp* make_ramp(std::uint32_t map, const std::vector<std::uint16_t>& order, bool of_lines);

    // provenance.cpp: shadow access
    Tag* registers(Operand slot) { return (slot & constant_bit) != 0 ? nullptr : warp_->tags.data() + (slot >> shift_); }
    const Tag* read(Operand slot);                          // nullptr: none in all lanes
    Tag* write(Operand slot, unsigned width, Mask active);  // lanes outside `active` keep theirs
    void clear(Operand slot, unsigned width, Mask active);
    void materialise(Operand slot, unsigned width);
    Tag* at(Space space, std::uint64_t address, unsigned lane);
    void locate(const Access& access, Tag* (&to)[lanes]);  // for each active lane, `at`
    std::uint32_t granules(unsigned bytes) const { return std::max(1u, bytes >> shift_); }
    std::uint32_t record(Kind kind, std::uint32_t pc, std::uint32_t a_pc, std::uint32_t b_pc, Tag first, Tag second, std::uint32_t line = 0,
                         std::uint32_t column = 0, std::uint32_t k = 0);
    void note(EventKind kind, std::uint32_t pc, std::uint32_t matrix, std::int64_t a, std::int64_t b, Tag first);
    Tag loaded(Tag tag, Space space, std::uint64_t address, unsigned lane) { return tag == unwritten ? read_unwritten(space, address, lane) : tag; }
    Tag read_unwritten(Space space, std::uint64_t address, unsigned lane);
    void stored(Tag& to, Tag tag) {
        if (((to ^ tag) & matrix_mask) != 0 && is_element(to) && is_element(tag)) replaced(to, tag);
        to = tag;
    }
    void replaced(Tag to, Tag tag);
    bool includes(std::uint32_t a, std::uint32_t b);

    // lanes.cpp
    Tag combine(Tag a, Tag b, Arithmetic how);
    Tag combine_slow(Tag a, Tag b, Arithmetic how);
    Blend blend(Tag a, Tag b, Arithmetic how);
    bool combine_lanes(LaneTags& a, const LaneTags& b, Arithmetic how);
    bool lane_rule_together(const Inst& inst, const Tag* const (&s)[3], Tag* d);
    Tag masked(Tag tag, const void* d, unsigned lane) const;
    Tag settled(Tag result, Tag a, Tag b, const Inst& inst, unsigned lane) const;
    Tag extremum(Tag a, Tag b, const Inst& inst, unsigned lane) const;
    Tag of_lane(const Tag* tags, unsigned lane, unsigned width) const;
    void lane_rule(const Inst& inst, Mask active);
    void half_rule(const Inst& inst, Mask active);
    void bit_rule(const Inst& inst, Mask active);
    void select_rule(const Inst& inst, Mask active);
    void shuffle_rule(const Inst& inst, Mask active);
    void reduce_rule(const Inst& inst, Mask active);

    // moves.cpp
    void pack_rule(const Inst& inst, Mask active);
    void load_rule(const Inst& inst);
    void store_rule(const Inst& inst);
    void atomic_rule(const Inst& inst);
    void async_rule(const Inst& inst, Mask active);
    void async_landed(const MemoryEvent& event);
    void fragment_rule(const Inst& inst, bool store);
    void fit_stride(const Access& access, const std::array<Tag*, lanes>& line, const Gather& gather, bool along);
    bool load_runs(const Gather& gather, const std::array<Tag*, lanes>& line);
    bool store_runs(const Gather& gather, const std::array<Tag*, lanes>& line, unsigned lines, unsigned width);
    bool load_row(const Inst& inst, const Tag* from, unsigned count);
    bool store_row(Tag* const (&cells)[lanes], const Tag* from, unsigned own);
    bool quiet(Tag to, Tag tag);
    void matrices_rule(const Inst& inst, bool store);
    void transpose_rule(const Inst& inst);

    // samples.cpp
    bool sampled(Tag tag) const;
    bool complete(std::uint32_t m) const;
    void sample_dense(std::uint32_t pc, Role role, Element type, const void* values, std::size_t first, const Tag* tags, std::size_t count);
    void sample_multiplication(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, const Tag* d);
    void sample_register(const std::byte* bits, const Tag* tags, unsigned part);

    // multiply.cpp
    struct Line;
    bool multiply_uniform(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, Tag* d);
    void multiply_general(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, Tag* d);
    void analyse(const Tag* tags, unsigned lines, unsigned k, std::vector<Line>& to) const;
    Tag accumulate(Tag c, std::uint32_t product, std::uint32_t slice, Tag position, bool correction, unsigned line, unsigned column, bool zero);
    void use(std::uint32_t product, bool swapped, std::uint32_t row0, std::uint32_t row1, std::uint32_t column0, std::uint32_t column1,
             std::uint32_t k0, std::uint32_t k1);
    void restarted(Tag now, bool fresh);

    // multiply_ramps.cpp
    struct Ramped;
    bool holds(const Gather& gather, unsigned orientation, Tag first) const;
    bool ramped(const Gather& gather, Ramped& to);
    bool multiply_ramps(const TensorEvent& event);
    bool samples_wanted(const Ramped& left, const Ramped& right, std::uint32_t made);

    const Shared& shared_;
    unsigned shift_ = 1;
    std::vector<Plan> plans_;
    std::map<std::tuple<std::uint32_t, std::vector<std::uint16_t>, bool>, Ramp> ramps_;  // of a map, in an order of columns
    std::vector<Region> regions_;
    const Region* last_region_ = nullptr;
    std::vector<std::array<std::uint32_t, 2>> extents_;  // rows and columns of each argument matrix
    Samples samples_;
    Matrices matrices_;
    std::map<std::uint32_t, std::unique_ptr<BlockShadow>> blocks_;
    std::vector<std::unique_ptr<BlockShadow>> spare_;
    std::uint32_t block_index_ = ~0u;
    BlockShadow* block_ = nullptr;
    WarpShadow* warp_ = nullptr;
    const Warp* now_ = nullptr;
    Where where_{};
    std::vector<Access> pending_;
    Mask met_ = 0;  // lanes that exchange values in the running instruction; others of its group still wait
    std::vector<Record> records_;
    std::map<std::array<std::uint32_t, 4>, std::uint32_t> record_index_;
    struct Event {
        std::uint64_t count = 0;
        Where where{};
        Tag first = none;
    };
    std::map<std::tuple<EventKind, std::uint32_t, std::uint32_t, std::int64_t, std::int64_t>, Event> events_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, Use> uses_;
    std::map<std::uint32_t, std::uint64_t> unexplained_;  // multiplications some of whose operands are not followed: elements
    std::vector<Tag> dense_[4];
    std::uint32_t a_pc_ = no_pc, b_pc_ = no_pc;
    std::uint32_t included_[2]{~0u, ~0u};
    bool included_result_ = false;
};

}  // namespace wmmadiag::provenance
