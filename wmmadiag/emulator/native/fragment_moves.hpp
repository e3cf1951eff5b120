// Between a warp's registers and the lines of a matrix, dense or in memory, by a FragmentMap.
//
// Internal to the files that include it, which are compiled once per instruction set: all has internal linkage.
#pragma once

#include "block.hpp"
#include "tensor_core_vector.hpp"

namespace wmmadiag {
namespace {

inline const TensorOp& tensor_op(const Warp& warp, const Inst& inst) { return warp.block().shared().program->source().tensor[inst.target]; }
inline const FragmentMap& fragment_map(const Warp& warp, std::uint32_t index) { return warp.block().shared().program->source().maps[index]; }

// A whole matrix. The largest: 16 x 16 elements of 64 bits.
struct alignas(64) Dense {
    std::byte bytes[2048];
    template <class T>
    T* as() {
        return reinterpret_cast<T*>(bytes);
    }
};

using Piece = FragmentMap::Piece;
using Slots = std::vector<Operand>;

constexpr unsigned quad = 4;
constexpr unsigned quads_of_warp = lanes / quad;

template <class Word>
struct Quads {
    typedef Word One __attribute__((vector_size(quad * sizeof(Word))));
    typedef Word Two __attribute__((vector_size(2 * quad * sizeof(Word))));
};

// Registers to lines, where the map has pieces; at(piece) says where on the host a piece lies. Backwards, since the first register counts
// where an element is held twice.
template <class Word, class At>
void put_pieces(const Warp& warp, const FragmentMap& map, const Slots& slots, At&& at) {
    using One = typename Quads<Word>::One;
    using Two = typename Quads<Word>::Two;
    const Piece* pieces = map.pieces.data();
    if (map.order == FragmentMap::Order::quads) {
        for (unsigned r = map.registers; r-- > 0;) {
            const auto* from = warp.at<Word>(slots[r]);
            for (unsigned q = 0; q < quads_of_warp; ++q) store(at(pieces[r * quads_of_warp + q]), load<One>(from + q * quad));
        }
    } else {
        for (unsigned r = map.registers; r > 0; r -= 2) {
            const auto *even = warp.at<Word>(slots[r - 2]), *odd = warp.at<Word>(slots[r - 1]);
            for (unsigned q = 0; q < quads_of_warp; ++q) {
                const One x = load<One>(even + q * quad), y = load<One>(odd + q * quad);
                const Two both = __builtin_shufflevector(x, y, 0, 4, 1, 5, 2, 6, 3, 7);
                store(at(pieces[(r - 1) * quads_of_warp + q]), both);
            }
        }
    }
}

// Lines to registers, likewise.
template <class Word, class At>
void take_pieces(const Warp& warp, const FragmentMap& map, const Slots& slots, At&& at) {
    using One = typename Quads<Word>::One;
    using Two = typename Quads<Word>::Two;
    const Piece* pieces = map.pieces.data();
    if (map.order == FragmentMap::Order::quads) {
        for (unsigned r = 0; r < map.registers; ++r) {
            auto* to = warp.at<Word>(slots[r]);
            for (unsigned q = 0; q < quads_of_warp; ++q) store(to + q * quad, load<One>(at(pieces[r * quads_of_warp + q])));
        }
    } else {
        for (unsigned r = 0; r < map.registers; r += 2) {
            auto *even = warp.at<Word>(slots[r]), *odd = warp.at<Word>(slots[r + 1]);
            for (unsigned q = 0; q < quads_of_warp; ++q) {
                const Two both = load<Two>(at(pieces[r * quads_of_warp + q]));
                const One x = __builtin_shufflevector(both, both, 0, 2, 4, 6), y = __builtin_shufflevector(both, both, 1, 3, 5, 7);
                store(even + q * quad, x), store(odd + q * quad, y);
            }
        }
    }
}

// Registers that are whole words of the dense matrix, lane by lane.
template <class Word>
void put_words(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
    auto* to = dense.as<Word>();
    for (unsigned r = map.registers; r-- > 0;) {
        const auto* from = warp.at<Word>(slots[r]);
        const auto* words = map.words.data() + std::size_t{r} * lanes;
        for (unsigned l = 0; l < lanes; ++l) to[words[l]] = from[l];
    }
}

template <class Word>
void take_words(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
    const auto* from = dense.as<Word>();
    for (unsigned r = 0; r < map.registers; ++r) {
        auto* to = warp.at<Word>(slots[r]);
        const auto* words = map.words.data() + std::size_t{r} * lanes;
        for (unsigned l = 0; l < lanes; ++l) to[l] = from[words[l]];
    }
}

// Element by element, for maps whose registers gather elements from several lines. Elements of 8 or 16 bits in 32-bit registers.
template <class Value>
void put_elements(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
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
void take_elements(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
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

// Calls f with a word of the map's registers.
template <class F>
void with_word(const FragmentMap& map, F&& f) {
    if (map.register_bytes == 8) f(std::uint64_t{});
    else f(std::uint32_t{});
}

inline void to_dense(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
    if (map.order == FragmentMap::Order::elements) {
        if (map.element_bits == 16) put_elements<std::uint16_t>(warp, map, slots, dense);
        else put_elements<std::uint8_t>(warp, map, slots, dense);
        return;
    }
    with_word(map, [&](auto word) {
        if (map.pieces.empty()) put_words<decltype(word)>(warp, map, slots, dense);
        else put_pieces<decltype(word)>(warp, map, slots, [&](const Piece& piece) { return dense.bytes + piece.dense; });
    });
}

inline void to_lanes(const Warp& warp, const FragmentMap& map, const Slots& slots, Dense& dense) {
    if (map.order == FragmentMap::Order::elements) {
        if (map.element_bits == 16) take_elements<std::uint16_t>(warp, map, slots, dense);
        else take_elements<std::uint8_t>(warp, map, slots, dense);
        return;
    }
    with_word(map, [&](auto word) {
        if (map.pieces.empty()) take_words<decltype(word)>(warp, map, slots, dense);
        else take_pieces<decltype(word)>(warp, map, slots, [&](const Piece& piece) { return dense.bytes + piece.dense; });
    });
}

}  // namespace
}  // namespace wmmadiag
