// What the engine derives of a fragment map before it runs anything. See program.hpp.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "program.hpp"

namespace wmmadiag {

namespace {

constexpr unsigned quad = 4, quads_of_warp = lanes / quad, lines_of_square = 8, words_limit = 2048 * 8;

// Words of the dense matrix that the registers are, [register][lane]; none where a register gathers elements of several words.
std::vector<std::uint16_t> whole_words(const FragmentMap& map) {
    const unsigned elements = map.elements;
    std::vector<std::uint16_t> words(std::size_t{map.registers} * lanes);
    for (std::size_t r = 0; r < map.registers; ++r) {
        for (std::size_t l = 0; l < lanes; ++l) {
            const auto first = static_cast<unsigned>(map.index[r * elements * lanes + l]);
            bool whole = elements * map.element_bits == map.register_bytes * 8u && first % elements == 0;
            for (unsigned e = 1; e < elements; ++e) whole &= static_cast<unsigned>(map.index[(r * elements + e) * lanes + l]) == first + e;
            if (!whole) return {};
            words[r * lanes + l] = static_cast<std::uint16_t>(first / elements);
        }
    }
    return words;
}

// Whether each four lanes from a multiple of four hold words `step` apart.
bool in_steps(const std::vector<std::uint16_t>& words, unsigned step) {
    for (std::size_t l = 0; l < words.size(); ++l)
        if (l % quad != 0 && words[l] != words[l - 1] + step) return false;
    return true;
}

// Whether registers of odd number hold the words after those of the register before them.
bool in_pairs(const std::vector<std::uint16_t>& words) {
    if (words.size() % (2 * lanes) != 0) return false;
    for (std::size_t l = 0; l < words.size(); ++l)
        if (l / lanes % 2 != 0 && words[l] != words[l - lanes] + 1) return false;
    return true;
}

}  // namespace

void FragmentMap::prepare() {
    if (register_bytes != 4 && register_bytes != 8) refuse("fragment registers of " + std::to_string(register_bytes) + " bytes");
    if (elements == 0 || element_bits == 0 || unsigned{elements} * element_bits > register_bytes * 8u || registers == 0)
        refuse("fragment elements do not fit their register");
    if (index.size() != std::size_t{registers} * elements * lanes) refuse("fragment map has the wrong length");
    const unsigned count = unsigned{lines} * width;
    if (count == 0 || lines > lanes || count * element_bits > words_limit) refuse("fragment of " + std::to_string(count) + " elements");
    for (const auto i : index)
        if (i < 0 || static_cast<unsigned>(i) >= count) refuse("fragment map points outside its matrix");

    original.assign(registers, 0);
    const auto of = [&](unsigned r) { return index.begin() + static_cast<std::ptrdiff_t>(r * std::size_t{elements} * lanes); };
    for (unsigned r = 0; r < registers; ++r)
        while (original[r] != r && !std::equal(of(r), of(r + 1), of(original[r]))) ++original[r];
    next.assign(registers, registers);
    for (unsigned r = registers, later; r-- > 0;) {
        for (later = r + 1; later < registers && original[later] != original[r];) ++later;
        next[r] = static_cast<std::uint8_t>(later);
    }

    words = whole_words(*this);
    pieces.clear();
    stacks.clear();
    squares = false;
    order = words.empty() ? Order::elements : Order::words;
    if (words.empty()) {
        if (element_bits != 8 && element_bits != 16) refuse("fragment of narrow elements that are not whole words");
        return;
    }
    const unsigned line_bits = unsigned{width} * element_bits, line_words = line_bits / (register_bytes * 8u);
    if (line_words == 0 || line_bits % (register_bytes * 8u) != 0) return;
    unsigned length = quad;
    if (in_steps(words, 2) && in_pairs(words)) length = 2 * quad;
    else if (!in_steps(words, 1)) return;
    for (std::size_t l = 0; l < words.size(); l += quad) {
        const unsigned word = words[l] - (length == quad ? 0u : l / lanes % 2);
        if (word % line_words + length > line_words) return pieces.clear();
        pieces.push_back({static_cast<std::uint16_t>(word / line_words), static_cast<std::uint16_t>(word % line_words * register_bytes),
                          static_cast<std::uint16_t>(word * register_bytes)});
    }
    order = length == quad ? Order::quads : Order::pairs;
    squares = order == Order::quads && register_bytes == 4;
    for (std::size_t p = 0; p < pieces.size(); ++p) {
        const auto quad_of_register = p % quads_of_warp, first = p - quad_of_register;
        const unsigned base = pieces[first].line / lines_of_square * lines_of_square, line = pieces[p].line;
        if (first == 0) square_order[p] = static_cast<std::uint8_t>(line % lines_of_square);
        squares &= line / lines_of_square * lines_of_square == base && line % lines_of_square == square_order[quad_of_register] &&
                   pieces[p].byte == pieces[first].byte;
    }
    unsigned seen = 0;
    for (const auto line : square_order) seen |= 1u << line;
    squares &= seen == (1u << lines_of_square) - 1;
    find_stacks();
}

void FragmentMap::find_stacks() {
    stacks.clear();
    const bool paired = order == Order::pairs;
    if (register_bytes != 4) return;
    for (std::size_t r = 0; r < registers; r += paired ? 2 : 1) {
        const auto* piece = &pieces[r * quads_of_warp];
        for (unsigned q = 0; q < quads_of_warp; ++q)
            if (piece[q].line != piece->line + q || piece[q].byte != piece->byte) return stacks.clear();
        const std::size_t second = paired ? r + 1 : next[r] < registers ? next[r] : r;
        if (paired ? original[r] != r || next[r] < registers : next[second] < registers && second != r) return stacks.clear();
        if (original[r] != r) continue;
        stacks.push_back({piece->line, piece->byte, static_cast<std::uint8_t>(r), static_cast<std::uint8_t>(second)});
    }
}

std::vector<Operand> FragmentMap::squares_in(const std::vector<Operand>& slots) const {
    constexpr unsigned square_bytes = 16;
    const unsigned line_bytes = unsigned{width} * element_bits / 8, chunks = line_bytes / square_bytes;
    if (!squares || lines % lines_of_square != 0 || line_bytes % square_bytes != 0) return {};
    std::vector<Operand> found(lines / lines_of_square * chunks, no_operand);
    for (std::size_t r = registers; r-- > 0;) {  // the first register counts
        const auto& piece = pieces[r * quads_of_warp];
        if (piece.byte % square_bytes != 0) return {};
        found[piece.line / lines_of_square * chunks + piece.byte / square_bytes] = slots[r];
    }
    if (std::find(found.begin(), found.end(), no_operand) != found.end()) return {};
    return found;
}

}  // namespace wmmadiag
