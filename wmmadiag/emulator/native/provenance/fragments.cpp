// Tags between fragments and memory.
#include <algorithm>
#include <bit>

#include "provenance.hpp"

namespace wmmadiag::provenance {

void Provenance::fragment_rule(const Inst& inst, bool store) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const auto& gather = (*plans_[where_.pc].gather)[3];
    const bool along = (inst.flags & flag::transposed) == 0;
    const auto lines = static_cast<unsigned>(std::popcount(access.active));
    std::array<Tag*, lanes> line{};
    for (unsigned i = 0; i < lines; ++i) line[i] = at(access.space, access.addresses[i], 0);
    const auto register_bytes = [&](std::size_t r) { return gather.slots[r] == no_operand ? 4u : gather.bits == 64 ? 8u : 4u; };
    if (gather.granules == 0) {  // elements narrower than a granule are not followed
        for (std::size_t r = 0; r < gather.slots.size() && !store; ++r)
            std::fill_n(write(gather.slots[r], 4, all_lanes), std::size_t{granules(4)} * lanes, mixed);
        return;
    }
    const auto n = gather.granules;
    const auto place = [&](std::uint32_t position) -> Tag* {
        const auto p = gather.place[position];
        auto* base = line[p >> 16];
        return base == nullptr ? nullptr : base + (p & 0xffff);
    };
    if (store) {
        for (const auto slot : gather.slots) materialise(slot, register_bytes(0));
        const bool samples = samples_.wants(where_.pc, Role::store);
        if (samples) samples_.next_event();
        else if (store_runs(gather, line, lines, along ? gather.width : gather.lines)) return;
        for (std::uint32_t position = 0; position < gather.granule.size(); ++position) {
            auto* to = place(position);
            if (to == nullptr) continue;
            const auto granule = gather.granule[position];
            if (samples && granule != no_granule)
                sample_register(now_->at<std::byte>(0) + (std::size_t{granule} << shift_), warp_->tags.data() + granule, n);
            // All granules of an element have its tag.
            const Tag* from = granule == no_granule ? &none : warp_->tags.data() + granule;
            stored(to[0], from[0]);
            for (unsigned g = 1; g < n; ++g) to[g] = granule == no_granule ? none : from[g];
        }
        return;
    }
    fit_stride(access, line, gather, along);
    for (const auto slot : gather.slots) write(slot, register_bytes(0), all_lanes);
    const bool present = std::all_of(line.begin(), line.begin() + lines, [](const Tag* at) { return at != nullptr; });
    if (present && !gather.runs.empty() && load_runs(gather, line)) return;
    auto& dense = dense_[3];
    dense.resize(gather.granule.size());
    bool suspicious = false;
    if (present) {
        const auto* places = gather.place.data();
        for (std::size_t position = 0; position < dense.size(); ++position) {
            const Tag tag = line[places[position] >> 16][places[position] & 0xffff];
            dense[position] = tag;
            suspicious |= tag == unwritten;
        }
    } else {
        for (std::uint32_t position = 0; position < dense.size(); ++position) {
            const auto* from = place(position);
            const Tag tag = from == nullptr ? none : from[0];
            dense[position] = tag;
            suspicious |= tag == unwritten;
        }
    }
    if (suspicious) {
        for (std::uint32_t position = 0; position < dense.size(); ++position) {
            const auto dense_line = position / gather.width, inside = position % gather.width;
            const auto address = access.addresses[along ? dense_line : inside] + (along ? inside : dense_line) * (gather.bits / 8);
            dense[position] = loaded(dense[position], access.space, address, 0);
        }
    }
    auto* tags = warp_->tags.data();
    if (n == 1) {
        for (const auto& [granule, position] : gather.scatter) tags[granule] = dense[position];
    } else {
        for (const auto& [granule, position] : gather.scatter)
            for (unsigned g = 0; g < n; ++g) tags[granule + g] = dense[position];
    }
}

// False: something that nothing wrote is read, which is looked at one by one.
bool Provenance::load_runs(const Gather& gather, const std::array<Tag*, lanes>& line) {
    auto* tags = warp_->tags.data();
    std::uint64_t missing = 0;
    const auto copy = [&](const Tag* from, Tag* to, std::size_t count, std::size_t step, unsigned n) {
        for (std::size_t i = 0; i < count; ++i) {
            const Tag tag = from[i * step];
            missing |= static_cast<std::uint64_t>(tag == unwritten);
            for (unsigned g = 0; g < n; ++g) to[i * n + g] = tag;
        }
    };
    for (const auto& run : gather.runs) {
        const auto* from = line[run.from >> 16] + (run.from & 0xffff);
        auto* to = tags + run.to;
        if (gather.granules == 1 && run.count == 8 && run.step == 1) copy(from, to, 8, 1, 1);
        else if (gather.granules == 2 && run.count == 4) copy(from, to, 4, run.step, 2);
        else copy(from, to, run.count, run.step, gather.granules);
    }
    return missing == 0;
}

// Whether storing a tag where another was is nothing to report, wherever in their matrices the two are.
bool Provenance::quiet(Tag to, Tag tag) {
    if (((to ^ tag) & matrix_mask) == 0 || !is_element(to) || !is_element(tag)) return true;
    return matrices_[matrix(to)].base != matrices_[matrix(tag)].base || includes(matrix(tag), matrix(to));
}

// Stores a fragment whose elements are all of one matrix over values that are, too. False: nothing was stored, it is something else.
bool Provenance::store_runs(const Gather& gather, const std::array<Tag*, lanes>& line, unsigned lines, unsigned width) {
    if (gather.runs.empty() || std::find(line.begin(), line.begin() + lines, nullptr) != line.begin() + lines) return false;
    auto* tags = warp_->tags.data();
    const auto n = gather.granules;
    const Tag old = line[0][0], now = tags[gather.runs[0].to];
    Tag differ = none;
    for (unsigned i = 0; i < lines; ++i) differ |= (line[i][0] ^ old) | differences(line[i], std::size_t{width} * n);
    for (const auto& run : gather.runs) differ |= (tags[run.to] ^ now) | differences(tags + run.to, std::size_t{run.count} * n);
    if ((differ & ~position_mask) != 0 || !quiet(old, now)) return false;
    const auto copy = [](const Tag* from, Tag* to, std::size_t count, std::size_t step, unsigned granules) {
        for (std::size_t i = 0; i < count; ++i)
            for (unsigned g = 0; g < granules; ++g) to[i * step + g] = from[i * granules + g];
    };
    for (const auto& run : gather.runs) {
        auto* to = line[run.from >> 16] + (run.from & 0xffff);
        if (n == 2 && run.count == 4) copy(tags + run.to, to, 4, run.step, 2);
        else copy(tags + run.to, to, run.count, run.step, n);
    }
    return true;
}

// Lines of a fragment that do not begin in one row or column of the matrix: the leading dimension that would make them, if there is one.
void Provenance::fit_stride(const Access& access, const std::array<Tag*, lanes>& line, const Gather& gather, bool along) {
    const auto lines = static_cast<unsigned>(std::popcount(access.active));
    if (lines < 2) return;
    const auto value = [&](unsigned i, unsigned j) { return line[i] == nullptr ? none : line[i][j * gather.granules]; };  // element j of line i
    const unsigned width = along ? gather.width : gather.lines;
    const Tag first = value(0, 0);
    if (!is_element(first) || !is_regular(first)) return;
    const Tag step = value(0, 1) - first;  // along a memory line
    if (step != 1 && step != Tag{1} << row_shift) return;
    const Tag across = step == 1 ? Tag{1} << row_shift : 1;
    const Tag same = step == 1 ? matrix_mask | index_mask : matrix_mask | index_mask << row_shift;  // constant from line to line
    for (unsigned i = 1; i < lines; ++i) {
        const Tag begin = value(i, 0), end = value(i, width - 1);
        if (begin == none && end == none) continue;  // zero filled
        if (((begin ^ first) & same) == 0 && end == begin + (width - 1) * step) continue;
        // Where the first element of the next row or column really is.
        constexpr unsigned furthest = 1u << 14;  // elements
        const auto bytes = gather.bits / 8;
        for (unsigned distance = 1; distance < furthest; ++distance) {
            if (access.space == Space::shared &&
                access.addresses[0] + std::uint64_t{distance + 1} * bytes > std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes)
                return;
            if (access.space == Space::global &&
                (last_region_ == nullptr || access.addresses[0] + std::uint64_t{distance + 1} * bytes > last_region_->base + last_region_->bytes))
                return;
            if (access.space != Space::shared && access.space != Space::global) return;
            const auto* tag = at(access.space, access.addresses[0] + std::uint64_t{distance} * bytes, 0);
            if (tag == nullptr) return;
            if (*tag != first + across) continue;
            // All other lines must lie there, too, or it is something else that happens to hold this element.
            for (unsigned l = 1; l < lines; ++l) {
                const auto at_line = [&](unsigned inside) {
                    const auto offset = (std::uint64_t{distance} * l + inside) * bytes;
                    const bool outside =
                        access.space == Space::shared
                            ? access.addresses[0] + offset + bytes > std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes
                            : access.addresses[0] + offset + bytes > last_region_->base + last_region_->bytes;
                    const auto* found = outside ? nullptr : at(access.space, access.addresses[0] + offset, 0);
                    return found == nullptr ? none : *found;
                };
                const Tag left = at_line(0), right = at_line(width - 1);
                const bool fits = left == first + l * across && (right == left + (width - 1) * step || !is_element(right) || !is_regular(right));
                if (!fits && is_element(left) && is_regular(left)) return;
            }
            const auto used = (access.addresses[1] - access.addresses[0]) / bytes;
            if (used != distance) note(EventKind::stride, where_.pc, matrices_[matrix(first)].base, static_cast<std::int64_t>(used), distance, first);
            return;
        }
        return;
    }
}

void Provenance::matrices_rule(const Inst& inst, bool store) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const bool transposed = (inst.flags & flag::transposed) != 0;
    const auto n = 2u >> shift_;  // granules per half
    for (unsigned i = 0; i < inst.count; ++i) {
        Tag* rows[8];
        for (unsigned r = 0; r < 8; ++r) rows[r] = at(access.space, access.addresses[8 * i + r], 0);
        auto* d = store ? nullptr : write(inst.extra[i], 4, all_lanes);
        const auto* s = store ? read(inst.extra[i]) : nullptr;
        if (!store && n == 1 && std::find(std::begin(rows), std::end(rows), nullptr) == std::end(rows)) {
            constexpr unsigned side = 8;
            if (transposed) {
                for (unsigned line = 0; line < side; ++line)
                    for (unsigned k = 0; k < side; ++k) d[side * line + k] = rows[k][line];
            } else {
                for (unsigned line = 0; line < side; ++line) std::copy_n(rows[line], side, d + std::size_t{side} * line);
            }
            if (!any_unwritten(d, side * side)) continue;
        }
        for (unsigned lane = 0; lane < lanes; ++lane) {
            for (unsigned half = 0; half < 2; ++half) {
                const unsigned line = lane / 4, k = lane % 4 * 2 + half;
                auto* cell = rows[transposed ? k : line];
                const auto offset = n * (transposed ? line : k);
                for (unsigned g = 0; g < n; ++g) {
                    const auto mine = n * (2 * lane + half) + g;
                    if (!store)
                        d[mine] =
                            cell == nullptr ? none : loaded(cell[offset + g], access.space, access.addresses[8 * i + (transposed ? k : line)], lane);
                    else if (cell != nullptr) stored(cell[offset + g], s == nullptr ? none : s[mine]);
                }
            }
        }
    }
}

void Provenance::transpose_rule(const Inst& inst) {
    const auto* s = read(inst.s[0]);
    if (s == nullptr) {
        clear(inst.d, 4, all_lanes);
        return;
    }
    const auto n = 2u >> shift_;
    std::array<Tag, 4 * lanes> from;
    std::copy_n(s, std::size_t{granules(4)} * lanes, from.data());
    auto* d = write(inst.d, 4, all_lanes);
    for (unsigned row = 0; row < 8; ++row)
        for (unsigned column = 0; column < 8; ++column)
            for (unsigned g = 0; g < n; ++g) d[n * (8 * row + column) + g] = from[n * (8 * column + row) + g];
}

}  // namespace wmmadiag::provenance
