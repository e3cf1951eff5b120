// Memory access by a warp: every address is checked against the memory it may touch before a byte moves.
#pragma once

#include <algorithm>
#include <bit>
#include <span>

#include "block.hpp"
#include "touched.hpp"
#include "warp.hpp"

namespace wmmadiag {

struct Addresses {
    alignas(64) std::uint64_t lane[lanes];
};

template <class T>
void add_offset(const T* base, T offset, Addresses& to) {
    for (unsigned l = 0; l < lanes; ++l) to.lane[l] = static_cast<T>(base[l] + offset);
}

inline void compute_addresses(const Warp& warp, const Inst& inst, Addresses& to) {
    const auto offset = static_cast<std::uint64_t>(inst.immediate);
    if (inst.flags & flag::address32) add_offset(warp.at<std::uint32_t>(inst.s[0]), static_cast<std::uint32_t>(offset), to);
    else add_offset(warp.at<std::uint64_t>(inst.s[0]), offset, to);
}

inline Space space_of(std::uint64_t generic) {
    if (generic - shared_window < window_size) return Space::shared;
    if (generic - local_window < window_size) return Space::local;
    return Space::global;
}

inline std::uint64_t window_of(Space space) { return space == Space::shared ? shared_window : space == Space::local ? local_window : 0; }

// The host address of one lane's bytes, or nullptr after recording the fault.
inline std::byte* resolve_one(Warp& warp, Space space, unsigned lane, std::uint64_t address, std::uint64_t bytes, bool write) {
    const auto& shared = warp.block().shared();
    const auto fail = [&](FaultKind kind) -> std::byte* {
        warp.fail_access(kind, lane, space, address, bytes, write);
        return nullptr;
    };
    switch (space) {
        case Space::shared: {
            const Region region{shared.spec.shared_base, shared.spec.shared_bytes, nullptr, true};
            if (!region.holds(address, bytes)) return fail(FaultKind::out_of_bounds);
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
    if (auto* touched = allocation->touched) {
        const auto offset = address - allocation->region.base;
        if (write) touched->write(offset, bytes, warp.block().index());
        else touched->read(offset, bytes, warp.block().index());
    }
    return allocation->region.host + (address - allocation->region.base);
}

// Calls body(lane, host pointer) for each active lane, in lane order, after all of them were checked.
// `alignment` is a power of two. An atomic counts as a read and a write.
template <class Body>
Flow access(Warp& warp, Space space, Mask active, const Addresses& addresses, std::uint32_t bytes, std::uint32_t alignment, AccessKind kind,
            Body&& body) {
    if (active == 0) return Flow::next;
    const bool write = kind != AccessKind::load && kind != AccessKind::async_load;
    const bool read = kind != AccessKind::store && kind != AccessKind::async_store;
    std::uint64_t low = ~std::uint64_t{0}, high = 0, bits = 0;
    if (active == all_lanes) {
        for (const auto a : addresses.lane) {
            low = std::min(low, a);
            high = std::max(high, a);
            bits |= a;
        }
    } else {
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto a = addresses.lane[std::countr_zero(m)];
            low = std::min(low, a);
            high = std::max(high, a);
            bits |= a;
        }
    }
    if ((bits & (alignment - 1)) != 0) {
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            const auto a = addresses.lane[lane];
            if ((a & (alignment - 1)) == 0) continue;
            const auto where = space == Space::generic ? space_of(a) : space;
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
    // One check for the whole warp where all lanes fall into one region.
    // Host address less device address, as an integer: the difference is no pointer into anything.
    bool together = false;
    std::uintptr_t shift = 0;
    const auto relate = [&](std::byte* host, std::uint64_t device) {
        together = true;
        shift = reinterpret_cast<std::uintptr_t>(host) - static_cast<std::uintptr_t>(device);
    };
    const auto at = [&](unsigned l) { return reinterpret_cast<std::byte*>(shift + static_cast<std::uintptr_t>(addresses.lane[l])); };
    if (actual == Space::shared) {
        const Region region{shared.spec.shared_base, shared.spec.shared_bytes, nullptr, true};
        if (region.holds(low - window, high - low + bytes)) relate(warp.block().shared_memory(), window);
    } else if (actual == Space::global && !shared.tracking) {
        if (auto* allocation = shared.memory->find(low);
            allocation != nullptr && allocation->region.holds(low, high - low + bytes) && (!write || allocation->region.writable)) {
            relate(allocation->region.host, allocation->region.base);
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
    if (together) {
        if (active == all_lanes) {
            for (unsigned l = 0; l < lanes; ++l) body(l, at(l));
        } else {
            for (Mask m = active; m != 0; m &= m - 1) {
                const auto lane = static_cast<unsigned>(std::countr_zero(m));
                body(lane, at(lane));
            }
        }
        return Flow::next;
    }
    std::byte* pointers[lanes];
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        // In the space as given: generic lanes between the lowest and the highest may lie in a window that those do not.
        const auto address = addresses.lane[lane];
        if (read && write && resolve_one(warp, space, lane, address, bytes, false) == nullptr) return Flow::fault;
        pointers[lane] = resolve_one(warp, space, lane, address, bytes, write);
        if (pointers[lane] == nullptr) return Flow::fault;
    }
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        body(lane, pointers[lane]);
    }
    return Flow::next;
}

// Whether a fragment store, about to run, leaves these bytes at an address (generic ones as in their own space) as they are.
bool fragment_store_keeps(const Warp& warp, const Inst& inst, std::uint64_t address, std::span<const std::byte> there);

}  // namespace wmmadiag
