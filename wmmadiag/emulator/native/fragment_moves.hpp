// Between a warp's registers and the lines of a matrix, dense or in memory, by a FragmentMap.
//
// Internal to the files that include it, which are compiled once per instruction set: all has internal linkage.
#pragma once

#include "block.hpp"
#include "lines_of_square.hpp"

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

#if defined(WMMADIAG_AVX512)
// Words of two vectors, as `by` chooses: a word of the first, or 16 + one of the second.
template <class By>
[[gnu::always_inline]] inline __m512i chosen_words(__m512i a, __m512i b, By&& by) {
    typedef std::int32_t Words __attribute__((vector_size(64)));
    Words order;
    for (int i = 0; i < 16; ++i) order[i] = by(i);
    return _mm512_permutex2var_epi32(a, (__m512i)order, b);
}

// Half a pair of registers of 32-bit words, even and odd ones, to four pieces that follow each other word by word; or back.
template <bool storing, class At>
[[gnu::always_inline]] inline void move_half_pair(std::uint32_t* even, std::uint32_t* odd, At&& at) {
    if constexpr (storing) {
        const __m512i x = load<__m512i>(even), y = load<__m512i>(odd);
        for (int h = 0; h < 2; ++h) {
            const __m512i both = chosen_words(x, y, [h](int i) { return i / 2 + 8 * h + i % 2 * 16; });
            store(at(2 * h), _mm512_castsi512_si256(both));
            store(at(2 * h + 1), _mm512_extracti64x4_epi64(both, 1));
        }
    } else {
        __m512i both[2];
        for (int h = 0; h < 2; ++h) both[h] = _mm512_inserti64x4(_mm512_castsi256_si512(load<__m256i>(at(2 * h))), load<__m256i>(at(2 * h + 1)), 1);
        store(even, chosen_words(both[0], both[1], [](int i) { return 2 * i; }));
        store(odd, chosen_words(both[0], both[1], [](int i) { return 2 * i + 1; }));
    }
}
#endif

// Two registers, the words of which alternate in pieces; at(i) says where the piece of the i-th four lanes lies.
template <bool storing, class Word, class At>
[[gnu::always_inline]] inline void move_pair(Word* even, Word* odd, At&& at) {
#if defined(WMMADIAG_AVX512)
    if constexpr (sizeof(Word) == 4) {
        for (unsigned q = 0; q < quads_of_warp; q += 4)
            move_half_pair<storing>(even + q * quad, odd + q * quad, [&](unsigned i) { return at(q + i); });
        return;
    }
#endif
    using One = typename Quads<Word>::One;
    using Two = typename Quads<Word>::Two;
    for (unsigned q = 0; q < quads_of_warp; ++q) {
        if constexpr (storing) {
            const One x = load<One>(even + q * quad), y = load<One>(odd + q * quad);
            const Two both = __builtin_shufflevector(x, y, 0, 4, 1, 5, 2, 6, 3, 7);
            store(at(q), both);
        } else {
            const Two both = load<Two>(at(q));
            const One x = __builtin_shufflevector(both, both, 0, 2, 4, 6), y = __builtin_shufflevector(both, both, 1, 3, 5, 7);
            store(even + q * quad, x), store(odd + q * quad, y);
        }
    }
}

// Registers to lines, where the map has pieces; at(piece) says where on the host a piece lies. Backwards, since the first register counts
// where an element is held twice.
template <class Word, class At>
void put_pieces(const Warp& warp, const FragmentMap& map, const Slots& slots, At&& at) {
    using One = typename Quads<Word>::One;
    const Piece* pieces = map.pieces.data();
    if (map.order == FragmentMap::Order::quads) {
        for (unsigned r = map.registers; r-- > 0;) {
            const auto* from = warp.at<Word>(slots[r]);
            for (unsigned q = 0; q < quads_of_warp; ++q) store(at(pieces[r * quads_of_warp + q]), load<One>(from + q * quad));
        }
    } else {
        for (unsigned r = map.registers; r > 0; r -= 2)
            move_pair<true>(warp.at<Word>(slots[r - 2]), warp.at<Word>(slots[r - 1]),
                            [&](unsigned q) { return at(pieces[(r - 1) * quads_of_warp + q]); });
    }
}

// Lines to registers, likewise.
template <class Word, class At>
void take_pieces(const Warp& warp, const FragmentMap& map, const Slots& slots, At&& at) {
    using One = typename Quads<Word>::One;
    const Piece* pieces = map.pieces.data();
    if (map.order == FragmentMap::Order::quads) {
        for (unsigned r = 0; r < map.registers; ++r) {
            auto* to = warp.at<Word>(slots[r]);
            for (unsigned q = 0; q < quads_of_warp; ++q) store(to + q * quad, load<One>(at(pieces[r * quads_of_warp + q])));
        }
    } else {
        for (unsigned r = 0; r < map.registers; r += 2)
            move_pair<false>(warp.at<Word>(slots[r]), warp.at<Word>(slots[r + 1]), [&](unsigned q) { return at(pieces[r * quads_of_warp + q]); });
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
