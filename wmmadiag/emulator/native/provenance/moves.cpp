// Tags between registers and memory.
#include <bit>

#include "provenance.hpp"

namespace wmmadiag::provenance {

void Provenance::pack_rule(const Inst& inst, Mask active) {
    const auto& plan = plans_[where_.pc];
    const auto total = granules(inst.register_bytes), part = granules(inst.bytes), own = granules(std::max<unsigned>(inst.bytes, 2));
    if (plan.rule == Rule::pack) {
        const Tag* from[8]{};
        bool any = false;
        for (unsigned i = 0; i < inst.count && i < 8; ++i) any |= (from[i] = read(inst.extra[i])) != nullptr;
        if (!any) {
            clear(inst.d, inst.register_bytes, active);
            return;
        }
        auto* d = write(inst.d, inst.register_bytes, active);
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            for (unsigned i = 0; i < inst.count && i < 8; ++i)
                for (unsigned g = 0; g < part; ++g) {
                    const auto to = (i * inst.bytes >> shift_) + g;  // narrow elements share a granule
                    if (to < total) d[std::size_t{total} * lane + to] = from[i] == nullptr ? none : from[i][std::size_t{own} * lane + g];
                }
        }
        return;
    }
    const auto* from = read(inst.s[0]);
    if (from == nullptr) {
        for (unsigned i = 0; i < inst.count; ++i) clear(inst.extra[i], std::max<unsigned>(inst.bytes, 2), active);
        return;
    }
    std::vector<Tag> copy(from, from + std::size_t{total} * lanes);  // a destination may be the source
    for (unsigned i = 0; i < inst.count; ++i) {
        if (inst.extra[i] == no_operand) continue;
        auto* d = write(inst.extra[i], std::max<unsigned>(inst.bytes, 2), active);
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            for (unsigned g = 0; g < own; ++g)
                d[std::size_t{own} * lane + g] = g < part ? copy[std::size_t{total} * lane + (i * inst.bytes >> shift_) + g] : none;
        }
    }
}

void Provenance::load_rule(const Inst& inst) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const auto own = granules(inst.register_bytes), part = std::min(granules(inst.bytes), own);
    Tag* from[lanes];
    Tag any = none;
    for (Mask m = access.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        from[lane] = at(access.space, access.addresses[lane], lane);
        if (from[lane] != nullptr)
            for (unsigned g = 0; g < std::max(1u, access.bytes >> shift_); ++g) any |= from[lane][g];
    }
    for (unsigned i = 0; i < inst.count; ++i) {
        if (inst.extra[i] == no_operand) continue;
        if (any == none) {
            clear(inst.extra[i], inst.register_bytes, access.active);
            continue;
        }
        auto* d = write(inst.extra[i], inst.register_bytes, access.active);
        for (Mask m = access.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            auto* to = d + std::size_t{own} * lane;
            for (unsigned g = 0; g < own; ++g) {
                const Tag tag = from[lane] == nullptr || g >= part ? none : from[lane][(i * inst.bytes >> shift_) + g];
                to[g] = loaded(tag, access.space, access.addresses[lane] + i * inst.bytes, lane);
            }
        }
    }
}

void Provenance::store_rule(const Inst& inst) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const auto own = granules(inst.register_bytes), part = std::min(granules(inst.bytes), own);
    const Tag* from[8]{};
    for (unsigned i = 0; i < inst.count && i < 8; ++i) from[i] = read(inst.extra[i]);
    for (Mask m = access.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto* to = at(access.space, access.addresses[lane], lane);
        if (to == nullptr) continue;
        for (unsigned i = 0; i < inst.count && i < 8; ++i)
            for (unsigned g = 0; g < part; ++g)
                stored(to[(i * inst.bytes >> shift_) + g], from[i] == nullptr ? none : from[i][std::size_t{own} * lane + g]);
    }
}

void Provenance::atomic_rule(const Inst& inst) {
    if (pending_.empty() || inst.count == 0) return;
    const auto& access = pending_.front();
    const auto bytes = access.bytes / inst.count;
    const auto n = granules(bytes);
    const bool exchanges = (inst.code & 0xff) >= 8;  // exch, cas: see execute_atomic.cpp
    const bool adds = (inst.code & 0xff) == 0;
    for (unsigned i = 0; i < inst.count; ++i) {
        const auto* slots = inst.extra + 3 * std::size_t{i};
        const auto* value = read(slots[1]);
        std::vector<Tag> old(std::size_t{n} * lanes, none);
        for (Mask m = access.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            auto* to = at(access.space, access.addresses[lane], lane);
            if (to == nullptr) continue;
            for (unsigned g = 0; g < n; ++g) {
                auto& cell = to[(i * bytes >> shift_) + g];
                const Tag tag = value == nullptr ? none : value[std::size_t{n} * lane + g];
                if (cell == unwritten) cell = bad(record(Kind::unwritten, where_.pc, no_pc, no_pc, none, none));
                old[std::size_t{n} * lane + g] = cell;
                cell = exchanges ? tag : combine(cell, tag, adds ? Arithmetic::add : Arithmetic::extremum);
            }
        }
        if (slots[0] == no_operand) continue;
        auto* d = write(slots[0], bytes, access.active);
        for (Mask m = access.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            std::copy_n(old.data() + std::size_t{n} * lane, n, d + std::size_t{n} * lane);
        }
    }
}

void Provenance::async_rule(const Inst& inst, Mask active) {
    AsyncTags copy{where_.pc, active, granules(inst.bytes), {}};
    copy.tags.assign(std::size_t{copy.granules} * lanes, none);
    for (const auto& access : pending_) {
        if (access.kind != AccessKind::async_load) continue;
        for (Mask m = access.active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto* from = at(access.space, access.addresses[lane], lane);
            if (from != nullptr) std::copy_n(from, access.bytes >> shift_, copy.tags.data() + std::size_t{copy.granules} * lane);
        }
    }
    warp_->copies.push_back(std::move(copy));
}

void Provenance::async_landed(const MemoryEvent& event) {
    auto& block = *blocks_.at(event.where.block);
    auto& copies = block.warps[event.where.warp].copies;
    const auto copy = std::find_if(copies.begin(), copies.end(),
                                   [&](const AsyncTags& c) { return c.pc == event.where.pc && (c.left & event.active) == event.active; });
    if (copy == copies.end()) return;
    for (Mask m = event.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        std::copy_n(copy->tags.data() + std::size_t{copy->granules} * lane, copy->granules, block.shared.data() + (event.addresses[lane] >> shift_));
    }
    copy->left &= ~event.active;
    std::erase_if(copies, [](const AsyncTags& c) { return c.left == 0; });
}

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
        for (std::uint32_t position = 0; position < gather.granule.size(); ++position) {
            auto* to = place(position);
            if (to == nullptr) continue;
            const auto granule = gather.granule[position];
            for (unsigned g = 0; g < n; ++g) stored(to[g], granule == no_granule ? none : warp_->tags[granule + g]);
        }
        return;
    }
    auto& dense = dense_[3];
    dense.resize(gather.granule.size());
    bool suspicious = false;
    for (std::uint32_t position = 0; position < dense.size(); ++position) {
        const auto* from = place(position);
        const Tag tag = from == nullptr ? none : from[0];
        dense[position] = tag;
        suspicious |= tag == unwritten;
    }
    for (const auto slot : gather.slots) write(slot, register_bytes(0), all_lanes);
    fit_stride(inst, access, dense, gather, along);
    if (suspicious) {
        for (std::uint32_t position = 0; position < dense.size(); ++position) {
            const auto dense_line = position / gather.width, inside = position % gather.width;
            const auto address = access.addresses[along ? dense_line : inside] + (along ? inside : dense_line) * (gather.bits / 8);
            dense[position] = loaded(dense[position], access.space, address, 0);
        }
    }
    for (const auto& [granule, position] : gather.scatter)
        for (unsigned g = 0; g < n; ++g) warp_->tags[granule + g] = dense[position];
}

// Lines of a fragment that do not begin in one row or column of the matrix: the leading dimension that would make them, if there is one.
void Provenance::fit_stride(const Inst& inst, const Access& access, const std::vector<Tag>& dense, const Gather& gather, bool along) {
    const auto lines = static_cast<unsigned>(std::popcount(access.active));
    if (lines < 2) return;
    const auto value = [&](unsigned i, unsigned j) {
        return dense[along ? i * gather.width + j : j * gather.width + i];
    };  // memory line i, element j
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
            const auto used = (access.addresses[1] - access.addresses[0]) / bytes;
            if (used != distance) note(EventKind::stride, where_.pc, matrices_[matrix(first)].base, static_cast<std::int64_t>(used), distance, first);
            return;
        }
        return;
    }
    static_cast<void>(inst);
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
