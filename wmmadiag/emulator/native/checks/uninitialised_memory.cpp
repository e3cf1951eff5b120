// The taint of bytes in memory: asking for it and setting it.
#include "uninitialised.hpp"

namespace wmmadiag {

namespace {

// Whether no lane's bytes cross a word of the shadow, all lanes being active.
bool one_word_each(const MemoryEvent& event) {
    if (event.active != all_lanes || !std::has_single_bit(event.bytes) || event.bytes > 64) return false;
    std::uint64_t bits = 0;
    for (unsigned l = 0; l < lanes; ++l) bits |= event.addresses[l];
    return (bits & (event.bytes - 1)) == 0;
}

}  // namespace

std::uint64_t Uninitialised::local_at(const MemoryEvent& event, unsigned lane, std::uint64_t address) const {
    return (std::uint64_t{event.where.warp} * lanes + lane) * source_.local_bytes + address;
}

Uninitialised::Found Uninitialised::peek(const MemoryEvent& event, const TaintState& state, Space space, unsigned lane, std::uint64_t address,
                                         unsigned bytes) {
    if (space == Space::generic) {
        space = space_of(address);
        address -= window_of(space);
    }
    if (space == Space::global) return peek_global(event, state, lane, address, bytes);
    const bool local = space == Space::local;
    const auto& bits = local ? state.local : state.shared;
    const auto offset = local ? local_at(event, lane, address) : address;
    if (!bits.holds(offset, bytes)) return {0, 0};
    const auto found = bits.get(offset, bytes);
    if (found == 0) return {0, 0};
    const auto& origins = local ? state.local_origin : state.shared_origin;
    const auto first = static_cast<unsigned>(std::countr_zero(found));
    auto origin = origins[offset + first];
    if (origin == 0) origin = read_at(event, state, space, address + first, lane, local && static_cast<unsigned>(std::popcount(found)) < bytes);
    return {found, origin};
}

Uninitialised::Found Uninitialised::peek_global(const MemoryEvent& event, const TaintState& state, unsigned lane, std::uint64_t address,
                                                unsigned bytes) {
    Found found{0, 0};
    if (!pages_.empty()) {
        for (unsigned i = 0; i < bytes; ++i) {
            const auto page = pages_.find((address + i) / page_bytes);
            if (page == pages_.end()) continue;
            const auto arrival = (*page->second)[(address + i) % page_bytes];
            if (arrival == 0) continue;
            found.bytes |= 1u << i;
            if (found.origin == 0) found.origin = arrivals_[arrival].origin;
        }
    }
    const auto* memory = shared_.memory->find(address);
    if (memory == nullptr || memory->initialised == nullptr || !memory->region.holds(address, bytes)) return found;
    const auto more = memory->uninitialised(address - memory->region.base, bytes);
    if (more != 0 && found.origin == 0)
        found.origin = read_at(event, state, Space::global, address + static_cast<unsigned>(std::countr_zero(more)), lane,
                               static_cast<unsigned>(std::popcount(more)) < bytes);
    found.bytes |= more;
    return found;
}

bool Uninitialised::clean(const MemoryEvent& event, const TaintState& state, const Span& span) const {
    switch (event.space) {
        case Space::shared: {
            if (!state.shared.any(span.low, span.high)) return true;
            if (one_word_each(event)) return !state.shared.any_aligned(event.addresses, event.bytes);
            bool found = false;  // padding between rows, as a rule
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto a = event.addresses[std::countr_zero(m)];
                found |= event.bytes <= 32 ? state.shared.get(a, event.bytes) != 0 : state.shared.any(a, a + event.bytes);
            }
            return !found;
        }
        case Space::global: {
            if (!pages_.empty()) return false;
            const auto* memory = shared_.memory->find(span.low);
            if (memory == nullptr || !memory->region.holds(span.low, span.high - span.low)) return false;
            if (memory->initialised == nullptr) return true;
            const auto base = memory->region.base;
            if (span.high - span.low <= page_bytes && memory->all_initialised(span.low - base, span.high - base)) return true;
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto at = event.addresses[std::countr_zero(m)] - base;
                if (!memory->all_initialised(at, at + event.bytes)) return false;
            }
            return true;
        }
        case Space::local: {
            for (Mask m = event.active; m != 0; m &= m - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(m));
                const auto offset = local_at(event, lane, event.addresses[lane]);
                if (state.local.any(offset, offset + event.bytes)) return false;
            }
            return true;
        }
        default: return false;
    }
}

void Uninitialised::poke(const MemoryEvent& event, TaintState& state, Space space, unsigned lane, std::uint64_t address, unsigned bytes,
                         std::uint32_t bits, std::uint16_t origin) {
    if (space == Space::generic) {
        space = space_of(address);
        address -= window_of(space);
    }
    if (space == Space::global) {
        poke_global(event, lane, address, bytes, bits, origin);
        return;
    }
    const bool local = space == Space::local;
    auto& shadow = local ? state.local : state.shared;
    const auto offset = local ? local_at(event, lane, address) : address;
    if (!shadow.holds(offset, bytes)) return;
    shadow.put(offset, bytes, bits);
    if (bits == 0) return;
    state.origins_used = true;
    auto& origins = local ? state.local_origin : state.shared_origin;
    for (unsigned i = 0; i < bytes; ++i)
        if ((bits >> i & 1) != 0) origins[offset + i] = origin;
}

void Uninitialised::poke_global(const MemoryEvent& event, unsigned lane, std::uint64_t address, unsigned bytes, std::uint32_t bits,
                                std::uint16_t origin) {
    if (bits == 0 && pages_.empty()) return;
    std::uint16_t number = 0;
    if (bits != 0) {
        number = arrival_at(origin, event.where.pc, TaintSink::output);
        auto& a = arrived(number, event.where);
        if (a.bytes == 0 && a.low > a.high) a.read.other_lane = lane;
        if (a.block == event.where.block) {
            a.low = std::min(a.low, address + static_cast<unsigned>(std::countr_zero(bits)));
            a.high = std::max(a.high, address + 31 - static_cast<unsigned>(std::countl_zero(bits)));
            a.bytes += static_cast<unsigned>(std::popcount(bits));
        }
    }
    for (unsigned i = 0; i < bytes; ++i) {
        const auto key = (address + i) / page_bytes;
        const bool tainted = (bits >> i & 1) != 0;
        auto page = pages_.find(key);
        if (page == pages_.end()) {
            if (!tainted) continue;
            page = pages_.emplace(key, std::make_unique<Page>()).first;
        }
        (*page->second)[(address + i) % page_bytes] = tainted ? number : 0;
    }
}

void Uninitialised::wrote(TaintState& state, const Where& where, const Span& span, std::uint64_t bytes) {
    const auto pc = where.pc;
    auto& number = state.writer_of[pc];
    if (number == 0) {
        state.writers.emplace_back(pc, SharedWriter{});
        number = static_cast<std::uint16_t>(state.writers.size());
    }
    auto& w = state.writers[number - 1u].second;
    w.low = std::min(w.low, span.low);
    w.high = std::max(w.high, span.high);
    w.bytes += bytes;
    w.warps |= Mask{1} << where.warp % shared_.spec.warps();  // those of a cluster follow each other
}

void Uninitialised::known(const MemoryEvent& event, TaintState& state, const Span& span) {
    const auto count = static_cast<unsigned>(std::popcount(event.active));
    if (event.space == Space::shared) {
        wrote(state, event.where, span, std::uint64_t{count} * event.bytes);
        // Lanes side by side, as most are: as many bytes as the span is long, each lane at its place.
        if (event.active == all_lanes && span.high - span.low == std::uint64_t{lanes} * event.bytes) {
            std::uint64_t apart = 0;
            for (unsigned l = 0; l < lanes; ++l) apart |= event.addresses[l] ^ (span.low + std::uint64_t{l} * event.bytes);
            if (apart == 0) {
                state.shared.clear(span.low, span.high);
                return;
            }
        }
        if (one_word_each(event)) {
            if (state.shared.any_aligned(event.addresses, event.bytes)) state.shared.clear_aligned(event.addresses, event.bytes);
            return;
        }
        for (Mask m = event.active; m != 0; m &= m - 1) {
            const auto a = event.addresses[std::countr_zero(m)];
            state.shared.clear(a, a + event.bytes);
        }
        return;
    }
    if (event.space == Space::global && pages_.empty()) return;  // the engine notes what is written
    each_piece(event,
               [&](unsigned lane, std::uint64_t address, unsigned bytes, unsigned) { poke(event, state, event.space, lane, address, bytes, 0, 0); });
}

}  // namespace wmmadiag
