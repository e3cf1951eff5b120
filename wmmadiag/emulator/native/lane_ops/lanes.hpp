// How a lane operation runs over 32 lanes.
//
// An operation is a captureless lambda on one lane's values; its parameter types say how the operands are stored
// (std::uint16_t for 16-bit and 8-bit registers, ...). `op<f>("name")` makes the table row. The loop computes every lane and writes
// straight to the destination when all lanes are active; otherwise into a scratch register that is then blended. A packed
// register (f16x2, u16x2, f32x2) is simply twice as many elements.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include "../lane_op.hpp"

namespace wmmadiag::lanewise {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using u128 = unsigned __int128;
using s128 = __int128;

template <class T>
[[gnu::always_inline]] inline T load(const void* base, std::size_t element) {
    T value;
    std::memcpy(&value, static_cast<const std::byte*>(base) + element * sizeof(T), sizeof(T));
    return value;
}

template <class T>
[[gnu::always_inline]] inline void store(void* base, std::size_t element, T value) {
    std::memcpy(static_cast<std::byte*>(base) + element * sizeof(T), &value, sizeof(T));
}

// Bit l of a mask, as a table, so that loops over lanes need no variable shift (SSE2 has none).
inline constexpr auto lane_bit = [] {
    std::array<u32, lanes> bits{};
    for (unsigned l = 0; l < lanes; ++l) bits[l] = 1u << l;
    return bits;
}();

[[gnu::always_inline]] inline bool lane_of(Mask mask, std::size_t lane) { return (mask & lane_bit[lane]) != 0; }

// A predicate operand. An absent one (nullptr) reads as `absent`.
inline Mask read_mask(const void* source, bool negated = false, Mask absent = 0) {
    const Mask mask = source == nullptr ? absent : load<Mask>(source, 0);
    return negated ? ~mask : mask;
}

inline void write_mask(void* destination, Mask active, Mask value) {
    if (destination == nullptr) return;
    store<Mask>(destination, 0, (load<Mask>(destination, 0) & ~active) | (value & active));
}

struct Bytes16 {
    u64 lo, hi;
};

template <std::size_t Size>
using Storage = std::conditional_t<Size == 2, u16, std::conditional_t<Size == 4, u32, std::conditional_t<Size == 8, u64, Bytes16>>>;

// Runs `whole` with all lanes active on a scratch destination, then copies the active lanes.
template <std::size_t Size>
[[gnu::noinline]] void into_scratch(const LaneArgs& args, LaneFunction whole) {
    using T = Storage<Size>;
    alignas(64) std::array<T, lanes> scratch;
    Mask flag = read_mask(args.d2);
    LaneArgs complete = args;
    complete.active = all_lanes;
    complete.d = scratch.data();
    complete.d2 = args.d2 == nullptr ? nullptr : &flag;
    whole(complete);
    void* const d = args.d;
    const Mask active = args.active;
    if constexpr (Size <= 8) {
#pragma GCC ivdep
        for (unsigned l = 0; l < lanes; ++l) store<T>(d, l, lane_of(active, l) ? scratch[l] : load<T>(d, l));
    } else {
        for (unsigned l = 0; l < lanes; ++l)
            if (lane_of(active, l)) store<T>(d, l, scratch[l]);
    }
    write_mask(args.d2, active, flag);
}

// Destination and sources of a lambda's type.
template <class Call>
struct Signature;

template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> {
    template <auto f, unsigned Pack>
    static void run(const LaneArgs& args) {
        if (args.active != all_lanes) return into_scratch<sizeof(R) * Pack>(args, &run<f, Pack>);
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            void* const d = args.d;
            const std::array<const void*, sizeof...(A)> s{args.s[I]...};  // a local copy: stores to d cannot change it
#pragma GCC ivdep
            for (std::size_t e = 0; e < std::size_t{lanes} * Pack; ++e) store<R>(d, e, f(load<A>(s[I], e)...));
        }(std::index_sequence_for<A...>{});
    }
};

// The same for a lambda that also reads the instruction's modifiers.
template <class C, class R, class... A>
struct Signature<R (C::*)(Modifiers, A...) const> {
    template <auto f, unsigned Pack>
    static void run(const LaneArgs& args) {
        if (args.active != all_lanes) return into_scratch<sizeof(R) * Pack>(args, &run<f, Pack>);
        [&]<std::size_t... I>(std::index_sequence<I...>) {
            void* const d = args.d;
            const Modifiers modifiers = args.modifiers;
            const std::array<const void*, sizeof...(A)> s{args.s[I]...};
#pragma GCC ivdep
            for (std::size_t e = 0; e < std::size_t{lanes} * Pack; ++e) store<R>(d, e, f(modifiers, load<A>(s[I], e)...));
        }(std::index_sequence_for<A...>{});
    }
};

// The lane function that applies f to each of 32 * Pack elements.
template <auto f, unsigned Pack = 1>
inline constexpr LaneFunction lane_function = &Signature<decltype(&decltype(f)::operator())>::template run<f, Pack>;

// A table row whose function does not depend on the modifiers (f may still read them).
template <LaneFunction function>
constexpr LaneOp row(std::string_view name) {
    return {name, [](Modifiers) -> LaneFunction { return function; }};
}

template <auto f, unsigned Pack = 1>
constexpr LaneOp op(std::string_view name) {
    return row<lane_function<f, Pack>>(name);
}

// A row with a fast path: `plain` where no modifier is set, else `general`.
template <LaneFunction plain, LaneFunction general>
constexpr LaneOp row(std::string_view name) {
    return {name, [](Modifiers m) -> LaneFunction { return m.word == 0 ? plain : general; }};
}

// A name put together at compile time: joined<"cvt.", "f32", ".", "f16">.
template <std::size_t N>
struct Text {
    std::array<char, N> characters{};
    consteval Text(const char (&text)[N]) {
        for (std::size_t i = 0; i < N; ++i) characters[i] = text[i];
    }
};

template <Text... parts>
struct Joined {
    static constexpr std::size_t size = ((parts.characters.size() - 1) + ...);
    static constexpr std::array<char, size> characters = [] {
        std::array<char, size> all{};
        std::size_t at = 0;
        const auto append = [&](const auto& part) {
            for (std::size_t i = 0; i + 1 < part.characters.size(); ++i) all[at++] = part.characters[i];
        };
        (append(parts), ...);
        return all;
    }();
};

template <Text... parts>
inline constexpr std::string_view joined{Joined<parts...>::characters.data(), Joined<parts...>::size};

template <class... Tables>
constexpr auto concatenate(const Tables&... tables) {
    std::array<LaneOp, (std::tuple_size_v<Tables> + ...)> all{};
    std::size_t at = 0;
    const auto append = [&](const auto& table) {
        for (const LaneOp& entry : table) all[at++] = entry;
    };
    (append(tables), ...);
    return all;
}

}  // namespace wmmadiag::lanewise
