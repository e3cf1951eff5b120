// wmma.load, wmma.store, wmma.mma, mma, ldmatrix, stmatrix, movmatrix: between lanes' registers, memory and matrices.
#include <array>

#include "access.hpp"

namespace wmmadiag {

namespace {

// Largest matrix: 32 x 32 bytes would do; m16n16 of 64 bits is 2 KiB.
struct alignas(64) Dense {
    std::byte bytes[2048];
    template <class T>
    T* as() {
        return reinterpret_cast<T*>(bytes);
    }
};

constexpr unsigned quad = 4;

// Registers that are whole words of the dense matrix. Backwards, since the first register counts where an element is held twice.
template <class Word>
void gather_words(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    auto* to = dense.as<Word>();
    for (unsigned r = map.registers; r-- > 0;) {
        const auto* from = warp.at<Word>(slots[r]);
        const auto* words = map.words.data() + std::size_t{r} * lanes;
        if (map.quads) {
            for (unsigned l = 0; l < lanes; l += quad) std::memcpy(to + words[l], from + l, quad * sizeof(Word));
        } else {
            for (unsigned l = 0; l < lanes; ++l) to[words[l]] = from[l];
        }
    }
}

template <class Word>
void scatter_words(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    const auto* from = dense.as<Word>();
    for (unsigned r = 0; r < map.registers; ++r) {
        auto* to = warp.at<Word>(slots[r]);
        const auto* words = map.words.data() + std::size_t{r} * lanes;
        if (map.quads) {
            for (unsigned l = 0; l < lanes; l += quad) std::memcpy(to + l, from + words[l], quad * sizeof(Word));
        } else {
            for (unsigned l = 0; l < lanes; ++l) to[l] = from[words[l]];
        }
    }
}

// Element by element, for maps whose registers gather elements from several lines. Elements of 8 or 16 bits in 32-bit registers.
template <class Value>
void gather_elements(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    auto* to = dense.as<Value>();
    for (unsigned r = map.registers; r-- > 0;) {
        const auto* from = warp.at<std::uint32_t>(slots[r]);
        for (unsigned e = 0; e < map.elements; ++e) {
            const auto* index = map.index.data() + (std::size_t{r} * map.elements + e) * lanes;
            for (unsigned l = 0; l < lanes; ++l) to[index[l]] = static_cast<Value>(from[l] >> (e * map.element_bits));
        }
    }
}

template <class Value>
void scatter_elements(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    const auto* from = dense.as<Value>();
    for (unsigned r = 0; r < map.registers; ++r) {
        std::uint32_t word[lanes]{};
        for (unsigned e = 0; e < map.elements; ++e) {
            const auto* index = map.index.data() + (std::size_t{r} * map.elements + e) * lanes;
            for (unsigned l = 0; l < lanes; ++l) word[l] |= std::uint32_t{from[index[l]]} << (e * map.element_bits);
        }
        std::memcpy(warp.at<std::uint32_t>(slots[r]), word, sizeof word);
    }
}

void to_dense(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    if (map.words.empty()) {
        if (map.element_bits == 16) gather_elements<std::uint16_t>(warp, map, slots, dense);
        else gather_elements<std::uint8_t>(warp, map, slots, dense);
    } else if (map.register_bytes == 8) {
        gather_words<std::uint64_t>(warp, map, slots, dense);
    } else {
        gather_words<std::uint32_t>(warp, map, slots, dense);
    }
}

void to_lanes(const Warp& warp, const FragmentMap& map, const std::vector<Operand>& slots, Dense& dense) {
    if (map.words.empty()) {
        if (map.element_bits == 16) scatter_elements<std::uint16_t>(warp, map, slots, dense);
        else scatter_elements<std::uint8_t>(warp, map, slots, dense);
    } else if (map.register_bytes == 8) {
        scatter_words<std::uint64_t>(warp, map, slots, dense);
    } else {
        scatter_words<std::uint32_t>(warp, map, slots, dense);
    }
}

const TensorOp& tensor_op(const Warp& warp, const Inst& inst) { return warp.block().shared().program->source().tensor[inst.target]; }
const FragmentMap& fragment_map(const Warp& warp, std::uint32_t index) { return warp.block().shared().program->source().maps[index]; }

Flow multiply(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    const auto& op = tensor_op(warp, inst);
    Dense a, b, c, d;
    to_dense(warp, fragment_map(warp, op.a_map), op.a, a);
    to_dense(warp, fragment_map(warp, op.b_map), op.b, b);
    to_dense(warp, fragment_map(warp, op.c_map), op.c, c);
    const auto size = [&](std::uint32_t map) {
        const auto& m = fragment_map(warp, map);
        return std::size_t{m.lines} * m.width * m.element_bits / 8 / op.tiles;
    };
    for (unsigned t = 0; t < op.tiles; ++t)
        op.function(op.rule, a.bytes + t * size(op.a_map), b.bytes + t * size(op.b_map), c.bytes + t * size(op.c_map), d.bytes + t * size(op.d_map));
    to_lanes(warp, fragment_map(warp, op.d_map), op.d, d);
    if (auto* observer = warp.block().observer()) observer->tensor({warp.where(), &op, a.bytes, b.bytes, c.bytes, d.bytes});
    return Flow::next;
}

// Where a whole fragment lies in memory: lines of `width` elements, `stride` elements apart.
struct Footprint {
    std::uint64_t base, stride;
    std::uint32_t lines, width, bits;
    bool along;          // memory lines are the dense matrix's lines
    std::uint32_t unit;  // elements to which the chip cuts the leading dimension
    bool whole;          // ... before it multiplies by the line, see wmmadiag/fragments/memory_access.py

    [[nodiscard]] std::uint64_t line_bytes(std::uint32_t line) const {
        const auto units = whole ? line * (stride / unit) : line % 8 * (stride / unit) + line / 8 * (8 * stride / unit);
        return units * unit * bits / 8;
    }
};

Footprint footprint_at(const Warp& warp, const Inst& inst, const FragmentMap& map, const Addresses& addresses) {
    const auto* ldm = inst.s[1] == no_operand ? nullptr : warp.at<std::uint32_t>(inst.s[1]);
    Footprint to{};
    to.along = (inst.flags & flag::transposed) == 0;
    to.base = addresses.lane[0];
    to.lines = to.along ? map.lines : map.width;
    to.width = to.along ? map.width : map.lines;
    to.stride = ldm != nullptr ? ldm[0] : to.width;
    to.bits = map.element_bits;
    to.unit = inst.count;
    to.whole = (inst.flags & flag::whole_ldm) != 0;
    return to;
}

// The lanes' common base and leading dimension; a fault when they differ, since the operation is then undefined.
bool common_footprint(Warp& warp, const Inst& inst, const FragmentMap& map, const Addresses& addresses, Footprint& to) {
    const auto* ldm = inst.s[1] == no_operand ? nullptr : warp.at<std::uint32_t>(inst.s[1]);
    for (unsigned l = 1; l < lanes; ++l) {
        if (addresses.lane[l] != addresses.lane[0] || (ldm != nullptr && ldm[l] != ldm[0])) {
            warp.fail(FaultKind::bad_operand, Mask{1} << l, "the address or the leading dimension differs between the lanes of the warp");
            return false;
        }
    }
    to = footprint_at(warp, inst, map, addresses);
    return true;
}

// Checks every line of the footprint, then calls body(line, host pointer). Lines are charged to lane 0.
template <class Body>
Flow each_line(Warp& warp, const Inst& inst, const Footprint& f, AccessKind kind, Body&& body) {
    const std::uint32_t bytes = f.width * f.bits / 8;
    Addresses lines{};
    for (std::uint32_t i = 0; i < f.lines; ++i) lines.lane[i] = f.base + f.line_bytes(i);
    const Mask mask = f.lines == lanes ? all_lanes : (Mask{1} << f.lines) - 1;
    const auto flow = access(warp, inst.space, mask, lines, bytes, inst.register_bytes, kind, body);
    if (flow == Flow::fault) {
        warp.fault.text = "line " + std::to_string(warp.fault.lane) + " of the fragment (" + std::to_string(f.lines) + " lines of " +
                          std::to_string(bytes) + " bytes, leading dimension " + std::to_string(f.stride) + " elements)";
        warp.fault.lane = 0;
    }
    return flow;
}

// Memory lines run across the dense matrix's lines. Elements of at least a byte: narrower ones have one layout only.
template <class T>
void copy_across(Dense& dense, const FragmentMap& map, unsigned position, std::byte* p, bool store) {
    auto* matrix = dense.as<T>() + position;
    for (unsigned i = 0; i < map.lines; ++i) {
        auto& element = matrix[std::size_t{i} * map.width];
        if (store) std::memcpy(p + i * sizeof(T), &element, sizeof(T));
        else std::memcpy(&element, p + i * sizeof(T), sizeof(T));
    }
}

Flow move_fragment(Warp& warp, const Inst& inst, Mask active, bool store) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    const auto& op = tensor_op(warp, inst);
    const auto& map = fragment_map(warp, op.d_map);
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    Footprint footprint{};
    if (!common_footprint(warp, inst, map, addresses, footprint)) return Flow::fault;
    Dense dense;
    if (store) to_dense(warp, map, op.d, dense);
    const auto bytes = std::size_t{footprint.width} * footprint.bits / 8;
    const auto flow = each_line(warp, inst, footprint, store ? AccessKind::store : AccessKind::load, [&](unsigned line, std::byte* p) {
        if (footprint.along) {
            auto* ours = dense.bytes + line * bytes;
            std::memcpy(store ? p : ours, store ? ours : p, bytes);
            return;
        }
        switch (footprint.bits) {
            case 64: return copy_across<std::uint64_t>(dense, map, line, p, store);
            case 32: return copy_across<std::uint32_t>(dense, map, line, p, store);
            case 16: return copy_across<std::uint16_t>(dense, map, line, p, store);
            default: return copy_across<std::uint8_t>(dense, map, line, p, store);
        }
    });
    if (flow != Flow::next) return flow;
    if (!store) to_lanes(warp, map, op.d, dense);
    return Flow::next;
}

Flow load_fragment(Warp& warp, const Inst& inst, Mask active) { return move_fragment(warp, inst, active, false); }
Flow store_fragment(Warp& warp, const Inst& inst, Mask active) { return move_fragment(warp, inst, active, true); }

// m8n8.b16: lane l holds elements 2(l mod 4), +1 of row l / 4 of each matrix; .trans: of column l / 4. (PTX ISA, ldmatrix)
std::uint16_t& element_of(std::uint16_t (&matrix)[8][8], unsigned lane, unsigned half, bool transposed) {
    const unsigned line = lane / 4, i = lane % 4 * 2 + half;
    return transposed ? matrix[i][line] : matrix[line][i];
}

// count: matrices; lane 8 i + r gives the address of row r of matrix i. extra: one register per matrix.
Flow load_matrices(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const bool transposed = (inst.flags & flag::transposed) != 0;
    std::uint16_t matrix[4][8][8];
    const Mask rows = inst.count == 4 ? all_lanes : (Mask{1} << (8 * inst.count)) - 1;
    const auto flow = access(warp, inst.space, rows, addresses, 16, 16, AccessKind::load,
                             [&](unsigned lane, const std::byte* p) { std::memcpy(matrix[lane / 8][lane % 8], p, 16); });
    if (flow != Flow::next) return flow;
    for (unsigned i = 0; i < inst.count; ++i) {
        auto* d = warp.at<std::uint32_t>(inst.extra[i]);
        for (unsigned l = 0; l < lanes; ++l)
            d[l] = element_of(matrix[i], l, 0, transposed) | std::uint32_t{element_of(matrix[i], l, 1, transposed)} << 16;
    }
    return Flow::next;
}

Flow store_matrices(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const bool transposed = (inst.flags & flag::transposed) != 0;
    std::uint16_t matrix[4][8][8];
    for (unsigned i = 0; i < inst.count; ++i) {
        const auto* s = warp.at<std::uint32_t>(inst.extra[i]);
        for (unsigned l = 0; l < lanes; ++l) {
            element_of(matrix[i], l, 0, transposed) = static_cast<std::uint16_t>(s[l]);
            element_of(matrix[i], l, 1, transposed) = static_cast<std::uint16_t>(s[l] >> 16);
        }
    }
    const Mask rows = inst.count == 4 ? all_lanes : (Mask{1} << (8 * inst.count)) - 1;
    return access(warp, inst.space, rows, addresses, 16, 16, AccessKind::store,
                  [&](unsigned lane, std::byte* p) { std::memcpy(p, matrix[lane / 8][lane % 8], 16); });
}

Flow transpose_matrix(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    std::uint16_t matrix[8][8];
    const auto* s = warp.at<std::uint32_t>(inst.s[0]);
    for (unsigned l = 0; l < lanes; ++l) {
        element_of(matrix, l, 0, false) = static_cast<std::uint16_t>(s[l]);
        element_of(matrix, l, 1, false) = static_cast<std::uint16_t>(s[l] >> 16);
    }
    auto* d = warp.at<std::uint32_t>(inst.d);
    for (unsigned l = 0; l < lanes; ++l) d[l] = element_of(matrix, l, 0, true) | std::uint32_t{element_of(matrix, l, 1, true)} << 16;
    return Flow::next;
}

constexpr std::array table{
    Operation{"mma", multiply},           Operation{"wmma.load", load_fragment}, Operation{"wmma.store", store_fragment},
    Operation{"ldmatrix", load_matrices}, Operation{"stmatrix", store_matrices}, Operation{"movmatrix", transpose_matrix},
};

}  // namespace

std::span<const Operation> tensor_operations() { return table; }

bool fragment_store_keeps(const Warp& warp, const Inst& inst, std::uint64_t address, std::span<const std::byte> there) {
    const auto& op = tensor_op(warp, inst);
    const auto& map = fragment_map(warp, op.d_map);
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    auto f = footprint_at(warp, inst, map, addresses);
    if (inst.space == Space::generic) f.base -= window_of(space_of(f.base));
    Dense dense;
    to_dense(warp, map, op.d, dense);
    const std::size_t element = f.bits / 8, bytes = f.width * element;
    if (element == 0) return false;
    bool known = false;
    for (std::size_t done = 0; done < there.size(); ++done) {
        const auto at = address + done;
        bool here = false;
        for (std::uint32_t line = 0; line < f.lines; ++line) {
            const auto start = f.base + f.line_bytes(line);
            if (at < start || at >= start + bytes) continue;
            const auto position = (at - start) / element, within = (at - start) % element;
            const auto index = f.along ? line * std::size_t{f.width} + position : position * f.lines + line;
            here = dense.bytes[index * element + within] == there[done];
            known = true;
        }
        if (!here) return false;
    }
    return known;
}

}  // namespace wmmadiag
