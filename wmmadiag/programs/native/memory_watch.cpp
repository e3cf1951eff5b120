// What launches touch and change of the device's memory, and what it holds.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "host_access.hpp"
#include "memory.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t most_changes = 4096;  // stretches of one allocation that one launch changed

// Of bytes: equal for equal ones, and for others as good as never. Eight lanes, so that it runs at the speed of memory.
std::uint64_t digest(const std::byte* bytes, std::uint64_t size) {
    constexpr std::uint64_t odd = 0x9e37'79b9'7f4a'7c15;
    constexpr std::size_t lanes = 8, stride = lanes * sizeof(std::uint64_t);
    std::uint64_t state[lanes], last[lanes]{};
    for (std::size_t l = 0; l < lanes; ++l) state[l] = odd * (size + l + 1);
    const auto mix = [&](const void* from) {
        std::uint64_t words[lanes];
        std::memcpy(words, from, stride);
        for (std::size_t l = 0; l < lanes; ++l) {
            state[l] = (state[l] ^ words[l]) * odd;
            state[l] ^= state[l] >> 32;
        }
    };
    std::uint64_t at = 0;
    for (; at + stride <= size; at += stride) mix(bytes + at);
    if (at < size) std::memcpy(last, bytes + at, size - at);
    mix(last);
    std::uint64_t sum = 0;
    for (const auto one : state) {
        sum = (sum ^ one) * odd;
        sum ^= sum >> 29;
    }
    return sum == 0 ? 1 : sum;
}

// Bytes from its view on that say all of an allocation: what it holds, and while some of it is unwritten, which.
std::uint64_t state_bytes(const Allocation& one) { return one.unwritten == 0 ? one.size : in_pages(one.size) + one.size / 8 + 1; }

// What memory holds that the host sees, before a launch writes to it.
void keep_before(Allocation& one, std::uint64_t size) {
    if (!memory().keeping || one.raced || (one.kind != Kind::managed && one.kind != Kind::pinned)) return;
    void* kept = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED) return;
    mprotect(one.view, size, PROT_READ);
    std::memcpy(kept, one.view, one.size);
    one.before = static_cast<std::byte*>(kept);
}

// The elements in which two contents of an allocation differ: a launch has written at least these.
void tell_changes(const Allocation& one, const std::byte* left, const std::byte* right) {
    const auto item = std::max<std::uint64_t>(one.item, 1), stride = 256 * item, none = one.size;
    auto begin = none;
    std::uint64_t told = 0;
    const auto end_at = [&](std::uint64_t at) {
        if (begin != none) changes(one.address + begin, one.address + at), ++told;
        begin = none;
    };
    for (std::uint64_t base = 0; base < one.size && told < most_changes; base += stride) {
        const auto last = std::min(base + stride, one.size);
        if (std::memcmp(left + base, right + base, last - base) == 0) {
            end_at(base);
            continue;
        }
        for (auto at = base; at < last; at += item) {
            const bool same = std::memcmp(left + at, right + at, std::min(item, last - at)) == 0;
            if (same) end_at(at);
            else if (begin == none) begin = at;
        }
    }
    end_at(one.size);
}

}  // namespace

bool opened(const void* pointer, bool write) {
    auto& all = memory();
    if (!all.watching) return false;
    const auto address = reinterpret_cast<std::uint64_t>(pointer);
    auto after = all.views.upper_bound(address);
    if (after == all.views.begin()) return false;
    auto* one = std::prev(after)->second;
    const auto size = in_pages(one->size);
    if (one->adopted || address - reinterpret_cast<std::uint64_t>(one->view) >= size) return false;
    // Several of the emulator's threads may come here at once.
    static std::atomic_flag busy = ATOMIC_FLAG_INIT;
    while (busy.test_and_set(std::memory_order_acquire)) {
    }
    if (write && (one->touched & 2) == 0) {
        one->touched |= 2;
        keep_before(*one, size);
        mprotect(one->view, size, PROT_READ | PROT_WRITE);
    } else if (!write && one->touched == 0) {
        one->touched |= 1;
        mprotect(one->view, size, PROT_READ);
    }
    busy.clear(std::memory_order_release);
    return true;
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

// Whether what the next launch changes of memory that the host sees is to be told.
void wmmadiag_keep(int on) { memory().keeping = on != 0 && guards_host_memory(); }
// A launch begins: its first access to each allocation is noted. `noting`: it sets the bits of what it writes.
void wmmadiag_watch(int noting) {
    auto& all = memory();
    all.noting = noting != 0;
    for (const auto& [view, one] : all.views) {
        one->touched = one->adopted ? 3 : 0;
        if (!one->adopted) mprotect(one->view, in_pages(one->size), PROT_NONE);
    }
    all.watching = true;
}
struct WmmadiagTouched {
    std::uint64_t address, view, bytes;
};
// It has ended: what it touched, and where its bytes are, with the bits behind them where some are unwritten.
std::uint64_t wmmadiag_watched(WmmadiagTouched* rows, std::uint64_t most) {
    auto& all = memory();
    all.watching = false;
    std::uint64_t count = 0;
    for (const auto& [view, one] : all.views) {
        if (!one->adopted) mprotect(one->view, in_pages(one->size), PROT_READ | PROT_WRITE);
        if (one->before != nullptr) {
            tell_changes(*one, one->before, one->view);
            munmap(std::exchange(one->before, nullptr), in_pages(one->size));
        }
        if ((one->touched & 2) != 0) {
            ++one->version;
            if (one->unwritten != 0 && all.noting) one->count_unwritten();
            else one->unwritten = 0;
        }
        if (one->touched != 0 && count++ < most) rows[count - 1] = {one->address, reinterpret_cast<std::uint64_t>(one->view), state_bytes(*one)};
    }
    return count;
}
// A digest of what the allocation at an address holds, its size and what of it is unwritten included; 0: there is none.
std::uint64_t wmmadiag_content(std::uint64_t address) {
    auto* one = allocation_at(reinterpret_cast<const void*>(address));
    if (one == nullptr) return 0;
    // What the host may write unseen has no version to go by.
    const bool unseen = one->adopted || one->kind == Kind::managed || one->kind == Kind::pinned;
    if (unseen || one->content == 0 || one->content_version != one->version) {
        one->content = digest(one->view, state_bytes(*one));
        one->content_version = one->version;
    }
    return one->content;
}
// What a launch left in an allocation is put there again.
void wmmadiag_restore(std::uint64_t address, const std::byte* bytes, std::uint64_t size, std::uint64_t content) {
    auto* one = allocation_at(reinterpret_cast<const void*>(address));
    if (memory().keeping && (one->kind == Kind::managed || one->kind == Kind::pinned)) tell_changes(*one, one->view, bytes);
    std::memcpy(one->view, bytes, size);
    one->unwritten = 0;
    if (size > one->size) one->count_unwritten();
    one->content = content;
    one->content_version = ++one->version;
}

}  // extern "C"
