#include "host_access.hpp"

#include <execinfo.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>

#include "ordering.hpp"

namespace wmmadiag {

namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr int most_steps = 4096;  // over accesses that were no race, of one allocation; then it stays open

bool guarding = false;

struct Closed {
    Allocation* memory = nullptr;
    int steps = 0;
};
std::map<std::uint64_t, Closed>& closed() {
    static auto* all = new std::map<std::uint64_t, Closed>;
    return *all;
}
std::uint64_t stepping = 0;  // the allocation that is open for one instruction

std::uint64_t whole_pages(const Allocation& one) { return (one.size + page_bytes - 1) / page_bytes * page_bytes; }

void protect(const Allocation& one, std::uint64_t begin, std::uint64_t end, int how) {
    mprotect(reinterpret_cast<void*>(one.address + begin), end - begin, how);
}

void open_to_host(const Allocation& one) { protect(one, 0, whole_pages(one), PROT_READ | PROT_WRITE); }

bool guarded(const Allocation& one) {
    return !one.adopted && !one.raced && (one.kind == Kind::pinned || one.kind == Kind::managed) && !memory_is_open();
}

// Closes the pages that lie in a stretch, offsets in the allocation. Whole ones alone: a system call of the host may have the rest of one.
// What a launch changed is but a part of what it wrote, so there half a page will do.
void close_to_host(const Allocation& one, std::uint64_t begin, std::uint64_t end, bool written, bool part) {
    for (std::uint64_t at = begin / page_bytes * page_bytes; at < end; at += page_bytes) {
        const auto last = std::min(at + page_bytes, one.size), held = std::min(last, end) - std::max(at, begin);
        if (part ? 2 * held >= last - at : held == last - at) protect(one, at, at + page_bytes, written ? PROT_NONE : PROT_READ);
    }
}

void close_to_host(const Stretch& touched, bool part) {
    auto* one = allocation_at(reinterpret_cast<const void*>(touched.begin));
    if (one == nullptr || touched.touch == Touch::atomic || !guarded(*one)) return;
    closed().try_emplace(one->address, Closed{one, 0});
    close_to_host(*one, touched.begin - one->address, std::min(touched.end - one->address, one->size), touched.touch == Touch::write, part);
}

// Reads first: what some work writes stays closed for the host's reads, too.
void close_to_host(const Work& work, Touch touch) {
    if (work.talks || known_to_callbacks(work)) return;
    for (const auto& touched : work.stretches)
        if (touched.touch == touch) close_to_host(touched, false);
    if (touch == Touch::read) return;
    // From the first to the last change of each allocation.
    for (std::size_t first = 0; first < work.changed.size();) {
        const auto* one = allocation_at(reinterpret_cast<const void*>(work.changed[first].begin));
        auto next = first + 1;
        while (next < work.changed.size() && one != nullptr && work.changed[next].begin - one->address < one->size) ++next;
        close_to_host({work.changed[first].begin, work.changed[next - 1].end, Touch::write}, true);
        first = next;
    }
}

// The work in flight that a host's access races with, and what it does there.
const Work* raced_with(std::uint64_t begin, std::uint64_t end, bool write, Stretch& where) {
    for (const auto& work : remembered()) {
        if (work.talks || known_to_callbacks(work)) continue;
        for (const auto* all : {&work.stretches, &work.changed})
            for (const auto& one : *all)
                if (one.begin < end && begin < one.end && one.touch != Touch::atomic && (write || one.touch == Touch::write)) {
                    where = one;
                    return &work;
                }
    }
    return nullptr;
}

void tell(Allocation& memory, const Work& work, const Stretch& touched, bool write) {
    memory.raced = true;
    void* frames[48];
    const int count = backtrace(frames, 48);
    const auto from = touched.begin - memory.address;
    report_from(frames, count, "streams", "host-race", "error",
                std::string("host code ") + (write ? "writes" : "reads") + " bytes " + std::to_string(from) + " to " +
                    std::to_string(from + touched.end - touched.begin - 1) + " of " + memory.name + ", which " + work.name + " in " +
                    stream_name(work.stream) + (touched.touch == Touch::read ? " reads" : " writes") + ", and the host has not waited for it",
                "wait for it first: cudaStreamSynchronize, cudaEventSynchronize or cudaDeviceSynchronize", work.place);
}

#ifdef __x86_64__
void single_step(void* context, bool on) {
    auto& flags = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_EFL];
    flags = on ? flags | 0x100 : flags & ~0x100;  // TF (Intel SDM 1, 3.4.3)
}
constexpr bool can_step = true;
#else
void single_step(void*, bool) {}
constexpr bool can_step = false;
#endif

}  // namespace

bool guards_host_memory() { return guarding; }

void guard_host_memory() {
    if (!guarding || stepping != 0) return;
    for (const auto& [address, one] : closed())
        if (allocation_at(reinterpret_cast<const void*>(address)) == one.memory) open_to_host(*one.memory);
    std::map<std::uint64_t, Closed> before;
    before.swap(closed());
    for (const auto touch : {Touch::read, Touch::write})
        for (const auto& work : remembered()) close_to_host(work, touch);
    for (auto& [address, one] : closed())
        if (const auto found = before.find(address); found != before.end()) one.steps = found->second.steps;
}

bool host_touched(const void* address, bool write, void* context) {
    if (!guarding) return false;
    WMMADIAG_LOCKED;
    auto* memory = allocation_at(address);
    const auto found = memory == nullptr ? closed().end() : closed().find(memory->address);
    if (found == closed().end()) return false;
    const auto at = reinterpret_cast<std::uint64_t>(address);
    Stretch where{};
    open_to_host(*memory);
    if (const auto* work = raced_with(at, at + 1, write, where); work != nullptr) {
        tell(*memory, *work, where, write);
    } else if (can_step && context != nullptr && stepping == 0 && ++found->second.steps < most_steps) {
        stepping = memory->address;
        single_step(context, true);
    }
    return true;
}

bool host_stepped(void* context) {
    if (stepping == 0) return false;
    WMMADIAG_LOCKED;
    stepping = 0;
    single_step(context, false);
    guard_host_memory();
    return true;
}

void host_passes(const void* address, std::size_t bytes, bool write) {
    if (!guarding || bytes == 0) return;
    WMMADIAG_LOCKED;
    auto* memory = allocation_at(address);
    if (memory == nullptr || closed().count(memory->address) == 0) return;
    const auto at = reinterpret_cast<std::uint64_t>(address);
    Stretch where{};
    open_to_host(*memory);
    if (const auto* work = raced_with(at, at + bytes, write, where); work != nullptr) tell(*memory, *work, where, write);
}

}  // namespace wmmadiag

extern "C" {

// From now on host code is held to what the program's work does.
void wmmadiag_guard() { wmmadiag::guarding = true; }

// The system refuses memory that is closed, where an access of the program's own would be told: these are linked in place of libc's (--wrap).
std::size_t __wrap_fwrite(const void* from, std::size_t size, std::size_t count, FILE* file) {
    wmmadiag::host_passes(from, size * count, false);
    return fwrite(from, size, count, file);
}
std::size_t __wrap_fread(void* to, std::size_t size, std::size_t count, FILE* file) {
    wmmadiag::host_passes(to, size * count, true);
    return fread(to, size, count, file);
}
ssize_t __wrap_write(int file, const void* from, std::size_t bytes) {
    wmmadiag::host_passes(from, bytes, false);
    return write(file, from, bytes);
}
ssize_t __wrap_read(int file, void* to, std::size_t bytes) {
    wmmadiag::host_passes(to, bytes, true);
    return read(file, to, bytes);
}
}
