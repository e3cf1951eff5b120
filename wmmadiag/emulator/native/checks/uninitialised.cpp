// The events of uninitialised.hpp, where tainted values come from, and where they arrive.
#include "uninitialised.hpp"

namespace wmmadiag {

namespace {

constexpr std::array sink_names{"output", "branch", "address"};

}  // namespace

Uninitialised::Uninitialised(const Shared& shared)
    : shared_(shared),
      source_(shared.program->source()),
      code_(shared.program->code().data()),
      rules_(taint_rules(source_)),
      unwritten_(unwritten_registers(*shared.program)) {
    origins_.emplace_back();  // 0: none
    arrivals_.emplace_back();
}

void Uninitialised::block_start(const Block& block) {
    current_ = nullptr;
    auto state = take();
    const auto warps = block.warps().size();
    const auto shared_bytes = std::uint64_t{shared_.spec.shared_base} + shared_.spec.shared_bytes;
    const auto local_bytes = std::uint64_t{source_.local_bytes} * lanes * warps;
    if (state->warps.empty()) {
        state->warps = std::vector<RegisterTaint>(warps);
        state->shared = ShadowBits(shared_bytes);
        state->local = ShadowBits(local_bytes);
        state->shared_origin.assign(shared_bytes, 0);
        state->local_origin.assign(local_bytes, 0);
        state->writer_of.assign(source_.code.size(), 0);
    } else if (state->origins_used) {
        std::fill(state->shared_origin.begin(), state->shared_origin.end(), 0);
        std::fill(state->local_origin.begin(), state->local_origin.end(), 0);
    }
    state->origins_used = false;
    state->shared.fill(true);
    if (shared_.spec.shared_stride != 0) state->shared.clear(shared_.spec.cluster_barrier(), shared_bytes);
    state->local.fill(true);
    for (const auto& [pc, writer] : state->writers) state->writer_of[pc] = 0;
    state->writers.clear();
    state->copies.clear();
    for (unsigned w = 0; w < warps; ++w) {
        auto& registers = state->warps[w];
        registers.start(source_.register_bytes);
        if (unwritten_.empty()) continue;
        for (const auto& [slot, pc] : unwritten_) {
            const auto origin = register_origin(block.index(), w, pc);
            for (Mask m = block.warps()[w].live(); m != 0; m &= m - 1)
                registers.put(slot, static_cast<unsigned>(std::countr_zero(m)), {0xffff, origin});
        }
    }
    states_[block.index()] = std::move(state);
}

void Uninitialised::block_end(const Block& block) {
    current_ = nullptr;
    const auto found = states_.find(block.index());
    spare_.push_back(std::move(found->second));
    states_.erase(found);
}

void Uninitialised::executed(const WriteEvent& event) {
    auto& registers = at(event.where.block).warps[event.where.warp];
    if (registers.clean()) return;
    const auto& rule = rules_[event.where.pc];
    const auto decided = registers.mask(event.inst->guard) & event.running;
    if (decided != 0 && (rule.form == Form::none || rule.form == Form::jump)) arrive_by(event, registers, event.inst->guard, decided);
    if (rule.form == Form::jump_indexed) arrive_by(event, registers, event.inst->s[0], registers.mask(event.inst->s[0]) & event.active);
    propagate(event, rule, source_, registers);
}

void Uninitialised::skipped(const WriteEvent& event) {
    auto& registers = at(event.where.block).warps[event.where.warp];
    if (registers.clean()) return;
    const auto decided = registers.mask(event.inst->guard) & event.running;
    if (decided == 0) return;
    const auto form = rules_[event.where.pc].form;
    if (form == Form::none || form == Form::jump) arrive_by(event, registers, event.inst->guard, decided);
    else propagate(event, rules_[event.where.pc], source_, registers);
}

void Uninitialised::memory(const MemoryEvent& event) {
    auto& state = at(event.where.block);
    auto& registers = state.warps[event.where.warp];
    const auto& inst = code_[event.where.pc];
    if (!registers.clean() && event.kind != AccessKind::async_store) {
        const bool fragment = inst.target < source_.tensor.size() && is(event.where.pc, "wmma.load", "wmma.store");
        const Mask who = fragment ? all_lanes : event.active;
        for (const auto slot : {event.kind == AccessKind::async_load ? inst.s[1] : inst.s[0], fragment ? inst.s[1] : no_operand})
            if (const Mask m = registers.mask(slot) & who; m != 0) arrive(event.where, registers, slot, m, TaintSink::address);
    }
    Span span{~std::uint64_t{0}, 0};
    if (event.active == all_lanes) {
        for (unsigned l = 0; l < lanes; ++l) {
            span.low = std::min(span.low, event.addresses[l]);
            span.high = std::max(span.high, event.addresses[l]);
        }
    } else {
        for (Mask m = event.active; m != 0; m &= m - 1) {
            span.low = std::min(span.low, event.addresses[std::countr_zero(m)]);
            span.high = std::max(span.high, event.addresses[std::countr_zero(m)]);
        }
    }
    span.high += event.bytes;
    // What leaves its memory faults next; several windows in one instruction are taken lane by lane.
    if (event.space == Space::shared && !state.shared.holds(span.low, span.high - span.low)) return;
    if (event.space == Space::local && span.high > source_.local_bytes) return;
    switch (event.kind) {
        case AccessKind::load: load(event, state, span); return;
        case AccessKind::store: store(event, state, span); return;
        case AccessKind::atomic: atomic(event, state, span); return;
        case AccessKind::async_load: copy_begins(event, state, span); return;
        case AccessKind::async_store: copy_lands(event, state, span); return;
    }
}

std::vector<RawFinding> Uninitialised::findings() {
    for (auto& [page, bytes] : pages_)
        for (const auto arrival : *bytes)
            if (arrival != 0) ++arrivals_[arrival].count;
    std::vector<RawFinding> found;
    for (std::size_t i = 1; i < arrivals_.size(); ++i) {
        auto& a = arrivals_[i];
        if (a.count == 0) continue;
        RawFinding finding = a.read;
        finding.kind = sink_names[static_cast<unsigned>(a.sink)];
        finding.other_pc = a.pc;
        finding.count = a.count;
        finding.values.insert(finding.values.begin(),
                              {static_cast<std::int64_t>(a.low), static_cast<std::int64_t>(a.high), static_cast<std::int64_t>(a.bytes)});
        if (a.sink != TaintSink::output) std::fill_n(finding.values.begin(), 3, 0);
        found.push_back(std::move(finding));
    }
    return found;
}

std::unique_ptr<TaintState> Uninitialised::take() {
    if (spare_.empty()) return std::make_unique<TaintState>();
    auto state = std::move(spare_.back());
    spare_.pop_back();
    return state;
}

TaintState& Uninitialised::at(std::uint32_t block) {
    if (current_ == nullptr || block != current_block_) {
        current_ = states_.at(block).get();
        current_block_ = block;
    }
    return *current_;
}

bool Uninitialised::is(std::uint32_t pc, std::string_view one, std::string_view other) const {
    const auto& name = source_.operations[source_.code[pc].op];
    return name == one || (!other.empty() && name == other);
}

std::uint16_t Uninitialised::origin_at(std::uint32_t pc, Space space, bool beside) {
    const auto [entry, added] = origin_of_.try_emplace(pc * 8u + 4u * static_cast<unsigned>(beside) + static_cast<unsigned>(space), 0);
    if (added) {
        if (origins_.size() >= 0xffff) {
            entry->second = 0xfffe;
        } else {
            entry->second = static_cast<std::uint16_t>(origins_.size());
            origins_.emplace_back().beside = beside;
        }
    }
    return entry->second;
}

std::uint16_t Uninitialised::register_origin(std::uint32_t block, std::uint32_t warp, std::uint32_t pc) {
    const auto number = origin_at(pc, Space::generic, false);
    auto& o = origins_[number];
    if (o.block != block) {
        RawFinding f;
        f.check = "uninitialised";
        f.pc = pc;
        f.space = Space::generic;
        f.block = block;
        f.warp = warp;
        f.values = {0, 0};
        o.block = f.block;
        o.here = std::move(f);
    }
    return number;
}

std::uint16_t Uninitialised::read_at(const MemoryEvent& event, const TaintState& state, Space space, std::uint64_t address, unsigned lane,
                                     bool beside) {
    const auto number = origin_at(event.where.pc, space, beside);
    auto& o = origins_[number];
    if (o.block != event.where.block) {
        RawFinding f;
        f.check = "uninitialised";
        f.pc = event.where.pc;
        f.space = space;
        f.address = address;
        f.bytes = event.bytes;
        f.block = event.where.block;
        f.warp = event.where.warp;
        f.lane = lane;
        f.values = space == Space::shared ? stretches(state) : std::vector<std::int64_t>{0, 0};
        o.block = f.block;
        o.here = std::move(f);
    }
    return number;
}

std::vector<std::int64_t> Uninitialised::stretches(const TaintState& state) const {
    std::vector<std::int64_t> values{0};
    const std::uint64_t end = state.shared.size();
    std::int64_t begin = -1;
    std::size_t count = 0;
    for (std::uint64_t i = shared_.spec.shared_base; i <= end && count < most_stretches; ++i) {
        if (i < end && begin < 0 && i % 64 == 0 && i + 64 <= end && !state.shared.any(i, i + 64)) {
            i += 63;
            continue;
        }
        const bool hole = i < end && state.shared.get(i, 1) != 0 && state.shared_origin[i] == 0;
        if (hole && begin < 0) begin = static_cast<std::int64_t>(i);
        if (!hole && begin >= 0) {
            values.push_back(begin);
            values.push_back(static_cast<std::int64_t>(i));
            begin = -1;
            ++count;
        }
    }
    values[0] = static_cast<std::int64_t>(count);
    values.push_back(static_cast<std::int64_t>(state.writers.size()));
    for (const auto& [pc, w] : state.writers) {
        for (const auto v : {std::uint64_t{pc}, w.low, w.high, w.bytes, std::uint64_t{w.warps}}) values.push_back(static_cast<std::int64_t>(v));
    }
    return values;
}

std::uint16_t Uninitialised::arrival_at(std::uint16_t origin, std::uint32_t pc, TaintSink sink) {
    const auto key = (std::uint64_t{origin} << 32 | pc) * 4 + static_cast<unsigned>(sink);
    const auto [entry, added] = arrival_of_.try_emplace(key, 0);
    if (added) {
        if (arrivals_.size() >= 0xffff) {
            entry->second = 0xfffe;
        } else {
            entry->second = static_cast<std::uint16_t>(arrivals_.size());
            auto& a = arrivals_.emplace_back();
            a.origin = origin;
            a.pc = pc;
            a.sink = sink;
        }
    }
    return entry->second;
}

TaintArrival& Uninitialised::arrived(std::uint16_t number, const Where& where) {
    auto& a = arrivals_[number];
    if (a.block == no_pc) {
        a.block = where.block;
        a.read = origins_[a.origin].here;
        a.read.other_warp = where.warp;
    }
    return a;
}

void Uninitialised::arrive(const Where& where, const RegisterTaint& registers, Operand slot, Mask who, TaintSink sink) {
    const auto lane = static_cast<unsigned>(std::countr_zero(who));
    const auto number = arrival_at(registers.get(slot, lane).origin, where.pc, sink);
    auto& a = arrived(number, where);
    if (a.count == 0) a.read.other_lane = lane;
    a.count += static_cast<unsigned>(std::popcount(who));
}

void Uninitialised::arrive_by(const WriteEvent& event, const RegisterTaint& registers, Operand slot, Mask who) {
    if (who != 0) arrive(event.where, registers, slot, who, TaintSink::branch);
}

std::unique_ptr<Check> make_uninitialised(const Shared& shared) { return std::make_unique<Uninitialised>(shared); }

}  // namespace wmmadiag
