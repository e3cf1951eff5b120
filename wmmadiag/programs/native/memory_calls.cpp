// The runtime's calls about memory: given, freed, described.
#include "memory.hpp"

#include "graph.hpp"

namespace wmmadiag {

cudaError_t allocated(void** pointer, std::size_t bytes, Kind kind, const char* call) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    if (pointer == nullptr) return failed(cudaErrorInvalidValue);
    *pointer = bytes == 0 ? nullptr : allocate(bytes, kind == Kind::device && memory().open ? Kind::managed : kind, call);
    return *pointer == nullptr && bytes != 0 ? failed(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t freed(void* pointer, Kind kind) {
    WMMADIAG_LOCKED;
    const auto before = status(true);
    if (pointer == nullptr) return before;
    if (auto* one = allocation_at(pointer); one != nullptr && one->of_graph) {  // the next launch of the graph gives it again
        one->begin_unwritten();
        return before;
    }
    if (before != cudaSuccess) {  // what was to be freed may never have been given
        if (allocation_at(pointer) != nullptr) release(pointer, kind);
        return before;
    }
    return release(pointer, kind) ? cudaSuccess : failed(cudaErrorInvalidValue);
}

}  // namespace wmmadiag

using namespace wmmadiag;

extern "C" {

// Tells of memory that the program never gave back, once for each call that made some.
void wmmadiag_leaks() {
    WMMADIAG_LOCKED;
    struct Made {
        std::string name;
        std::uint64_t count = 0, bytes = 0;
    };
    std::map<std::pair<std::string, int>, Made> calls;
    for (const auto& [address, one] : memory().live) {
        if (one->adopted || one->of_graph || one->kind == Kind::symbol) continue;
        auto& made = calls[{one->file, one->line}];
        made.name = one->name;
        ++made.count;
        made.bytes += one->size;
    }
    for (const auto& [place, made] : calls) {
        here() = {place.first.c_str(), place.second, "", 1};
        report("memory", "leak", "warning",
               made.name + " is never freed: " + std::to_string(made.count) + (made.count == 1 ? " allocation, " : " allocations, ") +
                   std::to_string(made.bytes) + " bytes",
               "free it (cudaFree, cudaFreeHost) before the program ends");
    }
    here() = {};
}

// For a program whose host code works on the device's memory: Thrust's algorithms.
void wmmadiag_open_memory() { memory().open = true; }

void wmmadiag_item(std::size_t bytes) { here().item = bytes; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) { return allocated(pointer, bytes, Kind::device, "cudaMalloc"); }
cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
    if (bytes == 0) return failed(cudaErrorInvalidValue);
    return allocated(pointer, bytes, Kind::managed, "cudaMallocManaged");
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) { return allocated(pointer, bytes, Kind::pinned, "cudaMallocHost"); }
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) { return allocated(pointer, bytes, Kind::pinned, "cudaHostAlloc"); }
cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width, std::size_t height) {
    if (pointer == nullptr || pitch == nullptr) return failed(cudaErrorInvalidValue);
    *pitch = (width + 511) / 512 * 512;
    return allocated(pointer, *pitch * height, Kind::device, "cudaMallocPitch");
}
cudaError_t cudaMalloc3D(cudaPitchedPtr* to, cudaExtent extent) {
    const auto pitch = (extent.width + 511) / 512 * 512;
    *to = {nullptr, pitch, extent.width, extent.height};
    return allocated(&to->ptr, pitch * extent.height * extent.depth, Kind::device, "cudaMalloc3D");
}
cudaError_t cudaFree(void* pointer) {
    flush_output();
    waited();
    return freed(pointer, Kind::device);
}
cudaError_t cudaFreeHost(void* pointer) { return freed(pointer, Kind::pinned); }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
    WMMADIAG_LOCKED;
    *device = host;
    return allocation_at(host) != nullptr ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
    WMMADIAG_LOCKED;
    if (const auto before = status(); before != cudaSuccess) return before;
    return adopt(pointer, bytes, Kind::pinned, "registered host memory") ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void* pointer) {
    WMMADIAG_LOCKED;
    auto& all = memory();
    const auto found = all.live.find(reinterpret_cast<std::uint64_t>(pointer));
    if (found == all.live.end() || !found->second->adopted) return failed(cudaErrorInvalidValue);
    all.views.erase(found->first);
    all.live.erase(found);
    return status(true);
}
cudaError_t cudaHostGetFlags(unsigned* flags, void* pointer) {
    WMMADIAG_LOCKED;
    *flags = cudaHostAllocMapped;
    return allocation_at(pointer) != nullptr ? cudaSuccess : failed(cudaErrorInvalidValue);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    WMMADIAG_LOCKED;
    *total = static_cast<std::size_t>(host().property("totalGlobalMem"));
    *free = *total - memory().used;
    return status();
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* to, const void* pointer) {
    WMMADIAG_LOCKED;
    *to = {};
    to->type = cudaMemoryTypeUnregistered;
    to->device = -2;
    to->hostPointer = const_cast<void*>(pointer);
    const auto* one = allocation_at(pointer);
    if (one == nullptr) return cudaSuccess;
    to->device = 0;
    to->devicePointer = const_cast<void*>(pointer);
    to->type = one->kind == Kind::managed ? cudaMemoryTypeManaged : one->kind == Kind::pinned ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    if (to->type == cudaMemoryTypeDevice) to->hostPointer = nullptr;
    return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void* pointer, std::size_t bytes, cudaMemLocation location, unsigned, cudaStream_t) {
    WMMADIAG_LOCKED;  // where managed memory lies is no difference here; that it is such memory is
    auto* one = allocation_at(pointer);
    if (device_bytes(pointer, bytes, Access::read, "cudaMemPrefetchAsync") == nullptr || one == nullptr) return failed(cudaErrorInvalidValue);
    one->prefetched = location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
    return status();
}
cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void* pointer, std::size_t, unsigned) {
    WMMADIAG_LOCKED;  // the host may look at managed memory at any time here
    const auto* one = allocation_at(pointer);
    return one != nullptr && one->kind == Kind::managed ? status() : failed(cudaErrorInvalidValue);
}
// Advice moves nothing here; what was given is kept for the program to ask, for an allocation as a whole.
cudaError_t cudaMemAdvise(const void* pointer, std::size_t bytes, cudaMemoryAdvise advice, cudaMemLocation location) {
    WMMADIAG_LOCKED;
    auto* one = allocation_at(pointer);
    if (device_bytes(pointer, bytes, Access::read, "cudaMemAdvise") == nullptr || one == nullptr) return failed(cudaErrorInvalidValue);
    const int device = location.type == cudaMemLocationTypeDevice ? location.id : cudaCpuDeviceId;
    switch (advice) {
        case cudaMemAdviseSetReadMostly: one->read_mostly = true; break;
        case cudaMemAdviseUnsetReadMostly: one->read_mostly = false; break;
        case cudaMemAdviseSetPreferredLocation: one->preferred = device; break;
        case cudaMemAdviseUnsetPreferredLocation: one->preferred = cudaInvalidDeviceId; break;
        case cudaMemAdviseSetAccessedBy: one->accessed_by = device; break;
        case cudaMemAdviseUnsetAccessedBy: one->accessed_by = cudaInvalidDeviceId; break;
    }
    return status();
}
cudaError_t cudaMemRangeGetAttribute(void* data, std::size_t size, cudaMemRangeAttribute attribute, const void* pointer, std::size_t bytes) {
    WMMADIAG_LOCKED;
    const auto* one = allocation_at(pointer);
    if (data == nullptr || size < sizeof(int) || one == nullptr || one->kind != Kind::managed ||
        bytes > one->size - (reinterpret_cast<std::uint64_t>(pointer) - one->address))
        return failed(cudaErrorInvalidValue);
    auto* value = static_cast<int*>(data);
    switch (attribute) {
        case cudaMemRangeAttributeReadMostly: *value = one->read_mostly ? 1 : 0; break;
        case cudaMemRangeAttributePreferredLocation: *value = one->preferred; break;
        case cudaMemRangeAttributeAccessedBy:
            for (std::size_t i = 0; i < size / sizeof(int); ++i) value[i] = i == 0 ? one->accessed_by : cudaInvalidDeviceId;
            break;
        case cudaMemRangeAttributeLastPrefetchLocation: *value = one->prefetched; break;
        case cudaMemRangeAttributePreferredLocationType:
        case cudaMemRangeAttributeLastPrefetchLocationType: {
            const int at = attribute == cudaMemRangeAttributePreferredLocationType ? one->preferred : one->prefetched;
            *value = at == cudaInvalidDeviceId ? cudaMemLocationTypeInvalid
                     : at == cudaCpuDeviceId   ? cudaMemLocationTypeHost
                                               : cudaMemLocationTypeDevice;
            break;
        }
        default: *value = one->preferred == cudaInvalidDeviceId ? 0 : one->preferred; break;
    }
    return status();
}
cudaError_t cudaMemRangeGetAttributes(void** data, std::size_t* sizes, cudaMemRangeAttribute* attributes, std::size_t count, const void* pointer,
                                      std::size_t bytes) {
    for (std::size_t i = 0; i < count; ++i)
        if (const auto error = cudaMemRangeGetAttribute(data[i], sizes[i], attributes[i], pointer, bytes); error != cudaSuccess) return error;
    return status();
}

}  // extern "C"
