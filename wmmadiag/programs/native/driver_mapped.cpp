// The driver's virtual memory: addresses, memory, and the one mapped to the other. It is there once access to it was given.
#include <cuda.h>

#include <cstring>
#include <map>

#include "driver.hpp"
#include "memory.hpp"

using namespace wmmadiag;

namespace {

constexpr std::size_t granularity = 2 << 20;

struct Mapping {
    std::uint64_t size = 0;
    CUmemGenericAllocationHandle handle = 0;
};
struct Mapped {
    std::map<std::uint64_t, std::uint64_t> reserved;             // begin → bytes
    std::map<CUmemGenericAllocationHandle, std::uint64_t> made;  // bytes
    std::map<std::uint64_t, Mapping> mappings;                   // begin → what lies there
    CUmemGenericAllocationHandle last = 0;
};
Mapped& mapped() {
    static auto* all = new Mapped;
    return *all;
}

// Whether a stretch lies in one that was reserved.
bool is_reserved(std::uint64_t begin, std::uint64_t size) {
    auto after = mapped().reserved.upper_bound(begin);
    if (after == mapped().reserved.begin()) return false;
    --after;
    return begin + size <= after->first + after->second;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(std::size_t* to, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
    *to = granularity;
    return CUDA_SUCCESS;
}
CUresult cuMemAddressReserve(CUdeviceptr* to, std::size_t size, std::size_t, CUdeviceptr, unsigned long long) {
    WMMADIAG_LOCKED;
    if (size == 0 || size % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
    *to = reserve(size);
    if (*to == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    mapped().reserved[*to] = size;
    return CUDA_SUCCESS;
}
CUresult cuMemAddressFree(CUdeviceptr pointer, std::size_t size) {
    WMMADIAG_LOCKED;
    const auto found = mapped().reserved.find(pointer);
    if (found == mapped().reserved.end() || found->second != size) return CUDA_ERROR_INVALID_VALUE;
    mapped().reserved.erase(found);
    return CUDA_SUCCESS;
}
CUresult cuMemCreate(CUmemGenericAllocationHandle* to, std::size_t size, const CUmemAllocationProp*, unsigned long long) {
    WMMADIAG_LOCKED;
    if (size == 0 || size % granularity != 0) return CUDA_ERROR_INVALID_VALUE;
    if (memory().used + size > static_cast<std::uint64_t>(host().property("totalGlobalMem"))) return CUDA_ERROR_OUT_OF_MEMORY;
    *to = ++mapped().last;
    mapped().made[*to] = size;
    return CUDA_SUCCESS;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    WMMADIAG_LOCKED;  // what is mapped stays
    return mapped().made.erase(handle) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuMemMap(CUdeviceptr pointer, std::size_t size, std::size_t offset, CUmemGenericAllocationHandle handle, unsigned long long) {
    WMMADIAG_LOCKED;
    const auto found = mapped().made.find(handle);
    if (found == mapped().made.end() || offset != 0 || size != found->second || !is_reserved(pointer, size)) return CUDA_ERROR_INVALID_VALUE;
    for (const auto& [begin, one] : mapped().mappings) {
        if (begin < pointer + size && pointer < begin + one.size) return CUDA_ERROR_INVALID_VALUE;
        if (one.handle != handle) continue;
        report("launch", "unsupported", "error", "cuMemMap: memory that is mapped to two addresses is not emulated", "map it to one");
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    mapped().mappings[pointer] = {size, handle};
    return CUDA_SUCCESS;
}
CUresult cuMemSetAccess(CUdeviceptr pointer, std::size_t size, const CUmemAccessDesc*, std::size_t) {
    WMMADIAG_LOCKED;
    for (std::uint64_t at = pointer; at < pointer + size;) {
        const auto found = mapped().mappings.find(at);
        if (found == mapped().mappings.end()) return CUDA_ERROR_INVALID_VALUE;
        at += found->second.size;
    }
    // One allocation for all that lies together, so that copies may reach over pieces: of what is there already the bytes are kept.
    std::uint64_t begin = pointer, end = pointer + size;
    const auto* first = allocation_at(reinterpret_cast<void*>(pointer));
    const auto* last = allocation_at(reinterpret_cast<void*>(end - 1));
    if (first != nullptr && first == last) return CUDA_SUCCESS;
    const auto* before = allocation_at(reinterpret_cast<void*>(pointer - 1));
    std::string kept;
    std::string bits;
    if (before != nullptr && first == nullptr) {
        begin = before->address;
        kept.assign(reinterpret_cast<const char*>(before->view), before->size);
        if (before->unwritten != 0) bits.assign(reinterpret_cast<const char*>(before->written()), before->size / 8 + 1);
        release(reinterpret_cast<void*>(begin), Kind::device);
    } else if (first != nullptr || last != nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (allocate_at(begin, end - begin, Kind::device, "cuMemMap") == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
    auto* one = allocation_at(reinterpret_cast<void*>(begin));
    static std::uint64_t times = 0;
    one->version = ++times << 32;  // no version that was here before
    std::memcpy(one->view, kept.data(), kept.size());
    if (bits.empty()) wrote(reinterpret_cast<void*>(begin), kept.size());
    else std::memcpy(one->written(), bits.data(), bits.size()), one->count_unwritten();
    return CUDA_SUCCESS;
}
CUresult cuMemUnmap(CUdeviceptr pointer, std::size_t size) {
    WMMADIAG_LOCKED;
    waited();
    auto& all = mapped().mappings;
    for (std::uint64_t at = pointer; at < pointer + size;) {
        const auto found = all.find(at);
        if (found == all.end()) return CUDA_ERROR_INVALID_VALUE;
        at += found->second.size;
    }
    for (auto* one = allocation_at(reinterpret_cast<void*>(pointer)); one != nullptr; one = allocation_at(reinterpret_cast<void*>(pointer))) {
        if (one->address < pointer || one->address + one->size > pointer + size) {
            report("launch", "unsupported", "error", "cuMemUnmap: a part of what lies together is not emulated", "unmap all of it at once");
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        release(reinterpret_cast<void*>(one->address), Kind::device);
    }
    all.erase(all.lower_bound(pointer), all.lower_bound(pointer + size));
    return CUDA_SUCCESS;
}

}  // extern "C"
