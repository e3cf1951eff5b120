// uninitialised: reads of shared, local and output memory that nothing wrote, followed to where their values arrive.
//
// Reported is where a value that means nothing reaches global memory, a branch or an address. `values` of each finding:
//   output: first and last address written and their number of bytes in the first block that did so; others: three zeros.
//   then the number of stretches of shared memory that nothing had written when it was read, and [begin, end) of each (at most
//   `most_stretches`), as offsets; then the number of instructions that had written shared memory, and of each: pc, lowest and
//   highest offset, bytes, bits of its warps.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <unordered_map>

#include "../access.hpp"
#include "../check.hpp"
#include "shadow.hpp"
#include "taint.hpp"

namespace wmmadiag {

inline constexpr std::size_t most_stretches = 256;
inline constexpr std::uint64_t page_bytes = 4096;

enum class TaintSink : std::uint8_t { output, branch, address };

// A read that found bytes without meaning, by instruction and space: how it was first seen in the last block that did it.
struct TaintOrigin {
    std::uint32_t block = no_pc;
    bool beside = false;  // of global or local memory, beside bytes that were written: the padding of a struct, as a rule
    RawFinding here;
};

// Where the values of an origin arrive.
struct TaintArrival {
    std::uint16_t origin = 0;
    std::uint32_t pc = 0;
    TaintSink sink = TaintSink::output;
    std::uint64_t count = 0;
    std::uint32_t block = no_pc;
    RawFinding read;
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bytes = 0;
};

struct SharedWriter {
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bytes = 0;
    Mask warps = 0;
};

struct TaintState {
    std::vector<RegisterTaint> warps;
    ShadowBits shared, local;
    std::vector<std::uint16_t> shared_origin, local_origin;  // of tainted bytes that were written; 0: never written
    bool origins_used = false;
    std::vector<std::pair<std::uint32_t, SharedWriter>> writers;                         // by pc, in order of the first write
    std::vector<std::uint16_t> writer_of;                                                // pc to position in `writers` + 1
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::array<Taint, lanes>> copies;  // (warp, pc): tainted cp.async in flight
};

class Uninitialised final : public Check {
public:
    explicit Uninitialised(const Shared& shared);

    void block_start(const Block& block) override;

    void block_end(const Block& block) override;

    [[nodiscard]] bool wants_instructions() const override { return true; }

    void executed(const WriteEvent& event) override;

    void skipped(const WriteEvent& event) override;

    void memory(const MemoryEvent& event) override;

    std::vector<RawFinding> findings() override;

private:
    struct Span {
        std::uint64_t low, high;
    };
    using Page = std::array<std::uint16_t, page_bytes>;

    std::unique_ptr<TaintState> take();

    TaintState& at(std::uint32_t block);

    [[nodiscard]] bool is(std::uint32_t pc, std::string_view one, std::string_view other = {}) const;

    // Origins

    std::uint16_t origin_at(std::uint32_t pc, Space space, bool beside);

    std::uint16_t register_origin(std::uint32_t block, std::uint32_t warp, std::uint32_t pc);

    // The number of a read of bytes that nothing wrote.
    std::uint16_t read_at(const MemoryEvent& event, const TaintState& state, Space space, std::uint64_t address, unsigned lane, bool beside = false);

    [[nodiscard]] std::vector<std::int64_t> stretches(const TaintState& state) const;

    // Arrivals

    std::uint16_t arrival_at(std::uint16_t origin, std::uint32_t pc, TaintSink sink);

    TaintArrival& arrived(std::uint16_t number, const Where& where);

    void arrive(const Where& where, const RegisterTaint& registers, Operand slot, Mask who, TaintSink sink);
    void arrive_by(const WriteEvent& event, const RegisterTaint& registers, Operand slot, Mask who);

    // Memory: the taint of `bytes` bytes at an address, and setting it

    [[nodiscard]] std::uint64_t local_at(const MemoryEvent& event, unsigned lane, std::uint64_t address) const;

    struct Found {
        std::uint32_t bytes;
        std::uint16_t origin;
    };

    // Of at most 32 bytes. Bytes that nothing wrote get this read's own number.
    Found peek(const MemoryEvent& event, const TaintState& state, Space space, unsigned lane, std::uint64_t address, unsigned bytes);

    Found peek_global(const MemoryEvent& event, const TaintState& state, unsigned lane, std::uint64_t address, unsigned bytes);

    // Whether nothing in a span of one space is tainted: then nobody looks at single lanes.
    [[nodiscard]] bool clean(const MemoryEvent& event, const TaintState& state, const Span& span) const;

    // `bits` of the `bytes` bytes (at most 32) become tainted, the others known.
    void poke(const MemoryEvent& event, TaintState& state, Space space, unsigned lane, std::uint64_t address, unsigned bytes, std::uint32_t bits,
              std::uint16_t origin);

    void poke_global(const MemoryEvent& event, unsigned lane, std::uint64_t address, unsigned bytes, std::uint32_t bits, std::uint16_t origin);

    void wrote(TaintState& state, const Where& where, const Span& span, std::uint64_t bytes);

    // Everything that the lanes touch becomes known.
    void known(const MemoryEvent& event, TaintState& state, const Span& span);

    // Pieces of at most 32 bytes of what each lane (or line of a fragment) touches: f(lane, address, bytes, offset in the lane's bytes).
    template <class F>
    static void each_piece(const MemoryEvent& event, F&& f) {
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            for (unsigned done = 0; done < event.bytes; done += 32) f(lane, event.addresses[lane] + done, std::min(32u, event.bytes - done), done);
        }
    }

    // Loads and stores

    void load(const MemoryEvent& event, TaintState& state, const Span& span);

    void load_fragment(const MemoryEvent& event, TaintState& state);

    void load_matrices(const MemoryEvent& event, TaintState& state);

    void store(const MemoryEvent& event, TaintState& state, const Span& span);

    void store_fragment(const MemoryEvent& event, TaintState& state, const Span& span);

    void atomic(const MemoryEvent& event, TaintState& state, const Span& span);

    void copy_begins(const MemoryEvent& event, TaintState& state, const Span& span);

    void copy_lands(const MemoryEvent& event, TaintState& state, const Span& span);

    const Shared& shared_;
    const ProgramSource& source_;
    const Inst* code_;
    std::vector<TaintRule> rules_;
    std::vector<std::pair<Operand, std::uint32_t>> unwritten_;
    std::unordered_map<std::uint32_t, std::unique_ptr<TaintState>> states_;
    std::vector<std::unique_ptr<TaintState>> spare_;
    TaintState* current_ = nullptr;
    std::uint32_t current_block_ = 0;
    std::vector<TaintOrigin> origins_;
    std::unordered_map<std::uint32_t, std::uint16_t> origin_of_;
    std::vector<TaintArrival> arrivals_;
    std::unordered_map<std::uint64_t, std::uint16_t> arrival_of_;
    std::map<std::uint64_t, std::unique_ptr<Page>> pages_;  // of global memory that got tainted bytes: the arrival of each
};

}  // namespace wmmadiag
