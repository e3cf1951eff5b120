// Memory that streams give and take, and the books of the pools that it comes from.
#include <algorithm>
#include <memory>
#include <vector>

#include "graph.hpp"
#include "memory.hpp"
#include "ordering.hpp"

namespace wmmadiag {

// Freed memory goes back at once; what a pool counts as reserved is what a chip keeps of it.
struct Pool {
    std::uint64_t used = 0, used_high = 0, reserved = 0, reserved_high = 0, threshold = 0, most = 0;
    int reuse[3] = {1, 1, 1};  // CUDA: by events, by chance, by waiting; without effect on results
};

namespace {

constexpr std::uint64_t kChunk = 32 << 20;  // a pool grows and shrinks by so much on an H200

struct Pools {
    std::vector<std::unique_ptr<Pool>> made;  // the device's own first; none is ever forgotten, its memory may outlive it
    std::vector<Pool*> open;
    Pool* current = nullptr;
    Pools() {
        made.push_back(std::make_unique<Pool>());
        open = {current = made.front().get()};
    }
};
Pools& pools() {
    static auto* all = new Pools;
    return *all;
}

Pool* pool_of(cudaMemPool_t handle) {
    auto* const one = reinterpret_cast<Pool*>(handle);
    return std::find(pools().open.begin(), pools().open.end(), one) != pools().open.end() ? one : nullptr;
}
cudaMemPool_t handle_of(Pool* pool) { return reinterpret_cast<cudaMemPool_t>(pool); }

std::uint64_t chunks(std::uint64_t bytes) { return (bytes + kChunk - 1) / kChunk * kChunk; }

cudaError_t taken_from(void** pointer, std::size_t bytes, Pool& from, const char* call) {
    if (from.most != 0 && from.used + bytes > from.most) return failed(cudaErrorMemoryAllocation);
    const auto error = allocated(pointer, bytes, Kind::device, call);
    if (error != cudaSuccess || *pointer == nullptr) return error;
    allocation_at(*pointer)->pool = &from;
    from.used_high = std::max(from.used_high, from.used += bytes);
    from.reserved_high = std::max(from.reserved_high, from.reserved = std::max(from.reserved, chunks(from.used)));
    return error;
}

// Memory is there for a stream's work from its allocation on to its being freed, and for work that these order.
cudaError_t in_order(cudaStream_t stream, void* pointer, Touch touch, const char* call) {
    const auto* one = allocation_at(pointer);
    if (one == nullptr || !several_streams() || memory().open) return cudaSuccess;
    return submit(stream, [address = reinterpret_cast<void*>(one->address), bytes = one->size, touch, call] {
        called(call);
        touches(address, bytes, touch);
        return cudaSuccess;
    });
}

}  // namespace

void returned(Pool& to, std::uint64_t bytes) {
    to.used -= bytes;
    if (to.reserved > to.threshold) to.reserved = std::min(to.reserved, chunks(std::max(to.used, to.threshold)));
}

}  // namespace wmmadiag

using namespace wmmadiag;

static bool of_the_device(const cudaMemPool_t* pool, const cudaMemLocation* where, cudaMemAllocationType kind) {
    return pool != nullptr && where != nullptr && where->type == cudaMemLocationTypeDevice && where->id == 0 && kind == cudaMemAllocationTypePinned;
}

extern "C" {

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (auto* capture = capture_of(stream); capture != nullptr && pointer != nullptr && bytes != 0)
        return allocate_in_graph(*capture, stream, pointer, bytes);
    const auto error = taken_from(pointer, bytes, *pools().current, "cudaMallocAsync");
    return error != cudaSuccess ? error : in_order(stream, *pointer, Touch::makes, "cudaMallocAsync");
}
cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    auto* const from = pool_of(pool);
    if (from == nullptr) return failed(cudaErrorInvalidValue);
    if (capture_of(stream) != nullptr) return cudaMallocAsync(pointer, bytes, stream);
    const auto error = taken_from(pointer, bytes, *from, "cudaMallocFromPoolAsync");
    return error != cudaSuccess ? error : in_order(stream, *pointer, Touch::makes, "cudaMallocFromPoolAsync");
}
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
    WMMADIAG_LOCKED;
    if (pointer != nullptr && capture_of(stream) != nullptr) return free_in_graph(stream, pointer);
    if (const auto error = in_order(stream, pointer, Touch::frees, "cudaFreeAsync"); error != cudaSuccess) return error;
    return freed(pointer, Kind::device);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
    WMMADIAG_LOCKED;
    *pool = handle_of(pools().made.front().get());
    return cudaSuccess;
}
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int) {
    WMMADIAG_LOCKED;
    *pool = handle_of(pools().current);
    return cudaSuccess;
}
cudaError_t cudaDeviceSetMemPool(int, cudaMemPool_t pool) {
    WMMADIAG_LOCKED;
    if (pool_of(pool) == nullptr) return failed(cudaErrorInvalidValue);
    pools().current = pool_of(pool);
    return cudaSuccess;
}
// There is one device, and pools are its own.
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t* pool, cudaMemLocation* where, cudaMemAllocationType kind) {
    return of_the_device(pool, where, kind) ? cudaDeviceGetDefaultMemPool(pool, 0) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetMemPool(cudaMemPool_t* pool, cudaMemLocation* where, cudaMemAllocationType kind) {
    return of_the_device(pool, where, kind) ? cudaDeviceGetMemPool(pool, 0) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemSetMemPool(cudaMemLocation* where, cudaMemAllocationType kind, cudaMemPool_t pool) {
    return of_the_device(&pool, where, kind) ? cudaDeviceSetMemPool(0, pool) : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* asked) {
    WMMADIAG_LOCKED;
    if (pool == nullptr || asked == nullptr) return failed(cudaErrorInvalidValue);
    auto* const one = pools().made.emplace_back(std::make_unique<Pool>()).get();
    one->most = asked->maxSize;
    pools().open.push_back(one);
    *pool = handle_of(one);
    return cudaSuccess;
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    WMMADIAG_LOCKED;
    auto* const one = pool_of(pool);
    auto* const own = pools().made.front().get();
    if (one == nullptr || one == own) return failed(cudaErrorInvalidValue);
    if (pools().current == one) pools().current = own;
    std::erase(pools().open, one);
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    WMMADIAG_LOCKED;
    auto* const one = pool_of(pool);
    if (one == nullptr || value == nullptr) return failed(cudaErrorInvalidValue);
    if (attribute >= cudaMemPoolReuseFollowEventDependencies && attribute <= cudaMemPoolReuseAllowInternalDependencies) {
        one->reuse[attribute - cudaMemPoolReuseFollowEventDependencies] = *static_cast<int*>(value);
        return status();
    }
    const auto number = *static_cast<std::uint64_t*>(value);
    const bool high = attribute == cudaMemPoolAttrReservedMemHigh || attribute == cudaMemPoolAttrUsedMemHigh;
    if (attribute != cudaMemPoolAttrReleaseThreshold && (!high || number != 0)) return failed(cudaErrorInvalidValue);
    if (attribute == cudaMemPoolAttrReleaseThreshold) one->threshold = number;
    if (attribute == cudaMemPoolAttrReservedMemHigh) one->reserved_high = one->reserved;
    if (attribute == cudaMemPoolAttrUsedMemHigh) one->used_high = one->used;
    return status();
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
    WMMADIAG_LOCKED;
    const auto* const one = pool_of(pool);
    if (one == nullptr || value == nullptr) return failed(cudaErrorInvalidValue);
    auto& number = *static_cast<std::uint64_t*>(value);
    switch (attribute) {
        case cudaMemPoolAttrReleaseThreshold: number = one->threshold; break;
        case cudaMemPoolAttrReservedMemCurrent: number = one->reserved; break;
        case cudaMemPoolAttrReservedMemHigh: number = one->reserved_high; break;
        case cudaMemPoolAttrUsedMemCurrent: number = one->used; break;
        case cudaMemPoolAttrUsedMemHigh: number = one->used_high; break;
        case cudaMemPoolReuseFollowEventDependencies:
        case cudaMemPoolReuseAllowOpportunistic:
        case cudaMemPoolReuseAllowInternalDependencies:
            *static_cast<int*>(value) = one->reuse[attribute - cudaMemPoolReuseFollowEventDependencies];
            break;
        default: return failed(cudaErrorInvalidValue);
    }
    return status();
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t bytes) {
    WMMADIAG_LOCKED;
    auto* const one = pool_of(pool);
    if (one == nullptr) return failed(cudaErrorInvalidValue);
    one->reserved = std::min(one->reserved, std::max(chunks(one->used), chunks(bytes)));
    return status();
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, std::size_t) { return status(); }  // there is one device
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t, cudaMemLocation*) {
    *flags = cudaMemAccessFlagsProtReadWrite;
    return status();
}

}  // extern "C"
