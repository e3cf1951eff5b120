// Taint between memory and registers, by kind of access.
#include "uninitialised.hpp"

namespace wmmadiag {

void Uninitialised::load(const MemoryEvent& event, TaintState& state, const Span& span) {
    auto& registers = state.warps[event.where.warp];
    const bool known_all = clean(event, state, span);
    if (known_all && registers.clean()) return;
    const auto& inst = code_[event.where.pc];
    const std::string_view name = source_.operations[source_.code[event.where.pc].op];
    const bool fragment = name == "wmma.load";
    if (known_all) {
        if (fragment) {
            for (const auto d : source_.tensor[inst.target].d) registers.clear(d, all_lanes);
        } else if (name == "ldmatrix" || name == "ld") {
            for (unsigned i = 0; i < inst.count; ++i)
                if (inst.extra[i] != no_operand) registers.clear(inst.extra[i], name == "ld" ? event.active : all_lanes);
        }
        return;
    }
    if (fragment) {
        load_fragment(event, state);
    } else if (name == "ldmatrix") {
        load_matrices(event, state);
    } else if (name == "ld") {
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto found = peek(event, state, event.space, lane, event.addresses[lane], event.bytes);
            for (unsigned i = 0; i < inst.count; ++i) {
                if (inst.extra[i] == no_operand) continue;
                auto bytes = found.bytes >> (i * inst.bytes) & ((1u << inst.bytes) - 1);
                if ((inst.flags & flag::sign_extend) != 0 && (bytes >> (inst.bytes - 1) & 1) != 0) bytes |= 0xffu << inst.bytes;
                bytes &= (1u << inst.register_bytes) - 1;
                registers.put(inst.extra[i], lane, {static_cast<std::uint16_t>(bytes), found.origin});
            }
        }
    }
}

void Uninitialised::load_fragment(const MemoryEvent& event, TaintState& state) {
    const auto& inst = code_[event.where.pc];
    const auto& op = source_.tensor[inst.target];
    const auto& map = source_.maps[op.d_map];
    const bool along = (inst.flags & flag::transposed) == 0;
    std::vector<Taint> dense(std::size_t{map.lines} * map.width);
    each_piece(event, [&](unsigned line, std::uint64_t address, unsigned bytes, unsigned done) {
        const auto found = peek(event, state, event.space, line, address, bytes);
        for (auto bits = found.bytes; bits != 0; bits &= bits - 1) {
            const auto byte = done + static_cast<unsigned>(std::countr_zero(bits));
            const auto first = byte * 8 / map.element_bits, count = std::max(1u, 8u / map.element_bits);
            for (auto e = first; e < first + count; ++e) dense[along ? line * map.width + e : e * map.width + line] = {0xffff, found.origin};
        }
    });
    scatter(state.warps[event.where.warp], map, op.d, [&](int i) { return dense[static_cast<std::size_t>(i)]; });
}

void Uninitialised::load_matrices(const MemoryEvent& event, TaintState& state) {
    const auto& inst = code_[event.where.pc];
    const bool transposed = (inst.flags & flag::transposed) != 0;
    std::array<Found, lanes> rows{};
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto row = static_cast<unsigned>(std::countr_zero(m));
        rows[row] = peek(event, state, event.space, row, event.addresses[row], 16);
    }
    for (unsigned i = 0; i < inst.count; ++i) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
            Taint taint;
            for (unsigned half = 0; half < 2; ++half) {
                const unsigned line = lane / 4, position = lane % 4 * 2 + half;
                const auto& row = rows[8 * i + (transposed ? position : line)];
                const unsigned element = transposed ? line : position;
                if ((row.bytes >> (2 * element) & 3) != 0) taint |= Taint{static_cast<std::uint16_t>(3 << (2 * half)), row.origin};
            }
            state.warps[event.where.warp].put(inst.extra[i], lane, taint);
        }
    }
}

void Uninitialised::store(const MemoryEvent& event, TaintState& state, const Span& span) {
    auto& registers = state.warps[event.where.warp];
    if (registers.clean()) return known(event, state, span);
    const auto& inst = code_[event.where.pc];
    const std::string_view name = source_.operations[source_.code[event.where.pc].op];
    if (name == "wmma.store") return store_fragment(event, state, span);
    Mask dirty = 0;
    for (unsigned i = 0; i < inst.count; ++i) dirty |= registers.mask(inst.extra[i]);
    if ((dirty & (name == "st" ? event.active : all_lanes)) == 0) return known(event, state, span);
    if (event.space == Space::shared)
        wrote(state, event.where, span, std::uint64_t{static_cast<unsigned>(std::popcount(event.active))} * event.bytes);
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        Taint taint;
        std::uint32_t bits = 0;
        if (name == "st") {
            for (unsigned i = 0; i < inst.count; ++i) {
                const auto part = registers.get(inst.extra[i], lane);
                taint |= part;
                bits |= (part.bytes & ((1u << inst.bytes) - 1)) << (i * inst.bytes);
            }
        } else {  // stmatrix: `lane` is a row
            const bool transposed = (inst.flags & flag::transposed) != 0;
            for (unsigned element = 0; element < 8; ++element) {
                const unsigned line = transposed ? element : lane % 8, position = transposed ? lane % 8 : element;
                const auto part = registers.get(inst.extra[lane / 8], line * 4 + position / 2);
                if ((part.bytes >> (2 * (position % 2)) & 3) == 0) continue;
                taint |= part;
                bits |= 3u << (2 * element);
            }
        }
        // Padding that is copied with what it stands beside; what is computed of such a value means nothing in all of its bytes.
        if (event.space == Space::global && origins_[taint.origin].beside && static_cast<unsigned>(std::popcount(bits)) < event.bytes) bits = 0;
        poke(event, state, event.space, lane, event.addresses[lane], event.bytes, bits, taint.origin);
    }
}

void Uninitialised::store_fragment(const MemoryEvent& event, TaintState& state, const Span& span) {
    auto& registers = state.warps[event.where.warp];
    const auto& inst = code_[event.where.pc];
    const auto& op = source_.tensor[inst.target];
    const auto& map = source_.maps[op.d_map];
    Mask dirty = 0;
    for (const auto d : op.d) dirty |= registers.mask(d);
    if (dirty == 0) return known(event, state, span);
    if (event.space == Space::shared)
        wrote(state, event.where, span, std::uint64_t{static_cast<unsigned>(std::popcount(event.active))} * event.bytes);
    const bool along = (inst.flags & flag::transposed) == 0;
    const unsigned element_bytes = std::max(map.element_bits / 8u, 1u);
    std::vector<Taint> dense(std::size_t{map.lines} * map.width);
    for (unsigned r = 0; r < map.registers; ++r) {
        for (unsigned lane = 0; lane < lanes; ++lane) {
            const auto taint = registers.get(op.d[r], lane);
            for (unsigned e = 0; e < map.elements && taint.bytes != 0; ++e)
                if ((taint.bytes >> (e * element_bytes) & ((1u << element_bytes) - 1)) != 0)
                    dense[static_cast<std::size_t>(map.index[(std::size_t{r} * map.elements + e) * lanes + lane])] = taint;
        }
    }
    each_piece(event, [&](unsigned line, std::uint64_t address, unsigned bytes, unsigned done) {
        std::uint32_t bits = 0;
        std::uint16_t origin = 0;
        for (unsigned b = 0; b < bytes; ++b) {
            const auto e = (done + b) / element_bytes;
            const auto& taint = dense[along ? line * map.width + e : e * map.width + line];
            if (taint.bytes == 0) continue;
            bits |= 1u << b;
            if (origin == 0) origin = taint.origin;
        }
        poke(event, state, event.space, line, address, bytes, bits, origin);
    });
}

void Uninitialised::atomic(const MemoryEvent& event, TaintState& state, const Span& span) {
    auto& registers = state.warps[event.where.warp];
    const auto& inst = code_[event.where.pc];
    if (!is(event.where.pc, "atom")) return known(event, state, span);  // mbarrier
    const bool exchanges = (inst.code & 0xff) == 8;
    Mask dirty = 0;
    for (unsigned i = 0; i < inst.count; ++i) dirty |= registers.mask(inst.extra[3 * i + 1]) | registers.mask(inst.extra[3 * i + 2]);
    if ((dirty & event.active) == 0 && clean(event, state, span)) {
        for (unsigned i = 0; i < inst.count; ++i)
            if (inst.extra[3 * i] != no_operand) registers.clear(inst.extra[3 * i], event.active);
        return known(event, state, span);
    }
    const unsigned width = event.bytes / std::max<unsigned>(inst.count, 1);
    const auto all = (1u << width) - 1;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        for (unsigned i = 0; i < inst.count; ++i) {
            const auto address = event.addresses[lane] + std::uint64_t{i} * width;
            const auto found = peek(event, state, event.space, lane, address, width);
            const Taint old{static_cast<std::uint16_t>(found.bytes), found.origin};
            Taint next = exchanges ? Taint{} : old;
            next |= registers.get(inst.extra[3 * i + 1], lane);
            next |= registers.get(inst.extra[3 * i + 2], lane);
            poke(event, state, event.space, lane, address, width, next.bytes != 0 ? all : 0, next.origin);
            if (inst.extra[3 * i] != no_operand) registers.put(inst.extra[3 * i], lane, old);
        }
    }
}

void Uninitialised::copy_begins(const MemoryEvent& event, TaintState& state, const Span& span) {
    auto& taints = state.copies;
    const auto key = std::pair{event.where.warp, event.where.pc};
    if (taints.empty() && clean(event, state, span)) return;
    const auto entry = taints.find(key);
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto found = peek(event, state, event.space, lane, event.addresses[lane], event.bytes);
        if (found.bytes == 0 && entry == taints.end()) continue;
        // One per lane and instruction: of several in flight the last counts.
        taints[key][lane] = {static_cast<std::uint16_t>(found.bytes), found.origin};
    }
}

void Uninitialised::copy_lands(const MemoryEvent& event, TaintState& state, const Span& span) {
    const auto entry = state.copies.empty() ? state.copies.end() : state.copies.find({event.where.warp, event.where.pc});
    known(event, state, span);
    if (entry == state.copies.end()) return;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        const auto taint = entry->second[lane];
        if (taint.bytes != 0) poke(event, state, Space::shared, lane, event.addresses[lane], event.bytes, taint.bytes, taint.origin);
    }
}

}  // namespace wmmadiag
