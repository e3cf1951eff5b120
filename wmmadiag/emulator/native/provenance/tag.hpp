// What a value is: one 64-bit tag per granule (two bytes, or one where an argument has 8-bit elements) of registers and memory.
//
//   bits 0-19 column, 20-39 row, 40-59 matrix, 60 the row is known, 61 the column is known, 62 negated, 63 residual
//
// Matrix 0 is no matrix: `none` (a constant, or a value of no matrix), `mixed` (several matrices: not followed further), and `bad` (something
// disagreed, or was never written; the column field is the number of a record).
#pragma once

#include <cstddef>
#include <cstdint>

namespace wmmadiag::provenance {

using Tag = std::uint64_t;

inline constexpr unsigned index_bits = 20;
inline constexpr Tag index_mask = (Tag{1} << index_bits) - 1;
inline constexpr unsigned row_shift = 20, matrix_shift = 40;
inline constexpr Tag position_mask = (Tag{1} << matrix_shift) - 1;
inline constexpr Tag matrix_mask = index_mask << matrix_shift;
inline constexpr Tag row_known = Tag{1} << 60, column_known = Tag{1} << 61;
inline constexpr Tag full = row_known | column_known;
inline constexpr Tag negated = Tag{1} << 62;   // minus a row's or column's statistic
inline constexpr Tag residual = Tag{1} << 63;  // an element less a rounded copy of itself

inline constexpr Tag none = 0;
inline constexpr Tag mixed = Tag{1} << row_shift;
inline constexpr Tag bad_base = Tag{2} << row_shift;
inline constexpr Tag unwritten = bad_base;  // record 0: memory that nothing wrote

constexpr std::uint32_t column(Tag t) { return static_cast<std::uint32_t>(t & index_mask); }
constexpr std::uint32_t row(Tag t) { return static_cast<std::uint32_t>(t >> row_shift & index_mask); }
constexpr std::uint32_t matrix(Tag t) { return static_cast<std::uint32_t>(t >> matrix_shift & index_mask); }
constexpr bool is_element(Tag t) { return (t & full) == full; }
constexpr bool is_regular(Tag t) { return (t & matrix_mask) != 0; }
constexpr bool is_bad(Tag t) { return (t >> row_shift) == 2; }
constexpr Tag bad(std::uint32_t record) { return bad_base | record; }
constexpr Tag plain(Tag t) { return t & ~(negated | residual); }
constexpr Tag element(std::uint32_t m, std::uint32_t r, std::uint32_t c) { return full | Tag{m} << matrix_shift | Tag{r} << row_shift | c; }

// Bits in which any of them differ.
inline Tag differences(const Tag* tags, std::size_t count) {
    Tag found = none;
    for (std::size_t i = 0; i < count; ++i) found |= tags[i] ^ tags[0];
    return found;
}

inline bool any_unwritten(const Tag* tags, std::size_t count) {
    std::uint64_t found = 0;
    for (std::size_t i = 0; i < count; ++i) found |= static_cast<std::uint64_t>(tags[i] == unwritten);
    return found != 0;
}

}  // namespace wmmadiag::provenance
