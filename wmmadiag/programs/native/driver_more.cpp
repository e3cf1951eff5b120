// The driver's interface, further: linking of PTX, contexts, registered memory, copies in two dimensions, streams and graphs.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "copies.hpp"
#include "driver.hpp"

using namespace wmmadiag;

namespace {

// What was given to a linker: one text, since what several say together is put together for the program's own sources alone.
struct Linker {
    std::string text;
};
Linker* linker_of(CUlinkState state) { return reinterpret_cast<Linker*>(state); }

CUresult refused(const char* function, const char* why, const char* hint, CUresult error) {
    report("launch", "unsupported", "error", std::string(function) + ": " + why, hint);
    return error;
}

// Where one end of a copy in two dimensions begins.
std::byte* begin_of(CUmemorytype type, const void* host_memory, CUdeviceptr device_memory, std::size_t x, std::size_t y, std::size_t pitch) {
    auto* base =
        type == CU_MEMORYTYPE_HOST ? static_cast<std::byte*>(const_cast<void*>(host_memory)) : static_cast<std::byte*>(pointer(device_memory));
    return base + y * pitch + x;
}

CUresult copy_2d(const CUDA_MEMCPY2D* p, bool waits, CUstream stream) {
    if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY) {
        return refused("cuMemcpy2D", "arrays are not emulated", "copy to plain memory", CUDA_ERROR_NOT_SUPPORTED);
    }
    const auto from_pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes, to_pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
    const auto* from = begin_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY, from_pitch);
    auto* to = begin_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY, to_pitch);
    const auto kind_of = [](CUmemorytype to_type, CUmemorytype from_type) {
        if (to_type == CU_MEMORYTYPE_UNIFIED || from_type == CU_MEMORYTYPE_UNIFIED) return cudaMemcpyDefault;
        if (to_type == CU_MEMORYTYPE_HOST) return from_type == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
        return from_type == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
    };
    const auto kind = kind_of(p->dstMemoryType, p->srcMemoryType);
    if (waits) return result(cudaMemcpy2D(to, to_pitch, from, from_pitch, p->WidthInBytes, p->Height, kind));
    return result(cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, p->WidthInBytes, p->Height, kind, stream));
}

cudaLaunchConfig_t config_of(const CUlaunchConfig& one) {
    static_assert(sizeof(CUlaunchAttribute) == sizeof(cudaLaunchAttribute));
    return {{one.gridDimX, one.gridDimY, one.gridDimZ},
            {one.blockDimX, one.blockDimY, one.blockDimZ},
            one.sharedMemBytes,
            one.hStream,
            reinterpret_cast<cudaLaunchAttribute*>(one.attrs),
            one.numAttrs};
}

}  // namespace

extern "C" {

CUresult cuLinkCreate_v2(unsigned, CUjit_option*, void**, CUlinkState* state) {
    *state = reinterpret_cast<CUlinkState>(new Linker);
    return CUDA_SUCCESS;
}
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void* data, std::size_t bytes, const char*, unsigned, CUjit_option*, void**) {
    WMMADIAG_LOCKED;
    if (type != CU_JIT_INPUT_PTX) return refused("cuLinkAddData", "machine code is not emulated", "give it PTX", CUDA_ERROR_NOT_SUPPORTED);
    auto& text = linker_of(state)->text;
    if (!text.empty())
        return refused("cuLinkAddData", "a second PTX is not linked with the first", "compile both sources as one", CUDA_ERROR_NOT_SUPPORTED);
    text.assign(static_cast<const char*>(data), bytes);
    text.resize(std::strlen(text.c_str()));
    return CUDA_SUCCESS;
}
CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char* name, unsigned, CUjit_option*, void**) {
    auto text = wmmadiag::content(name);
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuLinkAddData_v2(state, type, text->data(), text->size(), name, 0, nullptr, nullptr);
}
CUresult cuLinkComplete(CUlinkState state, void** image, std::size_t* bytes) {
    auto& text = linker_of(state)->text;
    if (text.empty()) return CUDA_ERROR_INVALID_VALUE;
    *image = text.data();  // modules are loaded from PTX here
    if (bytes != nullptr) *bytes = text.size() + 1;
    return CUDA_SUCCESS;
}
CUresult cuLinkDestroy(CUlinkState state) {
    delete linker_of(state);
    return CUDA_SUCCESS;
}

// One device, and one context of it.
CUresult cuDevicePrimaryCtxReset_v2(CUdevice) { return result(cudaDeviceReset()); }
CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) { return CUDA_SUCCESS; }
CUresult cuDevicePrimaryCtxGetState(CUdevice, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetApiVersion(CUcontext, unsigned* version) {
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetFlags(unsigned* flags) {
    *flags = 0;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
    *config = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}
CUresult cuCtxSetSharedMemConfig(CUsharedconfig) { return CUDA_SUCCESS; }
CUresult cuFuncSetSharedMemConfig(CUfunction, CUsharedconfig) { return CUDA_SUCCESS; }
CUresult cuCtxDetach(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) { return CUDA_ERROR_INVALID_DEVICE; }
CUresult cuDeviceCanAccessPeer(int* can, CUdevice, CUdevice) {
    *can = 0;
    return CUDA_SUCCESS;
}
CUresult cuCtxDisablePeerAccess(CUcontext) { return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED; }
CUresult cuCtxSetFlags(unsigned) { return CUDA_SUCCESS; }
CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}
CUresult cuCtxGetId(CUcontext, unsigned long long* id) {
    *id = 1;
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid_v2(CUuuid* to, CUdevice) {
    std::memcpy(to->bytes, "wmmadiag emulator", sizeof to->bytes);
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* to, CUpointer_attribute attribute, CUdeviceptr address) {
    WMMADIAG_LOCKED;
    const auto* one = allocation_at(pointer(address));
    if (one == nullptr) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *static_cast<unsigned*>(to) = one->kind == Kind::pinned ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *static_cast<CUdeviceptr*>(to) = address; break;
        case CU_POINTER_ATTRIBUTE_HOST_POINTER:
            if (one->kind != Kind::pinned && one->kind != Kind::managed) return CUDA_ERROR_INVALID_VALUE;
            *static_cast<void**>(to) = pointer(address);
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED: *static_cast<unsigned*>(to) = one->kind == Kind::managed; break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *static_cast<int*>(to) = 0; break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *static_cast<CUdeviceptr*>(to) = one->address; break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *static_cast<std::size_t*>(to) = one->size; break;
        case CU_POINTER_ATTRIBUTE_MAPPED: *static_cast<int*>(to) = 1; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}
CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr address) {
    WMMADIAG_LOCKED;
    const auto* one = allocation_at(pointer(address));
    if (one == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr) *base = one->address;
    if (bytes != nullptr) *bytes = one->size;
    return CUDA_SUCCESS;
}
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes) {
    return result(cudaMemcpyPeer(pointer(to), 0, pointer(from), 0, bytes));
}
CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* p) { return copy_2d(p, true, nullptr); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* p) { return copy_2d(p, true, nullptr); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* p, CUstream stream) { return copy_2d(p, false, stream); }
CUresult cuMemsetD2D8_v2(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height) {
    return result(cudaMemset2D(pointer(to), pitch, value, width, height));
}

CUresult cuStreamGetCtx(CUstream, CUcontext* context) { return cuCtxGetCurrent(context); }
// The driver's handles of graphs are the runtime's.

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads, std::size_t shared, unsigned) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* threads, CUfunction function, CUoccupancyB2DSize shared_of, std::size_t shared,
                                                   int limit, unsigned) {
    return cuOccupancyMaxPotentialBlockSize(grid, threads, function, shared_of, shared, limit);
}
CUresult cuOccupancyAvailableDynamicSMemPerBlock(std::size_t* bytes, CUfunction function, int blocks, int threads) {
    return result(cudaOccupancyAvailableDynamicSMemPerBlock(bytes, function, blocks, threads));
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
    const auto runtime_config = config_of(*config);
    return result(cudaOccupancyMaxActiveClusters(clusters, function, &runtime_config));
}
CUresult cuOccupancyMaxPotentialClusterSize(int* blocks, CUfunction function, const CUlaunchConfig* config) {
    const auto runtime_config = config_of(*config);
    return result(cudaOccupancyMaxPotentialClusterSize(blocks, function, &runtime_config));
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
    return launch_function(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                           {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, config->hStream, arguments, extra,
                           way_of(*config));
}

}  // extern "C"
