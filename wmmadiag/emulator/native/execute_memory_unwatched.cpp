// ld and st of whole warps where nobody watches: all lanes in one region, checked and moved together. Everything else is for
// execute_memory.cpp, which also says what is wrong with an access.
#include "execute_memory_unwatched.hpp"

#include <algorithm>
#include <type_traits>

#include "access.hpp"
#include "lane_moves.hpp"
#include "tensor_core_vector.hpp"

namespace wmmadiag {

namespace {

// A region and, in bytes from its begin, where each lane's access lies.
struct Offsets {
    std::byte* host = nullptr;
    alignas(64) std::uint32_t lane[lanes];

    [[nodiscard]] std::byte* at(unsigned l) const { return host + lane[l]; }
};

// Addresses less `base` to offsets; whether all are aligned, and at most `last`.
template <class Address>
[[gnu::always_inline]] inline bool offsets_from(const Address* addresses, Address base, std::uint64_t last, std::uint32_t alignment,
                                                std::uint32_t* to) {
#if defined(WMMADIAG_AVX512)
    const auto low_bits = alignment - 1;
    if constexpr (sizeof(Address) == 4) {
        const __m512i from = _mm512_set1_epi32(static_cast<int>(base)), limit = _mm512_set1_epi32(static_cast<int>(last));
        const __m512i bits = _mm512_set1_epi32(static_cast<int>(low_bits));
        const __m512i a = _mm512_sub_epi32(load<__m512i>(addresses), from), b = _mm512_sub_epi32(load<__m512i>(addresses + 16), from);
        _mm512_store_si512(to, a), _mm512_store_si512(to + 16, b);
        const auto odd = _mm512_test_epi32_mask(_mm512_or_si512(a, b), bits);
        return (odd | _mm512_cmpgt_epu32_mask(_mm512_max_epu32(a, b), limit)) == 0;
    } else {
        const __m512i from = _mm512_set1_epi64(static_cast<std::int64_t>(base)), limit = _mm512_set1_epi64(static_cast<std::int64_t>(last));
        __m512i offset[4];
        for (unsigned i = 0; i < 4; ++i) {
            offset[i] = _mm512_sub_epi64(load<__m512i>(addresses + 8 * i), from);
            _mm256_store_si256(reinterpret_cast<__m256i*>(to + 8 * i), _mm512_cvtepi64_epi32(offset[i]));
        }
        const auto of_four = [&](auto&& f) { return f(f(offset[0], offset[1]), f(offset[2], offset[3])); };
        const __m512i any = of_four([](__m512i a, __m512i b) { return _mm512_or_si512(a, b); });
        const __m512i most = of_four([](__m512i a, __m512i b) { return _mm512_max_epu64(a, b); });
        const auto odd = _mm512_test_epi64_mask(any, _mm512_set1_epi64(low_bits));
        return (odd | _mm512_cmpgt_epu64_mask(most, limit)) == 0;
    }
#else
    Address most = 0, bits = 0;
    for (unsigned l = 0; l < lanes; ++l) {
        const auto offset = static_cast<Address>(addresses[l] - base);
        to[l] = static_cast<std::uint32_t>(offset);
        most = std::max(most, offset);
        bits |= offset;
    }
    return most <= last && (bits & (alignment - 1)) == 0;
#endif
}

// What a signed offset of 32 bits reaches.
constexpr std::uint64_t farthest = 0x7fffffff;

// Offsets in a region by the address register, which is what `Address` says; false where the access needs a closer look.
template <class Address>
[[gnu::always_inline]] inline bool offsets_within(const Warp& warp, const Inst& inst, std::uint64_t base, std::uint64_t size, std::uint32_t bytes,
                                                  std::byte* host, Offsets& to) {
    if (size < bytes || size > farthest || (base & (bytes - 1)) != 0) return false;
    to.host = host;
    const auto from = static_cast<Address>(base - static_cast<std::uint64_t>(inst.immediate));
    return offsets_from(warp.at<Address>(inst.s[0]), from, size - bytes, bytes, to.lane);
}

// By addresses of 64 bits, in the region of the first lane's.
bool find_wide_offsets(Warp& warp, const Inst& inst, std::uint32_t bytes, AccessKind kind, Offsets& to) {
    const auto& block = warp.block();
    auto& shared = block.shared();
    const auto within = [&](std::uint64_t base, std::uint64_t size, std::byte* host) {
        return offsets_within<std::uint64_t>(warp, inst, base, size, bytes, host, to);
    };
    const auto& spec = shared.spec;
    auto* ours = block.shared_memory() + spec.shared_base;
    const auto shared_bytes = spec.shared_stride == 0 ? spec.shared_bytes : 0;  // those of a cluster have gaps between them
    if (inst.space == Space::shared) return within(spec.shared_base, shared_bytes, ours);
    const auto first = first_address(warp, inst);
    if (inst.space == Space::generic && space_of(first) != Space::global)
        return space_of(first) == Space::shared && within(shared_window + spec.shared_base, shared_bytes, ours);
    auto* allocation = shared.memory->find(first);
    if (allocation == nullptr || allocation->touched != nullptr) return false;
    const bool write = kind == AccessKind::store;
    if (write && (!allocation->region.writable || allocation->initialised != nullptr)) return false;
    if (!within(allocation->region.base, allocation->region.size, allocation->region.host)) return false;
    if (!shared.tracking) return true;
    if (!write) {
        allocation->note_read();
        return true;
    }
    bool alone = true;
    for (const auto offset : to.lane) alone &= allocation->note_write(offset, bytes, block.index());
    if (!alone) shared.order_matters.store(true, std::memory_order_relaxed);
    return true;
}

// Finds the region; addresses of 32 bits are those of shared memory (`is_plain`).
[[gnu::always_inline]] inline bool find_offsets(Warp& warp, const Inst& inst, std::uint32_t bytes, AccessKind kind, Offsets& to) {
    if ((inst.flags & flag::address32) == 0) return find_wide_offsets(warp, inst, bytes, kind, to);
    const auto& block = warp.block();
    const auto& spec = block.shared().spec;
    if (spec.shared_stride != 0) return false;
    return offsets_within<std::uint32_t>(warp, inst, spec.shared_base, spec.shared_bytes, bytes, block.shared_memory() + spec.shared_base, to);
}

// How the lanes' offsets follow each other.
enum class Order : std::uint8_t { any, one, row };

Order order_of(const Offsets& offsets, std::uint32_t step) {
    const auto reach = offsets.lane[lanes - 1] - offsets.lane[0];
    if (reach != 0 && reach != (lanes - 1) * step) return Order::any;
    const auto by = reach == 0 ? 0 : step;
    std::uint32_t differ = 0;
    for (unsigned l = 0; l < lanes; ++l) differ |= offsets.lane[l] ^ (offsets.lane[0] + l * by);
    return differ != 0 ? Order::any : reach == 0 ? Order::one : Order::row;
}

template <class Register, class Memory, bool is_signed>
void load_register(Register* to, const Offsets& offsets, std::size_t ahead, std::size_t step, Order order) {
    const auto value_at = [&](const std::byte* from) { return extend<Register, Memory, is_signed>(lanewise::load<Memory>(from + ahead, 0)); };
    if (order == Order::one) {
        std::fill_n(to, lanes, value_at(offsets.at(0)));
        return;
    }
    if (order == Order::row && step == sizeof(Memory)) {
        const auto* from = offsets.at(0);
        for (unsigned l = 0; l < lanes; ++l) to[l] = extend<Register, Memory, is_signed>(lanewise::load<Memory>(from, l));
        return;
    }
#if defined(WMMADIAG_AVX512)
    const auto* base = offsets.host + ahead;
    if constexpr (sizeof(Memory) == 4 && sizeof(Register) == 4) {
        for (unsigned l = 0; l < lanes; l += 16) store(to + l, _mm512_i32gather_epi32(load<__m512i>(offsets.lane + l), base, 1));
        return;
    } else if constexpr (sizeof(Memory) == 8 && sizeof(Register) == 8) {
        for (unsigned l = 0; l < lanes; l += 8) store(to + l, _mm512_i32gather_epi64(load<__m256i>(offsets.lane + l), base, 1));
        return;
    }
#endif
    Register values[lanes];  // apart from the registers, which what is loaded cannot overlap
#pragma GCC unroll 32
    for (unsigned l = 0; l < lanes; ++l) values[l] = value_at(offsets.at(l));
    std::memcpy(to, values, sizeof values);
}

template <class Memory, class Register, bool is_signed>
Flow load_at_once(Warp& warp, const Inst& inst, Mask active) {
    const unsigned count = inst.count;
    const auto bytes = static_cast<std::uint32_t>(sizeof(Memory)) * count;
    Offsets offsets;
    if (active != all_lanes || !find_offsets(warp, inst, bytes, AccessKind::load, offsets)) return inst.execute(warp, inst, active);
    const auto order = order_of(offsets, bytes);
    for (unsigned i = 0; i < count; ++i)
        if (inst.extra[i] != no_operand)
            load_register<Register, Memory, is_signed>(warp.at<Register>(inst.extra[i]), offsets, i * sizeof(Memory), bytes, order);
    return Flow::next;
}

template <class Memory, class Register>
Flow store_at_once(Warp& warp, const Inst& inst, Mask active) {
    Offsets offsets;
    if (active != all_lanes || !find_offsets(warp, inst, sizeof(Memory), AccessKind::store, offsets)) return inst.execute(warp, inst, active);
    const auto* from = warp.at<Register>(inst.extra[0]);
    if (order_of(offsets, sizeof(Memory)) == Order::row) {
        auto* to = offsets.at(0);
        for (unsigned l = 0; l < lanes; ++l) lanewise::store<Memory>(to, l, extend<Memory, Register, false>(from[l]));
        return Flow::next;
    }
    // Lane after lane: where several write the same bytes, the last one's are left.
#pragma GCC unroll 32
    for (unsigned l = 0; l < lanes; ++l) lanewise::store<Memory>(offsets.at(l), 0, extend<Memory, Register, false>(from[l]));
    return Flow::next;
}

constexpr unsigned words_of_four = 4;

#if defined(WMMADIAG_AVX512)
// Of sixteen lanes: vector i has the words of lanes i, 4 + i, 8 + i, 12 + i on one side, word i of all lanes on the other.
[[gnu::always_inline]] inline void turn_words(__m512i (&v)[words_of_four]) {
    const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
    const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi64(a, c), v[1] = _mm512_unpackhi_epi64(a, c);
    v[2] = _mm512_unpacklo_epi64(b, d), v[3] = _mm512_unpackhi_epi64(b, d);
}

// The most frequent of the wide accesses: four words of each lane, a register of each word.
template <bool storing>
Flow move_fours_at_once(Warp& warp, const Inst& inst, Mask active) {
    constexpr std::uint32_t bytes = words_of_four * sizeof(std::uint32_t);
    Offsets offsets;
    const bool found = active == all_lanes && find_offsets(warp, inst, bytes, storing ? AccessKind::store : AccessKind::load, offsets);
    if (!found) return inst.execute(warp, inst, active);
    std::uint32_t* words[words_of_four];
    for (unsigned i = 0; i < words_of_four; ++i) words[i] = warp.at<std::uint32_t>(inst.extra[i]);
    for (unsigned first = 0; first < lanes; first += 16) {
        __m512i v[words_of_four];
        if constexpr (storing) {
            for (unsigned i = 0; i < words_of_four; ++i) v[i] = load<__m512i>(words[i] + first);
            turn_words(v);
            const auto put = [&]<int part>(std::integral_constant<int, part>) __attribute__((always_inline)) {
                for (unsigned i = 0; i < words_of_four; ++i) store(offsets.at(first + 4 * part + i), _mm512_extracti32x4_epi32(v[i], part));
            };
            put(std::integral_constant<int, 0>{}), put(std::integral_constant<int, 1>{});
            put(std::integral_constant<int, 2>{}), put(std::integral_constant<int, 3>{});
        } else {
            for (unsigned i = 0; i < words_of_four; ++i) {
                const auto of = [&](unsigned part) { return load<__m128i>(offsets.at(first + 4 * part + i)); };
                const __m512i two = _mm512_inserti32x4(_mm512_castsi128_si512(of(0)), of(1), 1);
                v[i] = _mm512_inserti32x4(_mm512_inserti32x4(two, of(2), 2), of(3), 3);
            }
            turn_words(v);
            for (unsigned i = 0; i < words_of_four; ++i) store(words[i] + first, v[i]);
        }
    }
    return Flow::next;
}

template <bool storing>
Execute fours(const Inst&) {
    return move_fours_at_once<storing>;
}
#else
template <bool storing>
Execute fours(const Inst& inst) {
    return inst.execute;
}
#endif

bool is_four_words(const Inst& inst) {
    return inst.bytes == 4 && inst.register_bytes == 4 && inst.count == words_of_four &&
           std::find(inst.extra, inst.extra + words_of_four, no_operand) == inst.extra + words_of_four;
}

// Whether such an access has a way here: of one space that a warp's lanes can share, neither strong nor of registers narrower than memory.
bool is_plain(const Inst& inst) {
    return inst.space != Space::local && (inst.flags & flag::strong) == 0 && inst.bytes <= 8 && inst.bytes <= inst.register_bytes &&
           ((inst.flags & flag::address32) == 0 || inst.space == Space::shared) && std::has_single_bit(unsigned{inst.bytes} * inst.count);
}

template <class Memory, class F>
Execute with_register(unsigned bytes, F&& f) {
    if constexpr (sizeof(Memory) <= 2)
        if (bytes == 2) return f(Memory{}, std::uint16_t{});
    if constexpr (sizeof(Memory) <= 4)
        if (bytes == 4) return f(Memory{}, std::uint32_t{});
    return f(Memory{}, std::uint64_t{});
}

template <class F>
Execute with_types(const Inst& inst, F&& f) {
    switch (inst.bytes) {
        case 1: return with_register<std::uint8_t>(inst.register_bytes, f);
        case 2: return with_register<std::uint16_t>(inst.register_bytes, f);
        case 4: return with_register<std::uint32_t>(inst.register_bytes, f);
        default: return with_register<std::uint64_t>(inst.register_bytes, f);
    }
}

}  // namespace

Execute load_unwatched(const Inst& inst, const ProgramSource&) {
    if (!is_plain(inst)) return inst.execute;
    if (is_four_words(inst)) return fours<false>(inst);
    return with_types(inst, [&]<class Memory, class Register>(Memory, Register) -> Execute {
        if constexpr (sizeof(Memory) < sizeof(Register))
            if ((inst.flags & flag::sign_extend) != 0) return load_at_once<Memory, Register, true>;
        return load_at_once<Memory, Register, false>;
    });
}

Execute store_unwatched(const Inst& inst, const ProgramSource&) {
    if (!is_plain(inst)) return inst.execute;
    if (is_four_words(inst)) return fours<true>(inst);
    if (inst.count != 1) return inst.execute;
    return with_types(inst, []<class Memory, class Register>(Memory, Register) -> Execute { return store_at_once<Memory, Register>; });
}

}  // namespace wmmadiag
