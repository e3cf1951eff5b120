// Direction numbers of Sobol' sequences (Bratley and Fox, "Algorithm 659", ACM TOMS 14, 1988): primitive polynomials over the two
// numbers 0 and 1 are found, in the order of their bits; the free initial numbers are odd and drawn by a hash. They are ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace wmmadiag::libraries {

constexpr size_t sobol_dimensions = 20000;

/// 32 or 64 numbers for each dimension, one dimension after another.
const std::vector<uint32_t>& sobol32();
const std::vector<uint64_t>& sobol64();
/// What scrambled sequences begin with, by dimension.
const std::vector<uint32_t>& scrambles32();
const std::vector<uint64_t>& scrambles64();

/// The number at a place of a dimension's sequence.
template <class Word>
Word sobol_at(const Word* directions, uint64_t place) {
    Word number = 0;
    const uint64_t gray = place ^ (place >> 1);
    for (unsigned bit = 0; bit < 8 * sizeof(Word); ++bit)
        if (gray >> bit & 1) number ^= directions[bit];
    return number;
}

}  // namespace wmmadiag::libraries
