// ld, st, and the moves between registers of different widths.
#include <algorithm>
#include <array>
#include <type_traits>

#include "access.hpp"
#include "execute_memory_unwatched.hpp"
#include "lane_moves.hpp"

namespace wmmadiag {

namespace {

struct Wide {
    std::uint64_t low, high;
};

template <unsigned bytes>
using Word =
    std::conditional_t<bytes == 1, std::uint8_t,
                       std::conditional_t<bytes == 2, std::uint16_t,
                                          std::conditional_t<bytes == 4, std::uint32_t, std::conditional_t<bytes == 8, std::uint64_t, Wide>>>>;

// Four words of each lane and a register of each word: four lanes at a time, turned.
typedef std::uint32_t FourWords __attribute__((vector_size(16)));

FourWords four_words(const void* from) {
    FourWords words;
    std::memcpy(&words, from, sizeof words);
    return words;
}

// from(i) and to(i) give four words each, i below 4.
template <class From, class To>
[[gnu::always_inline]] inline void turn_words(From&& from, To&& to) {
    const FourWords a = four_words(from(0)), b = four_words(from(1)), c = four_words(from(2)), d = four_words(from(3));
    const FourWords ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const FourWords cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const FourWords turned[4]{__builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                              __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (unsigned i = 0; i < 4; ++i) std::memcpy(to(i), &turned[i], sizeof turned[i]);
}

// The most frequent of the wide accesses, of all lanes: v4 of 32 bits.
Flow move_fours(Warp& warp, const Inst& inst, const Addresses& addresses, AccessKind kind) {
    constexpr std::uint32_t bytes = sizeof(FourWords);
    std::uint32_t* words[4];
    for (unsigned i = 0; i < 4; ++i) words[i] = warp.at<std::uint32_t>(inst.extra[i]);
    Reached reached;
    if (const Flow flow = reach(warp, inst.space, all_lanes, addresses, bytes, bytes, kind, reached); flow != Flow::next) return flow;
    for (unsigned l = 0; l < lanes; l += 4) {
        const auto in_memory = [&](unsigned i) { return reached.together ? reached.together_at(addresses.lane[l + i]) : reached.pointers[l + i]; };
        const auto in_registers = [&](unsigned i) { return words[i] + l; };
        if (kind == AccessKind::load) turn_words(in_memory, in_registers);
        else turn_words(in_registers, in_memory);
    }
    return Flow::next;
}

// Memory and register element types of a load or store.
template <class Memory, class Register, bool is_signed>
Flow load_as(Warp& warp, const Inst& inst, Mask active, const Addresses& addresses) {
    if (active == 0) return Flow::next;
    const unsigned count = inst.count;
    const auto bytes = static_cast<std::uint32_t>(sizeof(Memory)) * count;
    if constexpr (sizeof(Memory) == 4 && sizeof(Register) == 4)
        if (count == 4 && active == all_lanes && std::find(inst.extra, inst.extra + count, no_operand) == inst.extra + count)
            return move_fours(warp, inst, addresses, AccessKind::load);
    Reached reached;
    if (const auto flow = reach(warp, inst.space, active, addresses, bytes, bytes, AccessKind::load, reached); flow != Flow::next) return flow;
    for (unsigned i = 0; i < count; ++i) {
        if (inst.extra[i] == no_operand) continue;
        auto* to = warp.at<Register>(inst.extra[i]);
        const auto offset = i * sizeof(Memory);
        if (reached.together) {
            load_lanes<Memory, Register, is_signed>(to, reached, offset, bytes, active, addresses);
            continue;
        }
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            Memory value;
            std::memcpy(&value, reached.pointers[lane] + offset, sizeof value);
            to[lane] = extend<Register, Memory, is_signed>(value);
        }
    }
    return Flow::next;
}

template <class Memory, class Register>
Flow store_as(Warp& warp, const Inst& inst, Mask active, const Addresses& addresses) {
    if (active == 0) return Flow::next;
    const unsigned count = inst.count;
    const auto bytes = static_cast<std::uint32_t>(sizeof(Memory)) * count;
    if constexpr (sizeof(Memory) == 4 && sizeof(Register) == 4)
        if (count == 4 && active == all_lanes) return move_fours(warp, inst, addresses, AccessKind::store);
    Reached reached;
    if (const auto flow = reach(warp, inst.space, active, addresses, bytes, bytes, AccessKind::store, reached); flow != Flow::next) return flow;
    const bool row = reached.together && active == all_lanes && reached.high - reached.low == (lanes - 1) * std::uint64_t{bytes} &&
                     neighbours(addresses, reached.low, bytes);
    if (row && count == 1) {
        const auto* from = warp.at<Register>(inst.extra[0]);
        auto* to = reached.together_at(reached.low);
        for (unsigned l = 0; l < lanes; ++l) lanewise::store<Memory>(to, l, extend<Memory, Register, false>(from[l]));
        return Flow::next;
    }
    // Lane after lane: where several write the same bytes, the last one's are left.
    const Register* from[8];
    for (unsigned i = 0; i < count; ++i) from[i] = warp.at<Register>(inst.extra[i]);
    for (Mask m = active; m != 0; m &= m - 1) {
        const auto lane = static_cast<unsigned>(std::countr_zero(m));
        auto* to = reached.together ? reached.together_at(addresses.lane[lane]) : reached.pointers[lane];
        for (unsigned i = 0; i < count; ++i) lanewise::store<Memory>(to, i, extend<Memory, Register, false>(from[i][lane]));
    }
    return Flow::next;
}

// Calls f(Memory{}, Register{}) with the types of these widths. Program has checked that they are among these.
template <class F>
Flow with_types(unsigned bytes, unsigned register_bytes, F&& f) {
    const auto wider = [&](auto memory) {
        switch (register_bytes) {
            case 2: return f(memory, std::uint16_t{});
            case 4: return f(memory, std::uint32_t{});
            default: return f(memory, std::uint64_t{});
        }
    };
    switch (bytes) {
        case 1: return wider(std::uint8_t{});
        case 2: return wider(std::uint16_t{});
        case 4: return wider(std::uint32_t{});
        case 8: return wider(std::uint64_t{});
        default: return f(Wide{}, Wide{});
    }
}

// Whether a strong load of one element has read the same again: most of those that wait for other threads are such loads.
Flow polled(Warp& warp, const Inst& inst, Mask active, Flow flow) {
    if (flow != Flow::next || active == 0 || inst.count != 1 || inst.extra[0] == no_operand || inst.register_bytes > sizeof(std::uint64_t))
        return flow;
    std::uint64_t value = 0;
    const auto lane = static_cast<unsigned>(std::countr_zero(active));
    std::memcpy(&value, warp.at<std::byte>(inst.extra[0]) + std::size_t{lane} * inst.register_bytes, inst.register_bytes);
    return warp.polled(inst, value);
}

Flow load(Warp& warp, const Inst& inst, Mask active) {
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    const auto flow = with_types(inst.bytes, inst.register_bytes, [&](auto memory, auto reg) {
        using Memory = decltype(memory);
        using Register = decltype(reg);
        if constexpr (!std::is_same_v<Memory, Wide> && sizeof(Memory) < sizeof(Register)) {
            if (inst.flags & flag::sign_extend) return load_as<Memory, Register, true>(warp, inst, active, addresses);
        }
        return load_as<Memory, Register, false>(warp, inst, active, addresses);
    });
    return (inst.flags & flag::strong) != 0 ? polled(warp, inst, active, flow) : flow;
}

Flow store(Warp& warp, const Inst& inst, Mask active) {
    Addresses addresses;
    compute_addresses(warp, inst, addresses);
    return with_types(inst.bytes, inst.register_bytes,
                      [&](auto memory, auto reg) { return store_as<decltype(memory), decltype(reg)>(warp, inst, active, addresses); });
}

// mov.pack: d = {s0, s1, …}, first element in the low bits; extra holds the elements.
Flow pack(Warp& warp, const Inst& inst, Mask active) {
    auto* to = warp.at<std::byte>(inst.d);
    const unsigned width = inst.bytes, total = inst.register_bytes;
    for (unsigned i = 0; i < inst.count; ++i) {
        const auto* from = warp.at<std::byte>(inst.extra[i]);
        const unsigned stride = std::max(width, 2u);  // 8-bit registers are kept in 16 bits
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            std::memcpy(to + lane * total + i * width, from + lane * stride, width);
        }
    }
    return Flow::next;
}

Flow unpack(Warp& warp, const Inst& inst, Mask active) {
    const auto* from = warp.at<std::byte>(inst.s[0]);
    const unsigned width = inst.bytes, total = inst.register_bytes;
    for (unsigned i = 0; i < inst.count; ++i) {
        if (inst.extra[i] == no_operand) continue;
        auto* to = warp.at<std::byte>(inst.extra[i]);
        const unsigned stride = std::max(width, 2u);
        for (Mask m = active; m != 0; m &= m - 1) {
            const auto lane = static_cast<unsigned>(std::countr_zero(m));
            std::uint64_t word[2]{};
            std::memcpy(word, from + lane * total + i * width, width);
            std::memcpy(to + lane * stride, word, stride);
        }
    }
    return Flow::next;
}

Flow is_space(Warp& warp, const Inst& inst, Mask active) {
    const auto* address = warp.at<std::uint64_t>(inst.s[0]);
    Mask hit = 0;
    for (unsigned l = 0; l < lanes; ++l)
        if (space_of(address[l]) == inst.space) hit |= Mask{1} << l;
    auto& d = *warp.at<Mask>(inst.d);
    d = (d & ~active) | (hit & active);
    return Flow::next;
}

constexpr std::array table{
    Operation{"ld", load, false, load_unwatched},
    Operation{"st", store, false, store_unwatched},
    Operation{"mov.pack", pack},
    Operation{"mov.unpack", unpack},
    Operation{"isspacep", is_space},
};

}  // namespace

std::span<const Operation> memory_operations() { return table; }

}  // namespace wmmadiag
