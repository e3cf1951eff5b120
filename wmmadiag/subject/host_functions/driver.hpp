// Calls of the user's function: its arrays in, or placed so that the first byte behind them, or any before, is noticed.
#pragma once

#include <sys/mman.h>
#include <sys/time.h>
#include <csetjmp>
#include <csignal>
#include <deque>

namespace wmmadiag {

void call(void* const* arrays, const double* numbers);  // of the generated source

inline const long* counts;       // elements of each array, 0 where nobody says
inline const double* roundings;  // of the type that holds each array, relative

// Between two calls an array holds what its type can: what reads it next may read it so.
inline void kept(real* array, int index) {
    for (long i = 0; i < (counts ? counts[index] : 0); ++i)
        if (array[i].m != UNWRITTEN) array[i].e += roundings[index] * (std::fabs(array[i].v) + array[i].e), array[i].settle();
}
template <class T>
void kept(T*, int) {}

struct Region {
    char* start;  // of the pages that may be touched; they end at `end`
    char* end;
    std::size_t known;  // bytes from the start that have been touched, whole pages
};
inline sigjmp_buf left;
inline Region* regions;
inline int count;
inline volatile int culprit;
inline bool grows;  // whether a touched page becomes usable
constexpr std::size_t PAGE = 4096;

inline void faulted(int, siginfo_t* info, void*) {
    char* address = static_cast<char*>(info->si_addr);
    for (int i = 0; regions && i < count; ++i) {
        Region& one = regions[i];
        if (address < one.start || address >= one.end + PAGE) continue;
        culprit = i;
        std::size_t needed = (static_cast<std::size_t>(address - one.start) / PAGE + 1) * PAGE;
        if (!grows || one.start + needed > one.end) break;
        mprotect(one.start + one.known, needed - one.known, PROT_READ | PROT_WRITE);
        one.known = needed;
        return;
    }
    siglongjmp(left, 1);
}

inline void stop() { siglongjmp(left, 1); }
inline void timed_out(int) {
    left_to_do = -1;
    stop();
}

// What makes no operation and does not end is stopped by its processor's time, to which no other process's work adds.
inline void timed(long seconds) {
    itimerval limit = {};
    limit.it_value.tv_sec = seconds;
    setitimer(ITIMER_VIRTUAL, &limit, nullptr);
}

// Bounds what the calls until its end may do: `work` operations, 0 for as many as they like, within `seconds`.
struct Bounded {
    bool set;
    Bounded(long work, long seconds) : set(work > 0) {
        left_to_do = set ? work : LONG_MAX, over = stop;
        if (set) timed(seconds);
    }
    ~Bounded() {
        if (set) timed(0);
        left_to_do = LONG_MAX;
    }
};

inline bool survives(void* const* arrays, const double* numbers) {
    struct sigaction now = {}, later = {}, segv, bus, fpe, abrt, alarm;
    later.sa_handler = timed_out;
    later.sa_flags = SA_NODEFER;
    now.sa_sigaction = faulted;
    now.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &now, &segv), sigaction(SIGBUS, &now, &bus);
    sigaction(SIGFPE, &now, &fpe), sigaction(SIGABRT, &now, &abrt), sigaction(SIGVTALRM, &later, &alarm);
    bool ended = sigsetjmp(left, 1) == 0 && left_to_do >= 0;
    if (ended) call(arrays, numbers);
    sigaction(SIGSEGV, &segv, nullptr), sigaction(SIGBUS, &bus, nullptr);
    sigaction(SIGFPE, &fpe, nullptr), sigaction(SIGABRT, &abrt, nullptr), sigaction(SIGVTALRM, &alarm, nullptr);
    return ended;
}

inline void fill(char* start, std::size_t bytes, int whole_bytes, long range) {
    std::memset(start, 0, bytes);
    for (std::size_t i = 0; whole_bytes && i < bytes / whole_bytes; ++i) {
        long value = static_cast<long>(i * 7919 + i / 13) % range;
        std::memcpy(start + i * whole_bytes, &value, whole_bytes);
    }
}

}  // namespace wmmadiag

namespace wmmadiag {

// An array's copy between pages that nobody may touch, so that nothing else is broken: its last byte lies before them, or
// it has room behind it.
constexpr std::size_t GAP = 1 << 28;
struct Guarded {
    char *own, *start = nullptr, *made = nullptr;
    std::size_t bytes, whole;

    Guarded(void* array, std::size_t size, std::size_t room) : own(static_cast<char*>(array)), bytes(size), whole((room + PAGE - 1) / PAGE * PAGE) {
        void* mapped = mmap(nullptr, whole + 2 * GAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) return;
        made = static_cast<char*>(mapped);
        mprotect(made + GAP, whole, PROT_READ | PROT_WRITE);
        start = made + GAP + (room > size ? 0 : whole - size);
        std::memcpy(start, own, bytes);
    }
    Guarded(const Guarded&) = delete;
    ~Guarded() {
        if (!made) return;
        std::memcpy(own, start, bytes);
        munmap(made, whole + 2 * GAP);
    }
};

}  // namespace wmmadiag

// 1 where the function ends.
// bytes: of each array; rooms: that it may have, as many or more. units: of a rounding, of tanh. work: the operations
// that it may make, 0 for any, within `seconds` of a processor. Returns by `ambiguous` how many comparisons rounding decides.
extern "C" int wmmadiag_run(int n, void** given, const long* bytes, const long* rooms, const double* numbers, const double* units, const long* counts,
                            const double* roundings, long work, long seconds, long* ambiguous) {
    wmmadiag::Bounded bounded(work, seconds);
    wmmadiag::counts = counts, wmmadiag::roundings = roundings;
    wmmadiag::regions = nullptr, wmmadiag::count = 0;
    wmmadiag::unit = units[0], wmmadiag::tanh_unit = units[1], wmmadiag::ambiguous = 0;
    std::deque<wmmadiag::Guarded> held;
    std::vector<void*> arrays;
    for (int i = 0; i < n; ++i) arrays.push_back(held.emplace_back(given[i], bytes[i], rooms[i]).start);
    for (void* one : arrays)
        if (!one) return 0;
    bool ended = wmmadiag::survives(arrays.data(), numbers);
    *ambiguous = wmmadiag::ambiguous;
    return ended;
}

// How many elements of each array the function touches, by runs with a page behind it that nobody may touch.
// whole: bytes of an integer, 0 for `real`; range: what integers are below. 1 where the function ends within `most` bytes.
extern "C" int wmmadiag_extents(int n, const int* whole, const double* numbers, long range, long most, long work, long seconds, long* extents) {
    using namespace wmmadiag;
    Bounded bounded(work, seconds);
    counts = nullptr;
    std::vector<Region> held(n);
    std::vector<void*> arrays(n);
    bool ended = true;
    for (int i = 0; i < n; ++i) {
        void* made = mmap(nullptr, most + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (made == MAP_FAILED) return 0;
        char* start = static_cast<char*>(made) + PAGE;
        if (whole[i]) fill(start, std::min(most, 1L << 20), whole[i], range);
        mprotect(made, most + 2 * PAGE, PROT_NONE);
        held[i] = {start, start + most, 0};
        arrays[i] = start;
    }
    regions = held.data(), count = n, grows = true;
    ended = survives(arrays.data(), numbers);
    grows = false;
    for (int i = 0; ended && i < n; ++i) {
        long size = whole[i] ? whole[i] : sizeof(real);
        long high = (held[i].known + size - 1) / size, low = held[i].known ? (held[i].known - PAGE) / size : 0;
        char* end = held[i].start + held[i].known;
        for (long steps = 0; low < high && held[i].known; ++steps) {  // low: too few, or the page before
            long middle = low + (high - low) / 2;
            arrays[i] = end - middle * size;
            char* begin = static_cast<char*>(arrays[i]);
            if (begin < held[i].start) mprotect(held[i].start - PAGE, PAGE, PROT_READ | PROT_WRITE);
            if (whole[i]) fill(begin, end - begin, whole[i], range);
            survives(arrays.data(), numbers) ? high = middle : low = middle + 1;
        }
        arrays[i] = held[i].start;
        extents[i] = held[i].known ? high : 0;
    }
    ended = ended && left_to_do >= 0;  // else what was found out is short of the truth
    for (int i = 0; i < n; ++i) munmap(held[i].start - PAGE, most + 2 * PAGE);
    regions = nullptr, count = 0;
    return ended;
}
