// Multiplications of operands whose lines follow each other in their matrices, as nearly all do: looked at register by register, without
// making the matrices dense. multiply.cpp says what any other multiplication gives, and the same of these.
#include "provenance.hpp"

namespace wmmadiag::provenance {

namespace {

bool follow(const Tag* tags, const Tag* offsets, std::size_t count, Tag first) {
    Tag wrong = none;
    for (std::size_t i = 0; i < count; ++i) wrong |= tags[i] ^ (first + offsets[i]);
    return wrong == none;
}

bool all_none(const Tag* tags, std::size_t count) {
    Tag any = none;
    for (std::size_t i = 0; i < count; ++i) any |= tags[i];
    return any == none;
}

}  // namespace

// An operand's lines: rows or columns of `first`'s matrix from `line` on, from `k` on along `axis`.
struct Provenance::Ramped {
    Tag first = none;
    std::uint32_t line = 0, k = 0;
    Axis axis = Axis::column;
};

const Ramp* Provenance::make_ramp(std::uint32_t map_index, const std::vector<std::uint16_t>& order, bool of_lines) {
    const auto& map = shared_.program->source().maps[map_index];
    if (map.element_bits < 8u << shift_ || map.elements * map.element_bits / 8u != map.register_bytes) return nullptr;
    const auto [found, fresh] = ramps_.try_emplace({map_index, order, of_lines});
    auto& ramp = found->second;
    if (!fresh) return &ramp;
    std::vector<std::uint16_t> column(of_lines ? map.lines : map.width);  // at each dense position
    for (std::size_t j = 0; j < column.size(); ++j) column[order.empty() ? j : order[j]] = static_cast<std::uint16_t>(j);
    const auto per_element = map.element_bits / 8u >> shift_;
    ramp.granules = std::size_t{map.register_bytes} * lanes >> shift_;
    for (auto& offsets : ramp.offsets) offsets.resize(ramp.granules * map.registers);
    for (unsigned r = 0; r < map.registers; ++r) {
        for (unsigned l = 0; l < lanes; ++l) {
            for (unsigned e = 0; e < map.elements; ++e) {
                const auto position = static_cast<std::uint32_t>(map.index[(std::size_t{r} * map.elements + e) * lanes + l]);
                Tag line = position / map.width, inside = position % map.width;
                (of_lines ? line : inside) = column[of_lines ? line : inside];
                const auto at = ramp.granules * r + (std::size_t{l} * map.elements + e) * per_element;
                std::fill_n(ramp.offsets[0].begin() + static_cast<std::ptrdiff_t>(at), per_element, line << row_shift | inside);
                std::fill_n(ramp.offsets[1].begin() + static_cast<std::ptrdiff_t>(at), per_element, inside << row_shift | line);
            }
        }
    }
    const auto begin = order.empty() ? 0u : order[0];
    ramp.first = of_lines ? begin * map.width : begin;
    ramp.second = of_lines ? ramp.first + 1 : order.empty() ? 1u : order[1];
    return &ramp;
}

bool Provenance::holds(const Gather& gather, unsigned orientation, Tag first) const {
    const auto& ramp = *gather.ramp;
    const auto* offsets = ramp.offsets[orientation].data();
    for (const auto slot : gather.slots) {
        if (!follow(warp_->tags.data() + (slot >> shift_), offsets, ramp.granules, first)) return false;
        offsets += ramp.granules;
    }
    return true;
}

bool Provenance::ramped(const Gather& gather, Ramped& to) {
    if (gather.ramp == nullptr || gather.width < 2) return false;
    for (const auto slot : gather.slots)
        if (read(slot) == nullptr) return false;
    const auto* tags = warp_->tags.data();
    to.first = tags[gather.granule[gather.ramp->first]];
    if (!is_element(to.first) || !is_regular(to.first)) return false;
    const Tag next = tags[gather.granule[gather.ramp->second]];
    to.axis = row(next) != row(to.first) ? Axis::row : Axis::column;
    const bool along = to.axis == Axis::column;
    to.k = along ? column(to.first) : row(to.first);
    to.line = along ? row(to.first) : column(to.first);
    // A sum of tags must not carry from one index into the next.
    if (to.k + gather.width > index_mask || to.line + gather.lines > index_mask) return false;
    return holds(gather, along ? 0 : 1, to.first);
}

// False: nothing was written.
bool Provenance::multiply_ramps(const TensorEvent& event) {
    const auto& [a, b, c, d] = *plans_[where_.pc].gather;
    Ramped left, right;
    if (event.op->tiles != 1 || c.ramp == nullptr || d.ramp == nullptr || !ramped(a, left) || !ramped(b, right) || left.k != right.k) return false;
    bool swapped = false;
    const auto product = matrices_.product(matrix(left.first), left.axis, matrix(right.first), right.axis, swapped);
    const auto& rows = swapped ? right : left;
    const auto& columns = swapped ? left : right;
    const Tag position = Tag{rows.line} << row_shift | columns.line;
    const unsigned orientation = swapped ? 1 : 0;

    std::size_t tagged = 0;
    for (const auto slot : c.slots) tagged += read(slot) != nullptr ? 1 : 0;
    Tag before = none;
    if (tagged != 0) {
        if (tagged != c.slots.size()) return false;
        before = warp_->tags[c.granule[c.ramp->first]];
        if (before == none) {
            for (const auto slot : c.slots)
                if (!all_none(registers(slot), c.ramp->granules)) return false;
        } else if (!is_regular(before) || !is_element(before) || (before & position_mask) != position || matrices_[matrix(before)].base != product ||
                   !holds(c, orientation, before)) {
            return false;
        }
    }
    const bool correction = ((left.first | right.first) & residual) != 0;
    auto sum = before == none ? product : matrix(before);
    if (correction) matrices_.correct(product);
    else sum = matrices_.extend(sum, matrices_.range(left.k, a.width));
    if (samples_wanted(left, right, sum)) return false;

    const Tag now = full | Tag{sum} << matrix_shift | position;
    const auto* offsets = d.ramp->offsets[orientation].data();
    for (const auto slot : d.slots) {
        auto* to = write(slot, 0, all_lanes);
        for (std::size_t i = 0; i < d.ramp->granules; ++i) to[i] = now + offsets[i];
        offsets += d.ramp->granules;
    }
    restarted(warp_->tags[d.granule[0]], before == none);
    const auto row_count = swapped ? b.lines : a.lines, column_count = swapped ? a.lines : b.lines;
    use(product, swapped, rows.line, rows.line + row_count - 1, columns.line, columns.line + column_count - 1, left.k, left.k + a.width - 1);
    return true;
}

// Whether `sample_multiplication` would take something.
bool Provenance::samples_wanted(const Ramped& left, const Ramped& right, std::uint32_t made) {
    const auto operand = [&](std::uint32_t pc, const Ramped& one, const Ramped& other) {
        return samples_.wants(pc == no_pc ? where_.pc : pc, Role::operand) && (other.line == 0 || other.k == 0) && sampled(one.first);
    };
    return operand(a_pc_, left, right) || operand(b_pc_, right, left) ||
           (matrices_[made].depth > 1 && samples_.wants(where_.pc, Role::accumulator)) || (complete(made) && samples_.wants(where_.pc, Role::result));
}

}  // namespace wmmadiag::provenance
