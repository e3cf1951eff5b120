// What the elements of outputs are worth after a trial: right, mended, broken, damaged.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "lane_ops/formats.hpp"
#include "trial.hpp"

namespace wmmadiag::trials {

constexpr std::uint64_t item_bytes(ItemType type) {
    switch (type) {
        case ItemType::s8:
        case ItemType::u8:
        case ItemType::e4m3:
        case ItemType::e5m2: return 1;
        case ItemType::f16:
        case ItemType::bf16:
        case ItemType::s16:
        case ItemType::u16: return 2;
        case ItemType::f32:
        case ItemType::s32:
        case ItemType::u32: return 4;
        default: return 8;
    }
}

template <class T>
T read_as(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

// FP8 E4M3 (OCP 8-bit floating point): bias 7, no infinities, all ones is NaN.
inline double e4m3_value(std::uint8_t code) {
    const int exponent = code >> 3 & 15, fraction = code & 7;
    if ((code & 0x7f) == 0x7f) return std::numeric_limits<double>::quiet_NaN();
    const auto magnitude = exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
    return (code & 0x80) != 0 ? -magnitude : magnitude;
}

inline double item_value(ItemType type, const std::byte* from) {
    switch (type) {
        case ItemType::f16: return lanewise::widen_f16(read_as<std::uint16_t>(from));
        case ItemType::bf16: return lanewise::widen_bf16(read_as<std::uint16_t>(from));
        case ItemType::f32: return read_as<float>(from);
        case ItemType::f64: return read_as<double>(from);
        case ItemType::s8: return read_as<std::int8_t>(from);
        case ItemType::u8: return read_as<std::uint8_t>(from);
        case ItemType::s16: return read_as<std::int16_t>(from);
        case ItemType::u16: return read_as<std::uint16_t>(from);
        case ItemType::s32: return read_as<std::int32_t>(from);
        case ItemType::u32: return read_as<std::uint32_t>(from);
        case ItemType::s64: return static_cast<double>(read_as<std::int64_t>(from));
        case ItemType::u64: return static_cast<double>(read_as<std::uint64_t>(from));
        case ItemType::e4m3: return e4m3_value(read_as<std::uint8_t>(from));
        // The upper half of an IEEE half.
        case ItemType::e5m2: return lanewise::widen_f16(static_cast<std::uint16_t>(read_as<std::uint8_t>(from) << 8));
    }
    return 0;
}

// What is found in some items.
struct Count {
    std::uint64_t wrong = 0, mended = 0, broken = 0, damaged = 0;
    std::int64_t first = -1;
    double error = 0;
    std::uint64_t looked = 0, trace = 0;
};

// One step of FNV-1a over 64 bits at a time.
constexpr std::uint64_t traced(std::uint64_t trace, std::uint64_t bits) { return (trace ^ bits) * 0x100000001b3u; }

class Judge {
public:
    explicit Judge(const Expected& expected) : expected_(expected) {}

    [[nodiscard]] bool is_right(const JudgedArray& array, std::size_t element, const std::byte* at) const {
        const auto value = item_value(array.type, at);
        if (std::isfinite(value)) return std::fabs(value - expected_.value[element]) <= expected_.bound[element];
        const auto accepted = expected_.accepted[element];
        if (std::isinf(value) && (accepted & (value > 0 ? accepts::plus_infinity : accepts::minus_infinity)) != 0) return true;
        if ((accepted & (std::isnan(value) ? accepts::nan | accepts::not_finite : accepts::not_finite)) == 0) return false;
        return !array.poisoned || std::memcmp(at, &array.poison, item_bytes(array.type)) != 0;  // little endian
    }

    [[nodiscard]] double distance(const JudgedArray& array, std::size_t element, const std::byte* at) const {
        const auto value = item_value(array.type, at);
        if (!std::isfinite(value)) return 1;
        const auto difference = std::fabs(value - expected_.value[element]);
        return std::isfinite(difference) ? difference / (difference + expected_.scale) : 1;
    }

    void judge(const JudgedArray& array, std::uint32_t item, const std::byte* at, const std::byte* initial, Count& to) const {
        const auto element = array.element[item];
        if (element == free_item) return;
        if (element == guard_item) {
            to.damaged += std::memcmp(at, initial, item_bytes(array.type)) != 0 ? 1 : 0;
            return;
        }
        const auto e = static_cast<std::size_t>(element);
        const bool right = is_right(array, e, at), before = expected_.wrong[e] == 0;
        std::uint64_t bits = 0;
        std::memcpy(&bits, at, item_bytes(array.type));
        to.trace = traced(traced(to.trace, e), bits);
        ++to.looked;
        to.wrong += right ? 0 : 1;
        to.error += right ? 0 : distance(array, e, at);
        to.mended += right && !before ? 1 : 0;
        to.broken += !right && before ? 1 : 0;
        if (!right && (to.first < 0 || element < to.first)) to.first = element;
    }

private:
    const Expected& expected_;
};

inline void add(const Count& seen, TrialResult& to) {
    to.wrong += seen.wrong;
    to.mended += seen.mended;
    to.broken += seen.broken;
    to.damaged += seen.damaged;
    to.error += seen.error;
    to.looked += seen.looked;
    to.trace = traced(to.trace, seen.trace);
    if (seen.first >= 0 && (to.first < 0 || seen.first < to.first)) to.first = seen.first;
}

}  // namespace wmmadiag::trials
