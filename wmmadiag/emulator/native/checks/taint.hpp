// Which registers of a warp hold values that mean nothing: a mask of lanes per register, and for those lanes which bytes, and where the
// value came from.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "../warp.hpp"

namespace wmmadiag {

// Bytes of one lane's register (a predicate: bit 0), and the number of the read that brought them.
struct Taint {
    std::uint16_t bytes = 0;
    std::uint16_t origin = 0;

    Taint& operator|=(const Taint& other) {
        if (bytes == 0) origin = other.origin;
        bytes |= other.bytes;
        return *this;
    }
};

class RegisterTaint {
public:
    void start(std::uint32_t register_bytes) {
        slots_ = register_bytes / 4;
        if (!masks_) {
            masks_ = std::make_unique<Mask[]>(slots_);
            // Not zeroed: a cell is read after its lane was tainted, and so written, only. There are hundreds of kilobytes for each warp.
            cells_.reset(static_cast<Taint*>(std::malloc(std::size_t{slots_} * lanes * sizeof(Taint))));
            if (!cells_) throw std::bad_alloc();
        } else if (tainted_ != 0) {
            std::fill_n(masks_.get(), slots_, 0);
        }
        tainted_ = 0;
    }

    [[nodiscard]] bool clean() const { return tainted_ == 0; }
    [[nodiscard]] Mask mask(Operand slot) const { return is_constant(slot) ? 0 : masks_[slot / 4]; }
    [[nodiscard]] Taint get(Operand slot, unsigned lane) const {
        if (is_constant(slot) || (masks_[slot / 4] >> lane & 1) == 0) return {};
        return cells_[std::size_t{slot / 4} * lanes + lane];
    }
    void put(Operand slot, unsigned lane, Taint taint) {
        auto& mask = masks_[slot / 4];
        const auto before = mask;
        const Mask bit = Mask{1} << lane;
        mask = taint.bytes != 0 ? mask | bit : mask & ~bit;
        cells_[std::size_t{slot / 4} * lanes + lane] = taint;
        count(before, mask);
    }
    void clear(Operand slot, Mask which) {
        auto& mask = masks_[slot / 4];
        if ((mask & which) == 0) return;
        const auto before = mask;
        mask &= ~which;
        count(before, mask);
    }

private:
    struct Free {
        void operator()(Taint* p) const { std::free(p); }
    };
    static bool is_constant(Operand slot) { return (slot & constant_bit) != 0; }  // no operand, too
    void count(Mask before, Mask after) {
        if (before == 0 && after != 0) ++tainted_;
        if (before != 0 && after == 0) --tainted_;
    }

    std::uint32_t slots_ = 0;
    std::uint32_t tainted_ = 0;  // slots with a tainted lane
    std::unique_ptr<Mask[]> masks_;
    std::unique_ptr<Taint[], Free> cells_;
};

// Sets the registers of a fragment from the taint of each element of its matrix.
template <class F>
void scatter(RegisterTaint& registers, const FragmentMap& map, const std::vector<Operand>& slots, F&& taint_of) {
    const unsigned bytes = std::max(map.element_bits / 8u, 1u);
    for (unsigned r = 0; r < map.registers; ++r) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
            Taint taint;
            for (unsigned e = 0; e < map.elements; ++e) {
                const Taint part = taint_of(map.index[(std::size_t{r} * map.elements + e) * lanes + lane]);
                if (part.bytes == 0) continue;
                const unsigned first = map.element_bits < 8 ? 0 : e * bytes;
                taint |= Taint{static_cast<std::uint16_t>(((1u << bytes) - 1) << first), part.origin};
            }
            if (map.element_bits < 8 && taint.bytes != 0) taint.bytes = 0xffff;
            registers.put(slots[r], lane, taint);
        }
    }
}

// How taint goes through an instruction.
enum class Form : std::uint8_t {
    none,     // touches no register, or is handled where its memory is seen
    clean,    // the result is always known
    whole,    // any tainted operand taints the result
    moved,    // byte by byte, operands or-ed: mov, xor, not
    masked,   // and, or: a known byte of 0 (or ff) hides the other
    logical,  // and, or of predicates: a known false (or true) hides the other
    compare,  // setp and set, whose boolean operand may decide alone
    select,
    halves,  // packed pairs
    pair,    // two values into one packed pair
    shift_left,
    shift_right,
    extend,  // integer conversions: low bytes
    permute,
    pack,
    unpack,
    shuffle,
    members,  // exchanges between lanes: vote, match, redux, bar.red
    multiply,
    transpose,
    jump,
    jump_indexed,
};

struct TaintRule {
    Form form = Form::whole;
    std::uint8_t d_bytes = 4, s_bytes = 4;  // 0: a predicate
    bool is_or = false, is_signed = false;
};

// By program counter.
std::vector<TaintRule> taint_rules(const ProgramSource& source);

// Registers that may be read before anything wrote them, with the first instruction that does.
std::vector<std::pair<Operand, std::uint32_t>> unwritten_registers(const Program& program);

// What an instruction that touches no memory does to the taint of its warp's registers; after it ran.
void propagate(const WriteEvent& event, const TaintRule& rule, const ProgramSource& source, RegisterTaint& registers);

}  // namespace wmmadiag
