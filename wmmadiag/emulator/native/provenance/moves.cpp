// Tags between registers and memory.
#include <algorithm>
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

namespace {

// Whether 32 places follow each other, `granules` apart.
bool side_by_side(Tag* const (&places)[lanes], unsigned granules) {
    const auto first = reinterpret_cast<std::uintptr_t>(places[0]);
    std::uintptr_t wrong = 0;
    for (unsigned l = 0; l < lanes; ++l) wrong |= reinterpret_cast<std::uintptr_t>(places[l]) ^ (first + l * granules * sizeof(Tag));
    return first != 0 && wrong == 0;
}

}  // namespace

// False: something that nothing wrote is read, which is looked at one by one.
bool Provenance::load_row(const Inst& inst, const Tag* from, unsigned count) {
    if (any_unwritten(from, count)) return false;
    Tag any = none;
    for (unsigned i = 0; i < count; ++i) any |= from[i];
    if (any == none) clear(inst.extra[0], inst.register_bytes, all_lanes);
    else std::copy_n(from, count, write(inst.extra[0], inst.register_bytes, all_lanes));
    return true;
}

void Provenance::load_rule(const Inst& inst) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const auto own = granules(inst.register_bytes), part = std::min(granules(inst.bytes), own);
    Tag* from[lanes];
    locate(access, from);
    if (inst.count == 1 && inst.extra[0] != no_operand && own == part && own <= 2 && access.active == all_lanes) {
        // One value per lane, as most loads are; and most of those take them from neighbouring places.
        if (side_by_side(from, own)) {
            if (load_row(inst, from[0], own * lanes)) return;
        } else if (std::find(std::begin(from), std::end(from), nullptr) == std::end(from)) {
            Tag value[2 * lanes];
            for (unsigned lane = 0; lane < lanes; ++lane)
                for (unsigned g = 0; g < own; ++g) value[own * lane + g] = from[lane][g];
            if (load_row(inst, value, own * lanes)) return;
        }
    }
    Tag any = none;
    for (Mask m = access.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
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

// Stores one value per lane where nothing is to report. False: nothing was stored, the lanes have to be looked at one by one.
bool Provenance::store_row(Tag* const (&cells)[lanes], const Tag* from, unsigned own) {
    const std::size_t count = std::size_t{own} * lanes;
    const bool neighbours = side_by_side(cells, own);
    if (!neighbours && std::find(std::begin(cells), std::end(cells), nullptr) != std::end(cells)) return false;
    const auto each = [&](auto&& body) {
        for (unsigned lane = 0; lane < lanes; ++lane)
            for (unsigned g = 0; g < own; ++g) body(cells[lane][g], own * lane + g);
    };
    if (from != nullptr) {
        Tag differ = differences(from, count);
        if (neighbours) differ |= differences(cells[0], count);
        else each([&](const Tag& cell, unsigned) { differ |= cell ^ *cells[0]; });
        if ((differ & ~position_mask) != 0 || !quiet(*cells[0], *from)) return false;
    }
    if (!neighbours) each([&](Tag& cell, unsigned i) { cell = from == nullptr ? none : from[i]; });
    else if (from == nullptr) std::fill_n(cells[0], count, none);
    else std::copy_n(from, count, cells[0]);
    return true;
}

void Provenance::store_rule(const Inst& inst) {
    if (pending_.empty()) return;
    const auto& access = pending_.front();
    const auto own = granules(inst.register_bytes), part = std::min(granules(inst.bytes), own);
    const Tag* from[8]{};
    bool any = false;
    for (unsigned i = 0; i < inst.count && i < 8; ++i) any |= (from[i] = read(inst.extra[i])) != nullptr;
    const bool samples = any && samples_.wants(where_.pc, Role::store);
    if (samples) samples_.next_event();
    Tag* cells[lanes];
    locate(access, cells);
    if (inst.count == 1 && own == part && own <= 2 && access.active == all_lanes && !samples && store_row(cells, from[0], own)) return;
    for (Mask m = access.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        if (samples) {
            for (unsigned i = 0; i < inst.count && i < 8; ++i)
                if (from[i] != nullptr)
                    sample_register(now_->at<std::byte>(inst.extra[i]) + std::size_t{inst.register_bytes} * lane, from[i] + std::size_t{own} * lane,
                                    part);
        }
        auto* to = cells[lane];
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

}  // namespace wmmadiag::provenance
