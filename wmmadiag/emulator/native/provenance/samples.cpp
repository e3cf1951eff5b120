#include "samples.hpp"

#include <bit>
#include <cstring>

#include "../lane_ops/formats.hpp"
#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

template <class T>
T word(const void* from, std::size_t index) {
    T v;
    std::memcpy(&v, static_cast<const std::byte*>(from) + index * sizeof(T), sizeof(T));
    return v;
}

// An element of a dense matrix of a multiplication; false for types that are not sampled.
bool value_of(Element type, const void* matrix, std::size_t index, double& to) {
    switch (type) {
        case Element::f16: to = lanewise::widen_f16(word<std::uint16_t>(matrix, index)); return true;
        case Element::bf16: to = static_cast<double>(std::bit_cast<float>(std::uint32_t{word<std::uint16_t>(matrix, index)} << 16)); return true;
        case Element::tf32:
        case Element::f32: to = static_cast<double>(word<float>(matrix, index)); return true;
        case Element::f64: to = word<double>(matrix, index); return true;
        case Element::s32: to = word<std::int32_t>(matrix, index); return true;
        default: return false;
    }
}

}  // namespace

bool Provenance::sampled(Tag tag) const { return is_regular(tag) && (tag & residual) == 0 && matrices_[matrix(tag)].depth != 0; }

// Arguments' products are interesting once nothing is missing from them.
bool Provenance::complete(std::uint32_t m) const {
    const auto& one = matrices_[m];
    if (one.depth != 1) return true;
    const auto& p = matrices_.products()[one.product];
    const auto& intervals = matrices_.coverage(m).intervals;
    return intervals.size() == 1 && intervals[0].first == 0 && intervals[0].second >= extents_[p.left][static_cast<unsigned>(p.left_axis)];
}

void Provenance::sample_dense(std::uint32_t pc, Role role, Element type, const void* values, std::size_t first, const Tag* tags, std::size_t count) {
    if (!samples_.wants(pc, role)) return;
    samples_.next_event();
    double value = 0;
    Tag checked = none;  // matrices repeat
    bool take = false;
    for (std::size_t i = 0; i < count; ++i) {
        const Tag tag = tags[i];
        if ((tag & matrix_mask) != (checked & matrix_mask) || i == 0) {
            take = sampled(tag) && (role == Role::operand || complete(matrix(tag)));
            checked = tag;
        }
        if (!take || !is_element(tag)) continue;
        if (!value_of(type, values, first + i, value)) return;
        samples_.add(pc, where_.block, role, 0, tag, std::bit_cast<std::uint64_t>(value));
    }
}

// What a multiplication takes (where it was made ready) and makes. An operand that is multiplied with tile after tile counts with the first.
void Provenance::sample_multiplication(const TensorEvent& event, unsigned tile, const Tag* a, const Tag* b, const Tag* c, const Tag* d) {
    const auto& rule = event.op->rule;
    const auto meets_first = [](const Tag* other, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            if (is_element(other[i]) && is_regular(other[i]) && (row(other[i]) == 0 || column(other[i]) == 0)) return true;
        return false;
    };
    const std::size_t m = rule.m, n = rule.n, k = rule.k;
    const auto derived = [&](const Tag* tags, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            if (sampled(tags[i])) return true;
        return false;
    };
    const auto at = [&](std::uint32_t pc) { return pc == no_pc ? where_.pc : pc; };
    if (samples_.wants(at(a_pc_), Role::operand) && meets_first(b, n * k) && derived(a, m * k))
        sample_dense(at(a_pc_), Role::operand, rule.a, event.a, tile * m * k, a, m * k);
    if (samples_.wants(at(b_pc_), Role::operand) && meets_first(a, m * k) && derived(b, n * k))
        sample_dense(at(b_pc_), Role::operand, rule.b, event.b, tile * n * k, b, n * k);
    if (!is_regular(d[0]) && !is_regular(d[m * n - 1])) return;
    const auto made = matrix(is_regular(d[0]) ? d[0] : d[m * n - 1]);
    if (matrices_[made].depth > 1) sample_dense(where_.pc, Role::accumulator, rule.c, event.c, tile * m * n, c, m * n);
    if (complete(made)) sample_dense(where_.pc, Role::result, rule.d, event.d, tile * m * n, d, m * n);
}

// One register of each lane, as far as its granules are single values.
void Provenance::sample_register(const std::byte* bits, const Tag* tags, unsigned part) {
    for (unsigned g = 0; g < part;) {
        unsigned end = g + 1;
        while (end < part && tags[end] == tags[g]) ++end;
        const unsigned width = (end - g) << shift_;
        if (sampled(tags[g]) && complete(matrix(tags[g])) && (width == 2 || width == 4 || width == 8)) {
            std::uint64_t value = 0;
            std::memcpy(&value, bits + (std::size_t{g} << shift_), width);
            samples_.add(where_.pc, where_.block, Role::store, width, tags[g], value);
        }
        g = end;
    }
}

}  // namespace wmmadiag::provenance
