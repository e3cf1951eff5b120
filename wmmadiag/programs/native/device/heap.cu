// malloc and free of kernels, linked into a program that calls them: blocks of powers of two, from lists of what was freed, one for each
// size, then from the heap's end. Lock-free, so that lanes of one warp may call it together. What a launch frees is given out again by
// later launches alone (`DeviceHalf.turn_heap`): within one, nothing but these lists would order its users, which no check follows.
#include <stdint.h>

namespace {
constexpr uint64_t header = 16;  // the block's list, and a mark
constexpr uint64_t mark = 0x6d6d616469616721;
constexpr int smallest = 5, lists = 40;
}  // namespace

// Both are given their places by the process around the program; the first word of the heap is its size.
extern __device__ unsigned long long wmmadiag_heap[];
__device__ unsigned long long wmmadiag_heap_top;
// Head of a list: how often it changed, and the offset of its first block in units of 16 bytes. What may be given out, and what is freed.
__device__ unsigned long long wmmadiag_heap_lists[2][lists];

namespace {

__device__ unsigned long long* word(uint64_t offset) { return wmmadiag_heap + offset / 8; }

__device__ uint64_t taken(int list) {
    auto* head = &wmmadiag_heap_lists[0][list];
    for (unsigned long long seen = atomicAdd(head, 0ull);;) {
        const uint64_t offset = (seen & 0xffffffff) * 16;
        if (offset == 0) return 0;
        const auto next = atomicAdd(word(offset), 0ull);
        const auto now = atomicCAS(head, seen, ((seen + (1ull << 32)) & ~0xffffffffull) | next);
        if (now == seen) return offset;
        seen = now;
    }
}

}  // namespace

extern "C" __device__ void* wmmadiag_malloc(size_t bytes) {
    if (bytes == 0) return nullptr;
    int list = smallest;
    while (list < lists && (1ull << list) < bytes + header) ++list;
    if (list == lists) return nullptr;
    uint64_t offset = taken(list);
    if (offset == 0) {
        const auto size = 1ull << list, end = wmmadiag_heap[0];
        const uint64_t begin = atomicAdd(&wmmadiag_heap_top, size);
        offset = begin + header;
        if (offset + size > end) return nullptr;
    }
    atomicExch(word(offset), static_cast<unsigned long long>(list));
    atomicExch(word(offset + 8), mark);
    return word(offset + header);
}

extern "C" __device__ void wmmadiag_free(void* pointer) {
    if (pointer == nullptr) return;
    const uint64_t offset = static_cast<char*>(pointer) - reinterpret_cast<char*>(wmmadiag_heap) - header;
    if (offset >= wmmadiag_heap[0] || offset % header != 0 || atomicCAS(word(offset + 8), mark, 0ull) != mark) __trap();  // not from here, or freed already
    auto* head = &wmmadiag_heap_lists[1][atomicAdd(word(offset), 0ull)];
    for (unsigned long long seen = atomicAdd(head, 0ull);;) {
        atomicExch(word(offset), seen & 0xffffffff);
        const auto now = atomicCAS(head, seen, ((seen + (1ull << 32)) & ~0xffffffffull) | offset / 16);
        if (now == seen) return;
        seen = now;
    }
}
