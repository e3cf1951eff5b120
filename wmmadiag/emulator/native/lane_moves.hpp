// One element for each lane of a warp from memory to a register, or back, once all its addresses were checked: at once where the lanes
// read the same element or neighbours, as most do.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__AVX512F__) && defined(__AVX512VL__)
#include <immintrin.h>
#endif

#include "access.hpp"
#include "lane_ops/lanes.hpp"

namespace wmmadiag {

template <class Register, class Memory, bool is_signed>
Register extend(Memory value) {
    if constexpr (std::is_same_v<Register, Memory>) return value;
    else if constexpr (is_signed) return static_cast<Register>(static_cast<std::make_signed_t<Memory>>(value));
    else return static_cast<Register>(value);
}

// Whether lane l's address is `low + l * bytes`.
inline bool neighbours(const Addresses& addresses, std::uint64_t low, std::uint64_t bytes) {
    std::uint64_t other = 0;
    for (unsigned l = 0; l < lanes; ++l) other |= addresses.lane[l] ^ (low + l * bytes);
    return other == 0;
}

// The elements `offset` bytes behind the addresses of all active lanes, which lie in one region.
template <class Memory, class Register, bool is_signed>
void gather(Register* to, const Reached& reached, std::uint64_t offset, Mask active, const Addresses& addresses) {
#if defined(__AVX512F__) && defined(__AVX512VL__)
    const auto* base = reinterpret_cast<const void*>(reached.shift + static_cast<std::uintptr_t>(offset));
    if constexpr (sizeof(Memory) == 4 && sizeof(Register) == 4) {
        for (unsigned l = 0; l < lanes; l += 8) {
            auto* part = reinterpret_cast<__m256i*>(to + l);
            const auto there = _mm512_load_si512(addresses.lane + l);
            _mm256_store_si256(part, _mm512_mask_i64gather_epi32(_mm256_load_si256(part), static_cast<__mmask8>(active >> l), there, base, 1));
        }
        return;
    } else if constexpr (sizeof(Memory) == 8 && sizeof(Register) == 8) {
        for (unsigned l = 0; l < lanes; l += 8) {
            const auto there = _mm512_load_si512(addresses.lane + l);
            _mm512_store_si512(to + l, _mm512_mask_i64gather_epi64(_mm512_load_si512(to + l), static_cast<__mmask8>(active >> l), there, base, 1));
        }
        return;
    }
#endif
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto l = static_cast<unsigned>(std::countr_zero(m));
        Memory value;
        std::memcpy(&value, reached.together_at(addresses.lane[l]) + offset, sizeof value);
        to[l] = extend<Register, Memory, is_signed>(value);
    }
}

// The same, of lanes that read `stride` bytes each.
template <class Memory, class Register, bool is_signed>
void load_lanes(Register* to, const Reached& reached, std::uint64_t offset, std::uint64_t stride, Mask active, const Addresses& addresses) {
    if (reached.low == reached.high) {
        Memory value;
        std::memcpy(&value, reached.together_at(reached.low) + offset, sizeof value);
        const auto wide = extend<Register, Memory, is_signed>(value);
        if (active == all_lanes) {
            std::fill_n(to, lanes, wide);
        } else {
            for (unsigned l = 0; l < lanes; ++l) to[l] = lanewise::lane_of(active, l) ? wide : to[l];
        }
        return;
    }
    if (active == all_lanes && reached.high - reached.low == (lanes - 1) * stride && neighbours(addresses, reached.low, stride)) {
        const auto* from = reached.together_at(reached.low) + offset;
        if (stride == sizeof(Memory)) {
            for (unsigned l = 0; l < lanes; ++l) to[l] = extend<Register, Memory, is_signed>(lanewise::load<Memory>(from, l));
        } else {
            for (unsigned l = 0; l < lanes; ++l) to[l] = extend<Register, Memory, is_signed>(lanewise::load<Memory>(from + l * stride, 0));
        }
        return;
    }
    gather<Memory, Register, is_signed>(to, reached, offset, active, addresses);
}

}  // namespace wmmadiag
