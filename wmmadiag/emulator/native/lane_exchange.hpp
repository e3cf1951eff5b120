// Which lane a shuffle takes its value from (PTX ISA, shfl.sync).
#pragma once

#include <cstdint>

#include "warp.hpp"

namespace wmmadiag {

enum class ShuffleMode : std::uint8_t { up, down, bfly, idx };

struct ShuffleSource {
    std::uint32_t lane;
    bool inside;  // of the segment; else the lane keeps its own value
};

// s: value, lane operand b, clamp-and-segment operand c, member mask.
inline ShuffleSource shuffle_source(const Warp& warp, const Inst& inst, unsigned lane) {
    const auto b = warp.at<std::uint32_t>(inst.s[1])[lane], c = warp.at<std::uint32_t>(inst.s[2])[lane];
    const std::uint32_t offset = b & 0x1f, clamp = c & 0x1f, segment = (c >> 8) & 0x1f;
    const std::uint32_t limit = (lane & segment) | (clamp & ~segment), first = lane & segment;
    std::uint32_t from = 0;
    bool inside = false;
    switch (static_cast<ShuffleMode>(inst.code)) {
        case ShuffleMode::up:
            from = lane - offset;
            inside = static_cast<std::int32_t>(from) >= static_cast<std::int32_t>(limit);
            break;
        case ShuffleMode::down:
            from = lane + offset;
            inside = from <= limit;
            break;
        case ShuffleMode::bfly:
            from = lane ^ offset;
            inside = from <= limit;
            break;
        case ShuffleMode::idx:
            from = first | (offset & ~segment);
            inside = from <= limit;
            break;
    }
    return {(inside ? from : lane) & 0x1f, inside};
}

// The lanes among `here` that take a value from one that is not: it is undefined.
inline Mask strays(const Warp& warp, const Inst& inst, Mask here) {
    Mask found = 0;
    for (Mask m = here; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        if ((here >> shuffle_source(warp, inst, lane).lane & 1) == 0) found |= m & -m;
    }
    return found;
}

}  // namespace wmmadiag
