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

// The first lane's.
inline std::uint64_t first_address(const Warp& warp, const Inst& inst) {
    const auto offset = static_cast<std::uint64_t>(inst.immediate);
    if (inst.flags & flag::address32) return *warp.at<std::uint32_t>(inst.s[0]) + static_cast<std::uint32_t>(offset);
    return *warp.at<std::uint64_t>(inst.s[0]) + offset;
}

inline Space space_of(std::uint64_t generic) {
    if (generic - shared_window < window_size) return Space::shared;
    if (generic - local_window < window_size) return Space::local;
    return Space::global;
}

inline std::uint64_t window_of(Space space) { return space == Space::shared ? shared_window : space == Space::local ? local_window : 0; }

// The host address of one lane's bytes, or nullptr after recording the fault.
std::byte* resolve_one(Warp& warp, Space space, unsigned lane, std::uint64_t address, std::uint64_t bytes, bool write);

// Where a warp's access lies on the host, once every lane was checked.
struct Reached {
    bool together;               // all lanes in one region: host address = device address + shift
    std::uintptr_t shift;        // an integer: the difference is no pointer into anything
    std::uint64_t low, high;     // the lowest and the highest address of an active lane
    std::byte* pointers[lanes];  // of the active lanes, otherwise

    // Where a device address lies, of lanes in one region.
    [[nodiscard]] std::byte* together_at(std::uint64_t address) const {
        return reinterpret_cast<std::byte*>(shift + static_cast<std::uintptr_t>(address));
    }
};

// Checks all active lanes (at least one), tells the observer, and says where they lie; or records the fault and returns it.
// Compiled once, and not with each width of a load.
Flow reach(Warp& warp, Space space, Mask active, const Addresses& addresses, std::uint32_t bytes, std::uint32_t alignment, AccessKind kind,
           Reached& to);

// Of the active lanes: the lowest and the highest address, and the bits that are set in any of them.
struct Extremes {
    std::uint64_t low, high, bits;
};
// The same where that is known.
Flow reach_within(Warp& warp, Space space, Mask active, const Addresses& addresses, const Extremes& extremes, std::uint32_t bytes,
                  std::uint32_t alignment, AccessKind kind, Reached& to);

// The host address of as many bytes at an address of one space, where all of them may be had and nobody watches; nullptr where it takes
// more to know.
std::byte* reach_span(Warp& warp, Space space, std::uint64_t address, std::uint64_t bytes, AccessKind kind);

// Calls body(lane, host pointer) for each active lane, in lane order, after all of them were checked.
// `alignment` is a power of two. An atomic counts as a read and a write.
template <class Body>
Flow access(Warp& warp, Space space, Mask active, const Addresses& addresses, std::uint32_t bytes, std::uint32_t alignment, AccessKind kind,
            Body&& body) {
    if (active == 0) return Flow::next;
    Reached reached;
    if (const Flow flow = reach(warp, space, active, addresses, bytes, alignment, kind, reached); flow != Flow::next) return flow;
    const auto at = [&](unsigned l) { return reached.together_at(addresses.lane[l]); };
    if (reached.together && active == all_lanes) {
        for (unsigned l = 0; l < lanes; ++l) body(l, at(l));
        return Flow::next;
    }
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        body(lane, reached.together ? at(lane) : reached.pointers[lane]);
    }
    return Flow::next;
}

// Whether a fragment store, about to run, leaves these bytes at an address (generic ones as in their own space) as they are.
bool fragment_store_keeps(const Warp& warp, const Inst& inst, std::uint64_t address, std::span<const std::byte> there);

}  // namespace wmmadiag
