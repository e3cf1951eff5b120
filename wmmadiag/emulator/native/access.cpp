#include "access.hpp"

#include "lane_ops/lanes.hpp"

namespace wmmadiag {

std::byte* resolve_one(Warp& warp, Space space, unsigned lane, std::uint64_t address, std::uint64_t bytes, bool write) {
    const auto& shared = warp.block().shared();
    const auto fail = [&](FaultKind kind) -> std::byte* {
        if (shared.strays_pass && bytes <= stray_bytes) return warp.block().stray(bytes, write);
        warp.fail_access(kind, lane, space, address, bytes, write);
        return nullptr;
    };
    switch (space) {
        case Space::shared: {
            if (!shared.spec.shared_holds(address, bytes)) return fail(FaultKind::out_of_bounds);
            return warp.block().shared_memory() + address;
        }
        case Space::local: {
            const Region region{0, shared.program->source().local_bytes, nullptr, true};
            if (!region.holds(address, bytes)) return fail(FaultKind::out_of_bounds);
            return warp.local(lane) + address;
        }
        case Space::global:
        case Space::generic: break;
    }
    if (space == Space::generic && space_of(address) != Space::global) {
        const auto actual = space_of(address);
        return resolve_one(warp, actual, lane, address - window_of(actual), bytes, write);
    }
    auto* allocation = shared.memory->find(address);
    if (allocation == nullptr) return fail(space_of(address) == Space::global ? FaultKind::out_of_bounds : FaultKind::wrong_space);
    if (!allocation->region.holds(address, bytes)) return fail(FaultKind::out_of_bounds);
    if (write && !allocation->region.writable) return fail(FaultKind::read_only);
    if (shared.tracking) {
        if (!write) allocation->note_read();
        else if (!allocation->note_write(address - allocation->region.base, bytes, warp.block().index()))
            warp.block().shared().order_matters.store(true, std::memory_order_relaxed);
    }
    if (write && allocation->initialised != nullptr) allocation->note_initialised(address - allocation->region.base, bytes);
    if (auto* touched = allocation->touched) {
        const auto offset = address - allocation->region.base;
        if (write) touched->write(offset, bytes, warp.block().index());
        else touched->read(offset, bytes, warp.block().index());
    }
    return allocation->region.host + (address - allocation->region.base);
}

std::byte* reach_span(Warp& warp, Space space, std::uint64_t address, std::uint64_t bytes, AccessKind kind) {
    const auto& shared = warp.block().shared();
    if (warp.block().observer() != nullptr) return nullptr;
    if (space == Space::generic) {
        space = space_of(address);
        if (space != space_of(address + bytes - 1)) return nullptr;
        address -= window_of(space);
    }
    if (space == Space::shared) {
        return shared.spec.shared_holds(address, bytes) ? warp.block().shared_memory() + address : nullptr;
    }
    if (space != Space::global || kind != AccessKind::load) return nullptr;
    auto* allocation = shared.memory->find(address);
    if (allocation == nullptr || allocation->touched != nullptr || !allocation->region.holds(address, bytes)) return nullptr;
    if (shared.tracking) allocation->note_read();
    return allocation->region.host + (address - allocation->region.base);
}

Flow reach(Warp& warp, Space space, Mask active, const Addresses& addresses, std::uint32_t bytes, std::uint32_t alignment, AccessKind kind,
           Reached& to) {
    // In place of an idle lane stands the first busy one, so that all 32 are looked at at once.
    const auto first = addresses.lane[std::countr_zero(active)];
    std::uint64_t low = first, high = first, bits = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        const auto a = lanewise::lane_of(active, l) ? addresses.lane[l] : first;
        low = std::min(low, a);
        high = std::max(high, a);
        bits |= a;
    }
    return reach_within(warp, space, active, addresses, {low, high, bits}, bytes, alignment, kind, to);
}

Flow reach_within(Warp& warp, Space space, Mask active, const Addresses& addresses, const Extremes& extremes, std::uint32_t bytes,
                  std::uint32_t alignment, AccessKind kind, Reached& to) {
    const bool write = kind != AccessKind::load && kind != AccessKind::async_load;
    const bool read = kind != AccessKind::store && kind != AccessKind::async_store;
    const auto [low, high, bits] = extremes;
    if ((bits & (alignment - 1)) != 0) {
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto a = addresses.lane[lane];
            if ((a & (alignment - 1)) == 0) continue;
            const auto where = space == Space::generic ? space_of(a) : space;
            if (where == Space::local && warp.block().shared().local_unaligned) continue;
            if (warp.block().shared().strays_pass && !(read && write)) {  // an atomic operation has nowhere to be done
                warp.block().count_stray();
                continue;
            }
            return warp.fail_access(FaultKind::misaligned, lane, where, space == where ? a : a - window_of(where), alignment, write);
        }
    }
    auto& shared = warp.block().shared();
    std::uint64_t window = 0;
    Space actual = space;
    if (space == Space::generic && space_of(low) == space_of(high)) {
        actual = space_of(low);
        window = window_of(actual);
    }
    if (auto* observer = warp.block().observer()) {
        Addresses seen;
        for (unsigned l = 0; l < lanes; ++l) seen.lane[l] = addresses.lane[l] - window;
        observer->memory({warp.where(), actual, kind, active, bytes, seen.lane});
    }
    to.together = false;
    to.low = low;
    to.high = high;
    // One check for the whole warp where all lanes fall into one region.
    // Host address less device address, as an integer: the difference is no pointer into anything.
    const auto relate = [&](std::byte* host, std::uint64_t device) {
        to.together = true;
        to.shift = reinterpret_cast<std::uintptr_t>(host) - static_cast<std::uintptr_t>(device);
    };
    if (actual == Space::shared) {
        if (shared.spec.shared_holds(low - window, high - low + bytes)) relate(warp.block().shared_memory(), window);
    } else if (actual == Space::global && !shared.tracking) {
        if (auto* allocation = shared.memory->find(low);
            allocation != nullptr && allocation->region.holds(low, high - low + bytes) && (!write || allocation->region.writable)) {
            relate(allocation->region.host, allocation->region.base);
            if (write && allocation->initialised != nullptr)
                for (Mask m = active; m != 0; m &= m - 1)
                    allocation->note_initialised(addresses.lane[std::countr_zero(m)] - window - allocation->region.base, bytes);
            if (auto* touched = allocation->touched) {
                for (Mask m = active; m != 0; m &= m - 1) {
                    const auto offset = addresses.lane[std::countr_zero(m)] - window - allocation->region.base;
                    if (read) touched->read(offset, bytes, warp.block().index());
                    if (write) touched->write(offset, bytes, warp.block().index());
                }
            }
        }
    } else if (actual == Space::global && !write) {
        if (auto* allocation = shared.memory->find(low); allocation != nullptr && allocation->region.holds(low, high - low + bytes)) {
            allocation->note_read();
            relate(allocation->region.host, allocation->region.base);
        }
    }
    if (to.together) return Flow::next;
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        // In the space as given: generic lanes between the lowest and the highest may lie in a window that those do not.
        const auto address = addresses.lane[lane];
        if (read && write && resolve_one(warp, space, lane, address, bytes, false) == nullptr) return Flow::fault;
        to.pointers[lane] = resolve_one(warp, space, lane, address, bytes, write);
        if (to.pointers[lane] == nullptr) return Flow::fault;
    }
    return Flow::next;
}

}  // namespace wmmadiag
