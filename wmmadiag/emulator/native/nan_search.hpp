// NaNs in registers and matrices.
#pragma once

#include <cstddef>
#include <cstring>

#include "debugger.hpp"

namespace wmmadiag {

// Whether element `i` of an array of values of a kind is a NaN.
inline bool is_nan_at(NanKind kind, const void* data, std::size_t i) {
    const auto load = [&]<class T>(T value) {
        std::memcpy(&value, static_cast<const std::byte*>(data) + i * sizeof(T), sizeof(T));
        return value;
    };
    const auto half = [](std::uint32_t bits) { return (bits & 0x7fffu) > 0x7c00u; };
    const auto bfloat = [](std::uint32_t bits) { return (bits & 0x7fffu) > 0x7f80u; };
    const auto single = [](std::uint64_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; };
    switch (kind) {
        case NanKind::none: return false;
        case NanKind::f16: return half(load(std::uint16_t{}));
        case NanKind::bf16: return bfloat(load(std::uint16_t{}));
        case NanKind::f16x2: return half(load(std::uint32_t{})) || half(load(std::uint32_t{}) >> 16);
        case NanKind::bf16x2: return bfloat(load(std::uint32_t{})) || bfloat(load(std::uint32_t{}) >> 16);
        case NanKind::f32: return single(load(std::uint32_t{}));
        case NanKind::f64: return (load(std::uint64_t{}) & 0x7fff'ffff'ffff'ffffu) > 0x7ff0'0000'0000'0000u;
        case NanKind::f32x2: return single(load(std::uint64_t{})) || single(load(std::uint64_t{}) >> 32);
    }
    return false;
}

inline Mask lanes_with_nan(NanKind kind, const void* values, Mask active) {
    Mask found = 0;
    for (Mask m = active; m != 0; m &= m - 1)
        if (is_nan_at(kind, values, static_cast<std::size_t>(std::countr_zero(m)))) found |= m & -m;
    return found;
}

inline bool matrix_has_nan(NanKind kind, const void* values, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if (is_nan_at(kind, values, i)) return true;
    return false;
}

}  // namespace wmmadiag
