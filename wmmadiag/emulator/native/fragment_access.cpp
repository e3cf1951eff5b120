// Whole fragments between registers and memory. See fragment_access.hpp.
#include "fragment_access.hpp"

#include "access.hpp"
#include "fragment_moves.hpp"

namespace wmmadiag {

namespace {

// Where a whole fragment lies in memory: lines of `width` elements, `stride` elements apart.
struct Footprint {
    std::uint64_t base, stride;
    std::uint32_t lines, width, bits;
    bool along;                       // memory lines are the dense matrix's lines
    std::uint64_t pitch, pitch_of_8;  // bits from line to line, and from eight to eight

    [[nodiscard]] std::uint64_t line_bytes(std::uint32_t line) const { return (line % 8 * pitch + line / 8 * pitch_of_8) / 8; }
    [[nodiscard]] std::uint32_t bytes() const { return width * bits / 8; }  // of a line
    // No byte belongs to two lines.
    [[nodiscard]] bool apart() const { return pitch / 8 >= bytes() && pitch_of_8 >= 8 * pitch; }
};

Footprint footprint_at(const Warp& warp, const Inst& inst, const FragmentMap& map) {
    const auto* ldm = inst.s[1] == no_operand ? nullptr : warp.at<std::uint32_t>(inst.s[1]);
    Footprint to{};
    to.along = (inst.flags & flag::transposed) == 0;
    to.base = first_address(warp, inst);
    to.lines = to.along ? map.lines : map.width;
    to.width = to.along ? map.width : map.lines;
    to.stride = ldm != nullptr ? ldm[0] : to.width;
    to.bits = map.element_bits;
    // inst.count: elements to which the chip cuts the leading dimension, a power of two; whole: before it multiplies by the line, see
    // wmmadiag/fragments/memory_access.py
    const std::uint64_t cut = ~(std::uint64_t{inst.count} - 1);
    const bool whole = (inst.flags & flag::whole_ldm) != 0;
    to.pitch = (to.stride & cut) * to.bits;
    to.pitch_of_8 = whole ? 8 * to.pitch : (8 * to.stride & cut) * to.bits;
    return to;
}

// Whether 32 values are all the same.
template <class T>
[[gnu::always_inline]] inline bool all_same(const T* values) {
#if defined(WMMADIAG_AVX512)
    constexpr unsigned of_vector = 64 / sizeof(T);
    const auto first = sizeof(T) == 4 ? _mm512_set1_epi32(static_cast<int>(*values)) : _mm512_set1_epi64(static_cast<std::int64_t>(*values));
    __m512i differ = _mm512_setzero_si512();
    for (unsigned l = 0; l < lanes; l += of_vector) differ = _mm512_or_si512(differ, _mm512_xor_si512(first, load<__m512i>(values + l)));
    return _mm512_test_epi32_mask(differ, differ) == 0;
#else
    T differ = 0;
    for (unsigned l = 0; l < lanes; ++l) differ |= values[l] ^ values[0];
    return differ == 0;
#endif
}

// Whether the lanes have one base and one leading dimension.
bool has_common_footprint(const Warp& warp, const Inst& inst) {
    if (inst.s[1] != no_operand && !all_same(warp.at<std::uint32_t>(inst.s[1]))) return false;
    return (inst.flags & flag::address32) != 0 ? all_same(warp.at<std::uint32_t>(inst.s[0])) : all_same(warp.at<std::uint64_t>(inst.s[0]));
}

// The same; a fault when they differ, since the operation is then undefined.
bool have_common_footprint(Warp& warp, const Inst& inst) {
    if (has_common_footprint(warp, inst)) [[likely]]
        return true;
    const auto* ldm = inst.s[1] == no_operand ? nullptr : warp.at<std::uint32_t>(inst.s[1]);
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    unsigned l = 1;
    while (addresses.lane[l] == addresses.lane[0] && (ldm == nullptr || ldm[l] == ldm[0])) ++l;
    warp.fail(FaultKind::bad_operand, Mask{1} << l, "the address or the leading dimension differs between the lanes of the warp");
    return false;
}

// Where the lines lie on the host.
using Lines = std::array<std::byte*, lanes>;

// The first of lines that are evenly spaced in memory that can be had at once; nullptr where it is not that plain.
std::byte* reach_evenly(Warp& warp, const Inst& inst, const Footprint& f, AccessKind kind) {
    const std::uint64_t step = f.pitch / 8;
    if (f.pitch % 8 != 0 || f.pitch_of_8 != 8 * f.pitch || ((f.base | step) & (inst.register_bytes - 1u)) != 0) return nullptr;
    return reach_span(warp, inst.space, f.base, (f.lines - 1) * step + f.bytes(), kind);
}

// Checks every line of the footprint, and finds them. Lines are charged to lane 0.
Flow reach_lines(Warp& warp, const Inst& inst, const Footprint& f, AccessKind kind, Lines& to) {
    if (auto* line = reach_evenly(warp, inst, f, kind); line != nullptr) {
        for (std::uint32_t i = 0; i < f.lines; ++i) to[i] = line + i * f.pitch / 8;
        return Flow::next;
    }
    Addresses addresses;
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bits = 0;
    for (std::uint32_t first = 0; first < f.lines; first += 8) {
        std::uint64_t at = first / 8 * f.pitch_of_8;
        const auto end = std::min(f.lines, first + 8);
        for (std::uint32_t i = first; i < end; ++i, at += f.pitch) {
            const auto address = addresses.lane[i] = f.base + at / 8;
            low = std::min(low, address), high = std::max(high, address), bits |= address;
        }
    }
    std::fill(addresses.lane + f.lines, addresses.lane + lanes, 0);
    const Mask mask = f.lines == lanes ? all_lanes : (Mask{1} << f.lines) - 1;
    Reached reached;
    const auto flow = reach_within(warp, inst.space, mask, addresses, {low, high, bits}, f.bytes(), inst.register_bytes, kind, reached);
    if (flow == Flow::fault) {
        warp.fault.text = "line " + std::to_string(warp.fault.lane) + " of the fragment (" + std::to_string(f.lines) + " lines of " +
                          std::to_string(f.bytes()) + " bytes, leading dimension " + std::to_string(f.stride) + " elements)";
        warp.fault.lane = 0;
        return flow;
    }
    for (std::uint32_t i = 0; i < f.lines; ++i)
        to[i] = reached.together ? reinterpret_cast<std::byte*>(reached.shift + static_cast<std::uintptr_t>(addresses.lane[i])) : reached.pointers[i];
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

// By way of the dense matrix: any map, any layout; lines in their order.
template <bool storing>
void move_lines(const Warp& warp, const FragmentMap& map, const Slots& slots, const Footprint& footprint, const Lines& line) {
    Dense dense;
    if (storing) to_dense(warp, map, slots, dense);
    const std::size_t bytes = footprint.bytes();
    for (unsigned i = 0; i < footprint.lines; ++i) {
        if (footprint.along) {
            auto* ours = dense.bytes + i * bytes;
            std::memcpy(storing ? line[i] : ours, storing ? ours : line[i], bytes);
            continue;
        }
        switch (footprint.bits) {
            case 64: copy_across<std::uint64_t>(dense, map, i, line[i], storing); break;
            case 32: copy_across<std::uint32_t>(dense, map, i, line[i], storing); break;
            case 16: copy_across<std::uint16_t>(dense, map, i, line[i], storing); break;
            default: copy_across<std::uint8_t>(dense, map, i, line[i], storing); break;
        }
    }
    if (!storing) to_lanes(warp, map, slots, dense);
}

// A map of squares: each register is one. With 16-bit elements also where memory lines run across them: then turned.
template <bool storing, bool along>
void move_squares(const Warp& warp, const FragmentMap& map, const Slots& slots, const Lines& line) {
    for (unsigned r = 0; r < map.registers; ++r) {
        if (map.original[r] != r) continue;
        const auto& piece = map.pieces[r * quads_of_warp];
        const unsigned first = piece.line / lines_in_square * lines_in_square;
        const auto in_memory = [&](unsigned i) {
            if constexpr (along) return line[first + map.square_order[i]] + piece.byte;
            else return line[piece.byte / sizeof(std::uint16_t) + i] + first * sizeof(std::uint16_t);
        };
        if constexpr (storing) {
            const auto square = load_square(warp.at<std::byte>(slots[r]));
            scatter_square(along ? square : turned(square), in_memory);
        } else {
            const auto there = gather_square(in_memory);
            const auto square = along ? there : turned(there);
            for (unsigned same = r; same < map.registers; same = map.next[same]) store_square(warp.at<std::byte>(slots[same]), square);
        }
    }
}

template <bool storing>
Flow move_fragment(Warp& warp, const Inst& inst, Mask active) {
    if (const auto flow = warp.converge_whole(active); flow != Flow::next) return flow;
    const auto& slots = tensor_op(warp, inst).d;
    const auto& map = fragment_map(warp, tensor_op(warp, inst).d_map);
    if (!have_common_footprint(warp, inst)) return Flow::fault;
    const Footprint footprint = footprint_at(warp, inst, map);
    Lines line;
    const auto flow = reach_lines(warp, inst, footprint, storing ? AccessKind::store : AccessKind::load, line);
    if (flow != Flow::next) return flow;
    const bool direct = !map.pieces.empty() && (!storing || footprint.apart());
    if (direct && footprint.along && map.squares) {
        move_squares<storing, true>(warp, map, slots, line);
    } else if (direct && footprint.along) {
        const auto at = [&](const Piece& piece) { return line[piece.line] + piece.byte; };
        with_word(map, [&](auto word) {
            if (storing) put_pieces<decltype(word)>(warp, map, slots, at);
            else take_pieces<decltype(word)>(warp, map, slots, at);
        });
    } else if (direct && map.plain_squares() && map.element_bits == 16) {
        move_squares<storing, false>(warp, map, slots, line);
    } else {
        move_lines<storing>(warp, map, slots, footprint, line);
    }
    return Flow::next;
}

// Where nobody watches, lines are evenly spaced, and the map has stacks: squares, which are turned where memory lines run across them, or
// pairs.
enum class Stacked : std::uint8_t { squares, turned_squares, pairs };

template <bool storing, Stacked kind>
Flow move_stacks(Warp& warp, const Inst& inst, Mask active) {
    const auto& op = *inst.tensor;
    const auto& map = fragment_map(warp, op.d_map);
    if (active != all_lanes || !has_common_footprint(warp, inst)) return inst.execute(warp, inst, active);
    const Footprint footprint = footprint_at(warp, inst, map);
    auto* base = reach_evenly(warp, inst, footprint, storing ? AccessKind::store : AccessKind::load);
    if (base == nullptr || (storing && !footprint.apart())) return inst.execute(warp, inst, active);
    const auto step = footprint.pitch / 8;
    for (const auto& stack : map.stacks) {
        constexpr bool turn = kind == Stacked::turned_squares;
        std::byte* line =
            turn ? base + stack.byte / sizeof(std::uint16_t) * step + stack.line * sizeof(std::uint16_t) : base + stack.line * step + stack.byte;
        auto *first = warp.at<std::byte>(op.d[stack.first]), *second = warp.at<std::byte>(op.d[stack.second]);
        const auto at = [line, step](std::size_t i) { return line + i * step; };
        if constexpr (kind == Stacked::pairs) {
            move_pair<storing>(reinterpret_cast<std::uint32_t*>(first), reinterpret_cast<std::uint32_t*>(second), at);
        } else {
            auto square = storing ? load_square(first) : gather_square(at);
            if constexpr (turn) square = turned(square);
            if constexpr (storing) scatter_square(square, at);
            else store_square(first, square), store_square(second, square);
        }
    }
    return Flow::next;
}

template <bool storing>
Execute move_unwatched(const Inst& inst, const ProgramSource& source) {
    const auto& map = source.maps[inst.tensor->d_map];
    const bool along = (inst.flags & flag::transposed) == 0;
    if (map.stacks.empty()) return inst.execute;
    if (map.order == FragmentMap::Order::pairs) return along ? move_stacks<storing, Stacked::pairs> : inst.execute;
    if (along) return move_stacks<storing, Stacked::squares>;
    return map.element_bits == 16 ? move_stacks<storing, Stacked::turned_squares> : inst.execute;
}

}  // namespace

Flow load_fragment(Warp& warp, const Inst& inst, Mask active) { return move_fragment<false>(warp, inst, active); }
Flow store_fragment(Warp& warp, const Inst& inst, Mask active) { return move_fragment<true>(warp, inst, active); }
Execute load_fragment_unwatched(const Inst& inst, const ProgramSource& source) { return move_unwatched<false>(inst, source); }
Execute store_fragment_unwatched(const Inst& inst, const ProgramSource& source) { return move_unwatched<true>(inst, source); }

bool fragment_store_keeps(const Warp& warp, const Inst& inst, std::uint64_t address, std::span<const std::byte> there) {
    const auto& op = tensor_op(warp, inst);
    const auto& map = fragment_map(warp, op.d_map);
    auto f = footprint_at(warp, inst, map);
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
