// How taint goes through an instruction that touches no memory.
#include "taint.hpp"

#include <algorithm>
#include <array>

#include "../lane_exchange.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint16_t every_byte = 0xffff;

std::uint16_t low_bytes(unsigned count) { return static_cast<std::uint16_t>((1u << std::max(count, 1u)) - 1); }

class Propagation {
public:
    Propagation(const WriteEvent& event, const TaintRule& rule, const ProgramSource& source, RegisterTaint& registers)
        : event_(event), inst_(*event.inst), rule_(rule), source_(source), registers_(registers), active_(event.active) {}

    void run() {
        switch (rule_.form) {
            case Form::none:
            case Form::jump:
            case Form::jump_indexed: return;
            case Form::clean: clear(inst_.d, active_), clear(inst_.d2, active_); return;
            case Form::pack: pack(); break;
            case Form::unpack: unpack(); break;
            case Form::shuffle: shuffle(); break;
            case Form::members: members(); break;
            case Form::multiply: multiply(); return;
            case Form::transpose: transpose(); return;
            default: lanes_alone(); break;
        }
        guard();
    }

private:
    template <class T>
    [[nodiscard]] const T* value(Operand slot) const {
        return event_.warp->at<T>(slot);
    }
    void clear(Operand slot, Mask which) {
        if ((slot & constant_bit) == 0) registers_.clear(slot, which);
    }
    void put(Operand slot, unsigned lane, Taint taint) {
        if ((slot & constant_bit) == 0) registers_.put(slot, lane, taint);
    }
    [[nodiscard]] Mask sources() const {
        Mask m = 0;
        for (const auto s : inst_.s) m |= registers_.mask(s);
        return m;
    }
    [[nodiscard]] std::uint64_t word(unsigned source, unsigned lane) const { return word_of(inst_.s[source], lane, rule_.s_bytes); }
    [[nodiscard]] std::uint64_t word_of(Operand slot, unsigned lane, unsigned bytes) const {
        std::uint64_t w = 0;
        std::memcpy(&w, value<std::byte>(slot) + std::size_t{lane} * std::max(bytes, 1u), std::min(bytes, 8u));
        return w;
    }
    [[nodiscard]] Taint whole(Taint taint, unsigned bytes) const { return {taint.bytes != 0 ? low_bytes(bytes) : std::uint16_t{0}, taint.origin}; }
    [[nodiscard]] Taint of(unsigned source, unsigned lane) const { return registers_.get(inst_.s[source], lane); }

    // A predicate as a shuffled lane's decision taints what it guards.
    void guard() {
        const Mask m = registers_.mask(inst_.guard) & event_.running;
        for (Mask left = m; left != 0; left &= left - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(left));
            const auto decided = registers_.get(inst_.guard, lane);
            for (const auto d : {inst_.d, inst_.d2})
                if ((d & constant_bit) == 0 && d != inst_.guard) put(d, lane, {every_byte, decided.origin});
        }
    }

    // The second destination gets what the first gets; operations with two are few.
    void lanes_alone() {
        const Mask dirty = sources() & active_;
        clear(inst_.d, active_ & ~dirty);
        clear(inst_.d2, active_ & ~dirty);
        for (Mask left = dirty; left != 0; left &= left - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(left));
            const Taint taint = result(lane);
            put(inst_.d, lane, taint);
            put(inst_.d2, lane, taint);
        }
    }

    [[nodiscard]] Taint merged(unsigned lane) const {
        Taint taint;
        for (unsigned i = 0; i < 4; ++i) taint |= of(i, lane);
        return taint;
    }

    [[nodiscard]] bool predicate(unsigned source, unsigned lane, bool negated) const {
        return ((*value<Mask>(inst_.s[source]) >> lane & 1) != 0) != negated;
    }

    [[nodiscard]] Taint result(unsigned lane) const {
        const auto width = rule_.d_bytes;
        switch (rule_.form) {
            case Form::moved: return merged(lane);
            case Form::logical: {
                // Destination and source may share a register only if they are the same: then the old value is gone, and the new one is
                // the known operand's whenever that decides.
                const auto a = of(0, lane), b = of(1, lane);
                if (a.bytes != 0 && b.bytes != 0) return a;
                const unsigned known = a.bytes != 0 ? 1 : 0;
                const bool same = inst_.s[known] == inst_.d;
                const bool negated = known == 0 ? inst_.modifiers.neg_a() : inst_.modifiers.neg_b();
                const bool decides = same ? false : predicate(known, lane, negated) == rule_.is_or;
                return decides ? Taint{} : a.bytes != 0 ? a : b;
            }
            case Form::compare: {
                const auto c = of(2, lane);
                Taint compared = of(0, lane);
                compared |= of(1, lane);
                if (inst_.s[2] == no_operand || inst_.modifiers.bool_op() == BoolOp::none) return whole(compared, 0);
                if (c.bytes == 0 && inst_.s[2] != inst_.d && inst_.s[2] != inst_.d2 && inst_.d2 == no_operand) {
                    const bool known = predicate(2, lane, inst_.modifiers.neg_c());
                    if (inst_.modifiers.bool_op() == BoolOp::and_ && !known) return {};
                    if (inst_.modifiers.bool_op() == BoolOp::or_ && known) return {};
                }
                Taint taint = whole(compared, 0);
                taint |= whole(c, 0);
                return taint;
            }
            case Form::masked: {
                Taint taint = merged(lane);
                for (unsigned i = 0; i < 2; ++i) {
                    const auto known = of(1 - i, lane);
                    if (of(i, lane).bytes == 0 || inst_.s[1 - i] == inst_.d) continue;
                    const auto w = word(1 - i, lane);
                    for (unsigned b = 0; b < width && b < 8; ++b) {
                        const auto byte = w >> (8 * b) & 0xff;
                        if ((known.bytes >> b & 1) == 0 && byte == (rule_.is_or ? 0xffu : 0u)) taint.bytes &= static_cast<std::uint16_t>(~(1u << b));
                    }
                }
                return taint;
            }
            case Form::select: {
                const auto decided = of(2, lane);
                if (decided.bytes != 0) return whole(decided, width);
                return predicate(2, lane, inst_.modifiers.neg_c()) ? of(0, lane) : of(1, lane);
            }
            case Form::halves: {
                auto taint = merged(lane);
                taint.bytes = static_cast<std::uint16_t>(((taint.bytes & 3) != 0 ? 3 : 0) | ((taint.bytes & 12) != 0 ? 12 : 0));
                return taint;
            }
            case Form::pair: {
                Taint taint;
                if (const auto high = of(0, lane); high.bytes != 0) taint |= Taint{12, high.origin};
                if (const auto low = of(1, lane); low.bytes != 0) taint |= Taint{3, low.origin};
                return taint;
            }
            case Form::shift_left:
            case Form::shift_right: {
                auto taint = of(0, lane);
                if (of(1, lane).bytes != 0) return whole(of(1, lane), width);
                if (inst_.s[1] == inst_.d) return whole(taint, width);
                const auto count = value<std::uint32_t>(inst_.s[1])[lane];
                if (count >= 8u * width) return rule_.is_signed ? whole(taint, width) : Taint{};
                const auto bytes = count / 8, bits = count % 8;
                std::uint32_t moved = 0;
                const std::uint32_t from = taint.bytes & low_bytes(width);
                if (rule_.form == Form::shift_left) {
                    moved = from << bytes;
                    if (bits != 0) moved |= from << (bytes + 1);
                } else {
                    moved = from >> bytes;
                    if (bits != 0) moved |= from >> (bytes + 1);
                    if (rule_.is_signed && (from >> (width - 1) & 1) != 0)
                        moved |= low_bytes(width) & ~(static_cast<std::uint32_t>(low_bytes(width)) >> (bytes + 1));
                }
                taint.bytes = static_cast<std::uint16_t>(moved & low_bytes(width));
                return taint;
            }
            case Form::extend: {
                auto taint = of(0, lane);
                const bool sign = rule_.is_signed && (taint.bytes >> (rule_.s_bytes - 1) & 1) != 0;
                taint.bytes = static_cast<std::uint16_t>(taint.bytes & low_bytes(rule_.s_bytes) & low_bytes(width));
                if (sign) taint.bytes |= static_cast<std::uint16_t>(low_bytes(width) & ~low_bytes(rule_.s_bytes));
                return taint;
            }
            case Form::permute: {
                auto taint = merged(lane);
                if (of(2, lane).bytes != 0 || inst_.modifiers.mode() != 0 || inst_.s[2] == inst_.d) return whole(taint, 4);
                const auto selector = value<std::uint32_t>(inst_.s[2])[lane];
                const unsigned from = (of(0, lane).bytes & 15u) | (of(1, lane).bytes & 15u) << 4;
                unsigned bytes = 0;
                for (unsigned b = 0; b < 4; ++b) bytes |= (from >> (selector >> (4 * b) & 7) & 1) << b;
                taint.bytes = static_cast<std::uint16_t>(bytes);
                return taint;
            }
            default: return whole(merged(lane), width);
        }
    }

    void pack() {
        clear(inst_.d, active_);
        for (unsigned i = 0; i < inst_.count; ++i) {
            for (Mask left = registers_.mask(inst_.extra[i]) & active_; left != 0; left &= left - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(left));
                const auto part = registers_.get(inst_.extra[i], lane);
                auto taint = registers_.get(inst_.d, lane);
                taint |= Taint{static_cast<std::uint16_t>((part.bytes & low_bytes(inst_.bytes)) << (i * inst_.bytes)), part.origin};
                put(inst_.d, lane, taint);
            }
        }
    }

    void unpack() {
        for (unsigned i = 0; i < inst_.count; ++i) {
            const auto to = inst_.extra[i];
            if (to == no_operand) continue;
            const Mask dirty = registers_.mask(inst_.s[0]) & active_;
            clear(to, active_ & ~dirty);
            for (Mask left = dirty; left != 0; left &= left - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(left));
                const auto from = registers_.get(inst_.s[0], lane);
                put(to, lane, {static_cast<std::uint16_t>(from.bytes >> (i * inst_.bytes) & low_bytes(inst_.bytes)), from.origin});
            }
        }
    }

    // Operands that the shuffle overwrote count as the lane's own.
    void shuffle() {
        const auto d = inst_.d;
        if (sources() == 0) {
            clear(d, active_);
            clear(inst_.d2, active_);
            return;
        }
        std::array<Taint, lanes> taint{};
        for (unsigned lane = 0; lane < lanes; ++lane) {
            taint[lane] = registers_.get(inst_.s[0], shuffle_source(*event_.warp, inst_, lane).lane);
            if (const auto chosen = of(1, lane); chosen.bytes != 0) taint[lane] = whole(chosen, 4);
        }
        for (Mask left = active_; left != 0; left &= left - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(left));
            put(d, lane, taint[lane]);
        }
        clear(inst_.d2, active_);
    }

    void members() {
        const Mask dirty = sources() & active_;
        clear(inst_.d, active_);
        clear(inst_.d2, active_);
        if (dirty == 0) return;
        const auto first = static_cast<unsigned>(std::countr_zero(dirty));
        for (Mask left = active_; left != 0; left &= left - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(left));
            put(inst_.d, lane, {every_byte, merged(first).origin});
            put(inst_.d2, lane, {1, merged(first).origin});
        }
    }

    // Elements of a fragment: taint of each, by line and position.
    template <class F>
    void each_element(std::uint32_t map_index, const std::vector<Operand>& slots, F&& f) {
        const auto& map = source_.maps[map_index];
        const unsigned bytes = std::max(map.element_bits / 8u, 1u);
        for (unsigned r = 0; r < map.registers; ++r) {
            for (Mask left = registers_.mask(slots[r]); left != 0; left &= left - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(left));
                const auto taint = registers_.get(slots[r], lane);
                for (unsigned e = 0; e < map.elements; ++e) {
                    const auto part = map.element_bits < 8 ? taint.bytes : taint.bytes >> (e * bytes) & low_bytes(bytes);
                    if (part != 0) f(map.index[(std::size_t{r} * map.elements + e) * lanes + lane], taint.origin);
                }
            }
        }
    }

    // 0·NaN is NaN: an element of A spoils its row of D, one of B its column.
    void multiply() {
        const auto& op = source_.tensor[inst_.target];
        Mask any = 0;
        for (const auto* group : {&op.a, &op.b, &op.c})
            for (const auto s : *group) any |= registers_.mask(s);
        if (any == 0) {
            for (const auto d : op.d) registers_.clear(d, all_lanes);
            return;
        }
        const auto& a_map = source_.maps[op.a_map];
        const auto& b_map = source_.maps[op.b_map];
        const auto& d_map = source_.maps[op.d_map];
        std::vector<std::uint16_t> rows(a_map.lines), columns(b_map.lines), elements(std::size_t{d_map.lines} * d_map.width);
        std::vector<bool> row(a_map.lines), column(b_map.lines), element(elements.size());
        each_element(op.a_map, op.a, [&](int i, std::uint16_t origin) { row[i / a_map.width] = true, rows[i / a_map.width] = origin; });
        each_element(op.b_map, op.b, [&](int i, std::uint16_t origin) { column[i / b_map.width] = true, columns[i / b_map.width] = origin; });
        each_element(op.c_map, op.c, [&](int i, std::uint16_t origin) { element[i] = true, elements[i] = origin; });
        const unsigned tiles = op.tiles, m = d_map.lines / tiles, n = b_map.lines / tiles;
        for (unsigned i = 0; i < d_map.lines; ++i) {
            for (unsigned j = 0; j < d_map.width; ++j) {
                const auto at = std::size_t{i} * d_map.width + j;
                const auto line = i / m * n + j;  // lines of B and positions in D are permuted alike
                if (!element[at] && row[i]) element[at] = true, elements[at] = rows[i];
                if (!element[at] && column[line]) element[at] = true, elements[at] = columns[line];
            }
        }
        scatter(registers_, d_map, op.d, [&](int i) { return Taint{static_cast<std::uint16_t>(element[i] ? every_byte : 0), elements[i]}; });
    }

    void transpose() {
        std::array<Taint, lanes> from;
        for (unsigned lane = 0; lane < lanes; ++lane) from[lane] = of(0, lane);
        for (unsigned lane = 0; lane < lanes; ++lane) {
            Taint taint;
            for (unsigned half = 0; half < 2; ++half) {
                // Element (line, i) of the result is element (i, line) of the source: lane 4 i + line / 2, half line mod 2.
                const unsigned line = lane / 4, i = lane % 4 * 2 + half;
                const auto& part = from[4 * i + line / 2];
                if ((part.bytes >> (2 * (line % 2)) & 3) != 0) taint |= Taint{static_cast<std::uint16_t>(3 << (2 * half)), part.origin};
            }
            put(inst_.d, lane, taint);
        }
    }

    const WriteEvent& event_;
    const Inst& inst_;
    const TaintRule& rule_;
    const ProgramSource& source_;
    RegisterTaint& registers_;
    Mask active_;
};

}  // namespace

void propagate(const WriteEvent& event, const TaintRule& rule, const ProgramSource& source, RegisterTaint& registers) {
    Propagation(event, rule, source, registers).run();
}

}  // namespace wmmadiag
