#include "provenance.hpp"

#include <algorithm>
#include <stdexcept>

namespace wmmadiag::provenance {

namespace {

constexpr std::uint32_t unit = 64;  // bytes of the register file per flag

// The table that Python hands over: granule shift, arguments' matrices, host address of samples, how many, how many of one instruction, then
// (rows, columns) per matrix, then (device address, bytes, host address of tags) per region.
const std::vector<std::int64_t>& table_of(const Shared& shared) {
    static const std::vector<std::int64_t> nothing{1, 0, 0, 0, 0};
    return shared.check_table.empty() ? nothing : shared.check_table;
}

}  // namespace

Provenance::Provenance(const Shared& shared)
    : shared_(shared), shift_(static_cast<unsigned>(table_of(shared)[0])), matrices_(static_cast<std::uint32_t>(table_of(shared)[1])) {
    const auto& table = table_of(shared);
    const auto count = static_cast<std::size_t>(table[1]);
    extents_.resize(count + 1);
    for (std::size_t m = 1; m <= count; ++m)
        extents_[m] = {static_cast<std::uint32_t>(table[3 + 2 * m]), static_cast<std::uint32_t>(table[4 + 2 * m])};
    samples_ = Samples(reinterpret_cast<Sample*>(static_cast<std::uintptr_t>(table[2])), static_cast<std::uint64_t>(table[3]),
                       static_cast<std::uint64_t>(table[4]), shared.program->source().code.size());
    for (std::size_t i = 5 + 2 * count; i + 2 < table.size(); i += 3)
        regions_.push_back({static_cast<std::uint64_t>(table[i]), static_cast<std::uint64_t>(table[i + 1]),
                            reinterpret_cast<Tag*>(static_cast<std::uintptr_t>(table[i + 2]))});
    records_.push_back({});
    make_plans();
}

void Provenance::block_start(const Block& block) {
    std::unique_ptr<BlockShadow> shadow;
    if (!spare_.empty()) {
        shadow = std::move(spare_.back());
        spare_.pop_back();
    } else {
        shadow = std::make_unique<BlockShadow>();
    }
    const auto& source = shared_.program->source();
    shadow->warps.resize(block.warps().size());
    for (auto& warp : shadow->warps) {
        warp.tags.resize(source.register_bytes >> shift_);
        warp.tagged.assign(source.register_bytes / unit + 1, 0);
        warp.writer.assign(source.register_bytes / unit + 1, no_pc);
        warp.local.assign((std::size_t{source.local_bytes} * lanes >> shift_) + 1, unwritten);
        warp.copies.clear();
        warp.last_sum.clear();
    }
    shadow->shared.assign(((std::size_t{shared_.spec.shared_base} + shared_.spec.shared_bytes) >> shift_) + 1, unwritten);
    blocks_[block.index()] = std::move(shadow);
    block_index_ = ~0u;
}

void Provenance::block_end(const Block& block) {
    const auto found = blocks_.find(block.index());
    spare_.push_back(std::move(found->second));
    blocks_.erase(found);
    block_index_ = ~0u;
}

const Tag* Provenance::read(Operand slot) {
    if ((slot & constant_bit) != 0 || warp_->tagged[slot / unit] == 0) return nullptr;
    return warp_->tags.data() + (slot >> shift_);
}

std::vector<Tag> Provenance::register_tags(std::uint32_t block, std::uint32_t warp, Operand slot, unsigned width) const {
    const auto found = blocks_.find(block);
    if ((slot & constant_bit) != 0 || found == blocks_.end() || warp >= found->second->warps.size()) return {};
    const auto& shadow = found->second->warps[warp];
    const auto first = slot >> shift_, count = width * lanes >> shift_;
    if (slot / unit >= shadow.tagged.size() || first + count > shadow.tags.size()) return {};
    if (shadow.tagged[slot / unit] == 0) return std::vector<Tag>(count, none);
    return {shadow.tags.begin() + first, shadow.tags.begin() + first + count};
}

void Provenance::materialise(Operand slot, unsigned width) {
    if ((slot & constant_bit) != 0 || warp_->tagged[slot / unit] != 0) return;
    std::fill_n(warp_->tags.data() + (slot >> shift_), std::size_t{width} * lanes >> shift_, none);
}

Tag* Provenance::write(Operand slot, unsigned width, Mask active) {
    if (active != all_lanes) materialise(slot, width);
    warp_->tagged[slot / unit] = 1;
    warp_->writer[slot / unit] = where_.pc;
    return warp_->tags.data() + (slot >> shift_);
}

void Provenance::clear(Operand slot, unsigned width, Mask active) {
    if (slot == no_operand || warp_->tagged[slot / unit] == 0) return;
    if (active == all_lanes) {
        warp_->tagged[slot / unit] = 0;
        return;
    }
    const auto n = granules(width);
    auto* to = warp_->tags.data() + (slot >> shift_);
    for (Mask m = active; m != 0; m &= m - 1) std::fill_n(to + std::size_t{n} * static_cast<unsigned>(std::countr_zero(m)), n, none);
}

Tag* Provenance::at(Space space, std::uint64_t address, unsigned lane) {
    if (space == Space::generic) {
        space = space_of(address);
        address -= window_of(space);
    }
    if (space == Space::shared) return address >> shift_ < block_->shared.size() ? block_->shared.data() + (address >> shift_) : nullptr;
    if (space == Space::local) return warp_->local.data() + ((std::size_t{lane} * shared_.program->source().local_bytes + address) >> shift_);
    if (last_region_ == nullptr || address - last_region_->base >= last_region_->bytes) {
        last_region_ = nullptr;
        for (const auto& region : regions_)
            if (address - region.base < region.bytes) last_region_ = &region;
        if (last_region_ == nullptr) return nullptr;
    }
    return last_region_->tags + ((address - last_region_->base) >> shift_);
}

void Provenance::locate(const Access& access, Tag* (&to)[lanes]) {
    if (access.space == Space::shared && access.active == all_lanes) {
        std::uint64_t high = 0;
        for (unsigned l = 0; l < lanes; ++l) {
            to[l] = block_->shared.data() + (access.addresses[l] >> shift_);
            high = std::max(high, access.addresses[l]);
        }
        if (high >> shift_ < block_->shared.size()) return;
    }
    for (Mask m = access.active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        to[lane] = at(access.space, access.addresses[lane], lane);
    }
}

std::uint32_t Provenance::record(Kind kind, std::uint32_t pc, std::uint32_t a_pc, std::uint32_t b_pc, Tag first, Tag second, std::uint32_t line,
                                 std::uint32_t column, std::uint32_t k) {
    const auto [found, fresh] =
        record_index_.try_emplace({static_cast<std::uint32_t>(kind), pc, a_pc, b_pc}, static_cast<std::uint32_t>(records_.size()));
    if (fresh) {
        Record made{kind, pc, a_pc, b_pc};
        made.block = where_.block;
        made.warp = where_.warp;
        made.first = first;
        made.second = second;
        made.line = line;
        made.column = column;
        made.k = k;
        records_.push_back(made);
    }
    ++records_[found->second].count;
    return found->second;
}

void Provenance::note(EventKind kind, std::uint32_t pc, std::uint32_t matrix, std::int64_t a, std::int64_t b, Tag first) {
    auto& event = events_[{kind, pc, matrix, a, b}];
    if (event.count++ == 0) {
        event.where = where_;
        event.first = first;
    }
}

Tag Provenance::read_unwritten(Space space, std::uint64_t address, unsigned lane) {
    const auto index = record(Kind::unwritten, where_.pc, no_pc, no_pc, none, none);
    auto& made = records_[index];
    if (made.count == 1) {
        made.space = space;
        made.address = address;
        made.lane = lane;
    }
    return bad(index);
}

// A partial sum that gives way to another of the same element, which lacks some of what it had.
void Provenance::replaced(Tag to, Tag tag) {
    const auto old = matrix(to), now = matrix(tag);
    if (((to ^ tag) & position_mask) == 0 && matrices_[old].base == matrices_[now].base && !includes(now, old))
        note(EventKind::overwritten, where_.pc, matrices_[old].base, 0, 0, to);
}

// One pair is asked for again and again.
bool Provenance::includes(std::uint32_t a, std::uint32_t b) {
    if (a != included_[0] || b != included_[1]) {
        included_result_ = matrices_.includes(a, b);
        included_[0] = a;
        included_[1] = b;
    }
    return included_result_;
}

void Provenance::memory(const MemoryEvent& event) {
    if (event.kind == AccessKind::async_store) {
        async_landed(event);
        return;
    }
    Access access{event.where, event.space, event.kind, event.active, event.bytes, {}};
    std::copy_n(event.addresses, lanes, access.addresses);
    pending_.push_back(access);
}

void Provenance::meet(const Where&, Mask here, Mask) { met_ |= here; }

void Provenance::executed(const WriteEvent& event) {
    const auto& plan = plans_[event.where.pc];
    if (plan.rule == Rule::ignore) {
        pending_.clear();
        met_ = 0;
        return;
    }
    where_ = event.where;
    now_ = event.warp;
    if (block_index_ != where_.block) {
        block_ = blocks_.at(where_.block).get();
        block_index_ = where_.block;
    }
    warp_ = &block_->warps[where_.warp];
    const auto& inst = *event.inst;
    const auto active = event.active;
    if (active == 0) {
        pending_.clear();
        return;
    }
    switch (plan.rule) {
        case Rule::ignore: break;
        case Rule::clear: clear(inst.d, plan.width, active); break;
        case Rule::copy:
        case Rule::integer:
        case Rule::lanes: lane_rule(inst, active); break;
        case Rule::halves:
        case Rule::pack_halves: half_rule(inst, active); break;
        case Rule::select: select_rule(inst, active); break;
        case Rule::shift_left:
        case Rule::shift_right:
        case Rule::mask:
        case Rule::permute: bit_rule(inst, active); break;
        case Rule::shuffle: shuffle_rule(inst, active & met_); break;
        case Rule::reduce: reduce_rule(inst, active & met_); break;
        case Rule::pack:
        case Rule::unpack: pack_rule(inst, active); break;
        case Rule::load: load_rule(inst); break;
        case Rule::store: store_rule(inst); break;
        case Rule::atomic: atomic_rule(inst); break;
        case Rule::copy_async: async_rule(inst, active); break;
        case Rule::load_fragment: fragment_rule(inst, false); break;
        case Rule::store_fragment: fragment_rule(inst, true); break;
        case Rule::load_matrices: matrices_rule(inst, false); break;
        case Rule::store_matrices: matrices_rule(inst, true); break;
        case Rule::transpose_matrix: transpose_rule(inst); break;
        case Rule::multiply: break;  // in `tensor`
    }
    pending_.clear();
    met_ = 0;
}

// Kinds and their values; wmmadiag/provenance/raw.py reads them.
std::vector<RawFinding> Provenance::findings() {
    std::vector<RawFinding> to;
    const auto add = [&](const char* kind, std::uint32_t pc, std::vector<std::int64_t> values) -> RawFinding& {
        RawFinding f;
        f.check = "provenance";
        f.kind = kind;
        f.pc = pc;
        f.other_pc = static_cast<std::uint32_t>(to.size());  // keeps findings apart
        f.values = std::move(values);
        to.push_back(std::move(f));
        return to.back();
    };
    const auto i64 = [](auto value) { return static_cast<std::int64_t>(value); };
    for (std::size_t m = 0; m < matrices_.all().size(); ++m) {
        const auto& one = matrices_.all()[m];
        if (one.product == 0xffffffffu) continue;
        const auto& p = matrices_.products()[one.product];
        const auto& coverage = matrices_.coverage(static_cast<std::uint32_t>(m));
        std::vector<std::int64_t> values{i64(m),       i64(one.base),     i64(p.left),      i64(p.left_axis),
                                         i64(p.right), i64(p.right_axis), i64(p.corrected), i64(coverage.repeated)};
        for (const auto& [first, end] : coverage.intervals) {
            values.push_back(first);
            values.push_back(end);
        }
        add("matrix", no_pc, std::move(values));
    }
    for (std::size_t r = 1; r < records_.size(); ++r) {
        const auto& one = records_[r];
        auto& f = add("record", one.pc,
                      {i64(r), i64(one.kind), i64(one.a_pc), i64(one.b_pc), i64(one.first), i64(one.second), one.line, one.column, one.k});
        f.count = one.count;
        f.block = one.block;
        f.warp = one.warp;
        f.lane = one.lane;
        f.space = one.space;
        f.address = one.address;
    }
    for (const auto& [key, event] : events_) {
        const auto& [kind, pc, m, a, b] = key;
        auto& f = add("event", pc, {i64(kind), m, a, b, i64(event.first)});
        f.count = event.count;
        f.block = event.where.block;
        f.warp = event.where.warp;
    }
    for (const auto& [key, use] : uses_) {
        auto& f =
            add("use", key.first,
                {key.second, use.rows[0], use.rows[1], use.columns[0], use.columns[1], use.ks[0], use.ks[1], i64(use.swapped), use.a_pc, use.b_pc});
        f.count = use.count;
    }
    add("samples", no_pc, {i64(samples_.size()), i64(samples_.full())});
    for (const auto& [pc, count] : unexplained_) add("unexplained", pc, {}).count = count;
    return to;
}

}  // namespace wmmadiag::provenance
