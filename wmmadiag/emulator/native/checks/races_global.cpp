// Global memory: pages of shadow, and the order between blocks.
#include <algorithm>
#include <utility>

#include "races.hpp"

namespace wmmadiag::races {

namespace {

constexpr std::size_t most_foreigners = 1u << 22;  // then only the newest of several atomics is kept

bool dominates(const Clock& one, const Clock& other) {
    for (unsigned w = 0; w < max_warps; ++w)
        if (one[w] < other[w]) return false;
    return true;
}

// Whether all that `other` knows is known to `one`: nearly always so, and then nothing has to be made.
bool covers(const View& one, const View& other) {
    auto a = one.begin();
    for (const auto& [block, clock] : other) {
        while (a != one.end() && a->first < block) ++a;
        if (a == one.end() || a->first != block || !(a->second == clock || dominates(*a->second, *clock))) return false;
    }
    return true;
}

}  // namespace

void join(Foreign& to, const Foreign& from) {
    if (!from || to == from) return;
    if (!to) {
        to = from;
        return;
    }
    if (covers(*to, *from)) return;
    if (covers(*from, *to)) {
        to = from;
        return;
    }
    auto made = std::make_shared<View>();
    made->reserve(std::max(to->size(), from->size()));
    auto a = to->begin(), b = from->begin();
    while (a != to->end() || b != from->end()) {
        if (b == from->end() || (a != to->end() && a->first < b->first)) {
            made->push_back(*a++);
        } else if (a == to->end() || b->first < a->first) {
            made->push_back(*b++);
        } else {
            if (a->second == b->second || dominates(*a->second, *b->second)) {
                made->push_back(*a);
            } else if (dominates(*b->second, *a->second)) {
                made->push_back(*b);
            } else {
                auto both = std::make_shared<Clock>(*a->second);
                join(*both, *b->second);
                made->emplace_back(a->first, std::move(both));
            }
            ++a, ++b;
        }
    }
    to = std::move(made);
}

const Clock* clock_of(const Foreign& known, std::uint32_t block) {
    if (!known) return nullptr;
    const auto at = std::lower_bound(known->begin(), known->end(), block, [](const auto& entry, std::uint32_t index) { return entry.first < index; });
    return at != known->end() && at->first == block ? at->second.get() : nullptr;
}

Page& Races::page(std::uint64_t number) {
    if (number != last_page_ || last_page_data_ == nullptr) {
        auto& at = pages_[number];
        if (!at) at = std::make_unique<Page>((std::size_t{1} << page_bits) >> global_shift_);
        last_page_ = number;
        last_page_data_ = at.get();
    }
    return *last_page_data_;
}

void Races::touch_global(BlockState& b, const Access& access, std::uint64_t address, std::uint32_t bytes, const Lane* lane_of) {
    const auto mask = (std::uint64_t{1} << page_bits) - 1;
    const auto tag = b.index + 1;
    while (bytes != 0) {
        auto& p = page(address >> page_bits);
        const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(bytes, mask + 1 - (address & mask)));
        const std::size_t first = (address & mask) >> global_shift_, count = std::max<std::size_t>(length >> global_shift_, 1);
        for (std::size_t g = first; g < first + count; ++g) {
            if (between_) between_blocks(b, access, p, address + ((g - first) << global_shift_), g, lane_of[g - first]);
            // Stamps are those of one block.
            if (p.write_block[g] != tag) p.write[g] = 0;
            if (p.read_block[g] != tag) p.read[g] = p.other_read[g] = 0;
        }
        const Cells cells{p.write.data(), p.read.data(), p.other_read.data(), p.write_lane.data(), p.read_lane.data()};
        touch(b, access, cells, Space::global, address, first, count, global_shift_, lane_of);
        if (access.role != Role::read) std::fill_n(p.write_block.begin() + static_cast<std::ptrdiff_t>(first), count, tag);
        if (access.role != Role::write) std::fill_n(p.read_block.begin() + static_cast<std::ptrdiff_t>(first), count, tag);
        if (between_) {
            if (access.role != Role::read) {
                const auto me = foreigner(b, access, 0);
                for (std::size_t g = first; g < first + count; ++g) {  // of atomics, all that stand side by side
                    const auto old = p.last_write[g];
                    const bool more = (access.strength & foreigners_[old].strength & strength::read_modify_write) != 0;
                    p.last_write[g] = more && foreigners_.size() < most_foreigners ? with_reader(b, access, old) : me;
                }
                std::fill_n(p.readers.begin() + static_cast<std::ptrdiff_t>(first), count, 0u);
            } else {
                std::uint32_t before = 0, after = with_reader(b, access, 0);
                for (std::size_t g = first; g < first + count; ++g) {
                    if (p.readers[g] != before) before = p.readers[g], after = with_reader(b, access, before);
                    p.readers[g] = after;
                }
            }
        }
        lane_of += count;
        address += length;
        bytes -= length;
    }
}

// The access as a new element of a set; alone, one for all that have its stamp.
std::uint32_t Races::foreigner(const BlockState& b, const Access& access, std::uint32_t others) {
    const Foreigner made{b.index, access.stamp, access.where.pc, access.pass, access.strength, others};
    const auto next = static_cast<std::uint32_t>(foreigners_.size());
    if (others == 0) {
        const auto [at, fresh] = of_stamp_.try_emplace(std::uint64_t{b.index} << 32 | access.stamp, next);
        if (!fresh) return at->second;
    }
    foreigners_.push_back(made);
    return next;
}

// A set of reads with this one; what the same warp read before is in it no longer, this read comes after it.
std::uint32_t Races::with_reader(const BlockState& b, const Access& access, std::uint32_t set) {
    const auto me = foreigner(b, access, 0);
    if (set == 0 || set == me) return me;
    if (foreigners_[set].block == b.index && foreigners_[set].stamp == access.stamp) return set;
    const auto [at, fresh] = unions_.try_emplace(std::uint64_t{set} << 32 | me, 0);
    if (!fresh) return at->second;
    constexpr unsigned near = 64;  // further back it is kept: no race is lost by it
    std::vector<std::uint32_t> newer;
    std::uint32_t rest = set;
    for (auto i = set; i != 0 && newer.size() < near; i = foreigners_[i].others) {
        const auto& one = foreigners_[i];
        if (one.block == b.index && (one.stamp & warp_mask) == access.where.warp) {
            rest = one.others;
            for (auto kept = newer.rbegin(); kept != newer.rend(); ++kept) {
                auto copy = foreigners_[*kept];
                copy.others = rest;
                rest = static_cast<std::uint32_t>(foreigners_.size());
                foreigners_.push_back(copy);
            }
            break;
        }
        newer.push_back(i);
    }
    at->second = rest == 0 ? me : foreigner(b, access, rest);
    return at->second;
}

// A launch whose blocks share memory runs block after block on one thread, see grid.cpp.
void Races::between_blocks(BlockState& b, const Access& access, Page& page, std::uint64_t address, std::size_t g, unsigned lane) {
    const auto me = access.where.warp;
    const auto& warp = b.warps[me];
    const auto knows_of = [](const Foreign& known, const Foreigner& one) {
        const auto* clock = clock_of(known, one.block);
        return clock != nullptr && (*clock)[one.stamp & warp_mask] >= one.stamp;
    };
    const Coherence* at = nullptr;
    Seen seen;  // there, when it is first asked for
    const auto look = [&](std::uint32_t index, bool wrote) {
        const auto one = foreigners_[index];
        if (one.block == nobody || one.block == b.index || knows_of(warp.foreign, one)) return;
        const bool both = access.strong() && one.strength != strength::weak;
        const bool scopes = both && ((access.strength | one.strength) & strength::block_scope) != 0;
        if (both && !scopes && (access.strength & one.strength & strength::read_modify_write) != 0) return;
        if (!wrote && access.role == Role::write && unchanged(b, access, lane, Space::global, address)) return;
        if (at == nullptr) {
            at = coherence_at(b, Space::global, address);
            if (at != nullptr) seen = seen_in_coherence(b, me, *at);
        }
        if (at != nullptr && after_in_coherence(*at, seen, one.block, one.stamp)) return;
        const bool same = wrote && access.role == Role::write && unchanged(b, access, lane, Space::global, address);
        const bool mixed = access.role == Role::atomic || (one.strength & strength::read_modify_write) != 0;
        const std::string_view kind = scopes                                   ? "blocks-scope"
                                      : both                                   ? "blocks-relaxed"
                                      : knows_of(warp.foreign_acquirable, one) ? "blocks-no-acquire"
                                      : access.role == Role::read || !wrote    ? "blocks-read-write"
                                      : same                                   ? "blocks-write-same"
                                      : mixed                                  ? "blocks-atomic-write"
                                                                               : "blocks-write-write";
        const Earlier earlier{
            one.block, one.stamp & warp_mask, wrote && page.write_block[g] == one.block + 1 ? page.write_lane[g] : nobody, one.pc, one.pass,
            one.stamp};
        report(kind, b, access, lane, earlier, Space::global, address, {wrote, 0}, !wrote);
    };
    for (auto i = page.last_write[g]; i != 0; i = foreigners_[i].others) look(i, true);
    if (access.role == Role::read) return;
    for (auto i = page.readers[g]; i != 0; i = foreigners_[i].others) look(i, false);
}

}  // namespace wmmadiag::races
