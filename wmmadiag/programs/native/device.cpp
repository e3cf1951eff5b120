// The device: one, with the properties of the architecture that is emulated.
#include <cstdio>
#include <cstring>

#include "runtime.hpp"

using namespace wmmadiag;

namespace {

std::size_t heap_bytes = std::size_t{1} << 23;
std::size_t printf_bytes = std::size_t{1} << 23, stack_bytes = 512 * 1024;

int property(const char* name) { return static_cast<int>(host().property(name)); }

int device_attribute(cudaDeviceAttr attribute, bool& known) {
    known = true;
    switch (attribute) {
        case cudaDevAttrMaxThreadsPerBlock: return property("maxThreadsPerBlock");
        case cudaDevAttrMaxBlockDimX:
        case cudaDevAttrMaxBlockDimY: return 1024;
        case cudaDevAttrMaxBlockDimZ: return 64;
        case cudaDevAttrMaxGridDimX: return 0x7fffffff;
        case cudaDevAttrMaxGridDimY:
        case cudaDevAttrMaxGridDimZ: return 65535;
        case cudaDevAttrMaxSharedMemoryPerBlock: return property("sharedMemPerBlock");
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: return property("sharedMemPerBlockOptin");
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: return property("sharedMemPerMultiprocessor");
        case cudaDevAttrReservedSharedMemoryPerBlock: return property("reservedSharedMemPerBlock");
        case cudaDevAttrWarpSize: return 32;
        case cudaDevAttrMultiProcessorCount: return property("multiProcessorCount");
        case cudaDevAttrComputeCapabilityMajor: return property("major");
        case cudaDevAttrComputeCapabilityMinor: return property("minor");
        case cudaDevAttrMaxThreadsPerMultiProcessor: return property("maxThreadsPerMultiProcessor");
        case cudaDevAttrMaxBlocksPerMultiprocessor: return property("maxBlocksPerMultiProcessor");
        case cudaDevAttrMaxRegistersPerBlock:
        case cudaDevAttrMaxRegistersPerMultiprocessor: return property("regsPerMultiprocessor");
        case cudaDevAttrL2CacheSize: return property("l2CacheSize");
        case cudaDevAttrClockRate: return property("clockRate");
        case cudaDevAttrMemoryClockRate: return property("memoryClockRate");
        case cudaDevAttrGlobalMemoryBusWidth: return property("memoryBusWidth");
        case cudaDevAttrTotalConstantMemory: return 65536;
        case cudaDevAttrCooperativeLaunch:
        case cudaDevAttrManagedMemory:
        case cudaDevAttrConcurrentManagedAccess:
        case cudaDevAttrUnifiedAddressing:
        case cudaDevAttrCanMapHostMemory:
        case cudaDevAttrConcurrentKernels:
        case cudaDevAttrStreamPrioritiesSupported:
        case cudaDevAttrMemoryPoolsSupported:
        case cudaDevAttrGlobalL1CacheSupported:
        case cudaDevAttrComputePreemptionSupported:
        case cudaDevAttrHostRegisterSupported:
        case cudaDevAttrGpuOverlap:
        case cudaDevAttrLocalL1CacheSupported: return 1;
        case cudaDevAttrAsyncEngineCount:
        case cudaDevAttrSingleToDoublePrecisionPerfRatio: return 2;
        case cudaDevAttrMaxPitch: return 0x7fffffff;
        case cudaDevAttrTextureAlignment:
        case cudaDevAttrSurfaceAlignment: return 512;
        case cudaDevAttrTexturePitchAlignment: return 32;
        default:
            // What is not offered here, clusters and textures among it, and numbers on a bus that there is not.
            known = attribute >= cudaDevAttrMaxThreadsPerBlock && attribute <= cudaDevAttrHostMemoryPoolsSupported;
            return 0;
    }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    if (count == nullptr) return failed(cudaErrorInvalidValue);
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) { return device == 0 ? status() : failed(cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
    if (device == nullptr) return failed(cudaErrorInvalidValue);
    *device = 0;
    return status();
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned) { return cudaSetDevice(device); }
cudaError_t cudaSetDeviceFlags(unsigned) { return status(); }
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return status(); }
cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* config) {
    *config = cudaFuncCachePreferNone;
    return status();
}
cudaError_t cudaDeviceSetSharedMemConfig(cudaSharedMemConfig) { return status(); }
cudaError_t cudaDeviceGetSharedMemConfig(cudaSharedMemConfig* config) {
    *config = cudaSharedMemBankSizeFourByte;
    return status();
}
cudaError_t cudaSetValidDevices(int* devices, int count) {
    for (int i = 0; i < count; ++i)
        if (devices[i] != 0) return failed(cudaErrorInvalidDevice);
    return status();
}
cudaError_t cudaDeviceGetByPCIBusId(int* device, const char*) { return cudaGetDevice(device); }
cudaError_t cudaDeviceGetP2PAttribute(int*, cudaDeviceP2PAttr, int, int) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaCtxResetPersistingL2Cache() { return status(); }
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
    if (can == nullptr) return failed(cudaErrorInvalidValue);
    if (device != 0 || peer != 0) return failed(cudaErrorInvalidDevice);
    *can = 0;
    return status();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    if (value == nullptr) return failed(cudaErrorInvalidValue);
    if (device != 0) return failed(cudaErrorInvalidDevice);
    bool known = false;
    *value = device_attribute(attribute, known);
    if (known) return status();
    report("launch", "unsupported", "warning", "there is no device attribute " + std::to_string(static_cast<int>(attribute)),
           "the call returns cudaErrorInvalidValue; see cudaDeviceAttr in driver_types.h");
    return failed(cudaErrorInvalidValue);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device) {
    if (to == nullptr) return failed(cudaErrorInvalidValue);
    if (device != 0) return failed(cudaErrorInvalidDevice);
    *to = {};
    std::snprintf(to->name, sizeof to->name, "wmmadiag emulator sm_%d%d", property("major"), property("minor"));
    to->totalGlobalMem = static_cast<std::size_t>(host().property("totalGlobalMem"));
    to->sharedMemPerBlock = static_cast<std::size_t>(property("sharedMemPerBlock"));
    to->sharedMemPerBlockOptin = static_cast<std::size_t>(property("sharedMemPerBlockOptin"));
    to->sharedMemPerMultiprocessor = static_cast<std::size_t>(property("sharedMemPerMultiprocessor"));
    to->reservedSharedMemPerBlock = static_cast<std::size_t>(property("reservedSharedMemPerBlock"));
    to->regsPerBlock = to->regsPerMultiprocessor = property("regsPerMultiprocessor");
    to->warpSize = 32;
    to->maxThreadsPerBlock = property("maxThreadsPerBlock");
    to->maxThreadsDim[0] = to->maxThreadsDim[1] = 1024;
    to->maxThreadsDim[2] = 64;
    to->maxGridSize[0] = 0x7fffffff;
    to->maxGridSize[1] = to->maxGridSize[2] = 65535;
    to->totalConstMem = 65536;
    to->major = property("major");
    to->minor = property("minor");
    to->multiProcessorCount = property("multiProcessorCount");
    to->maxThreadsPerMultiProcessor = property("maxThreadsPerMultiProcessor");
    to->maxBlocksPerMultiProcessor = property("maxBlocksPerMultiProcessor");
    to->l2CacheSize = property("l2CacheSize");
    to->memoryBusWidth = property("memoryBusWidth");
    to->concurrentKernels = to->unifiedAddressing = to->managedMemory = to->concurrentManagedAccess = to->canMapHostMemory = 1;
    to->cooperativeLaunch = to->memoryPoolsSupported = to->streamPrioritiesSupported = 1;
    to->asyncEngineCount = 2;
    to->computePreemptionSupported = to->hostRegisterSupported = to->globalL1CacheSupported = to->localL1CacheSupported = 1;
    to->textureAlignment = to->surfaceAlignment = 512;
    to->texturePitchAlignment = 32;
    to->memPitch = 0x7fffffff;
    return status();
}
// Stacks and the buffer of printf grow as they are needed; the heap of malloc in kernels is made when the first of them is launched.
cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
    WMMADIAG_LOCKED;
    if (limit == cudaLimitMallocHeapSize) heap_bytes = value;
    if (limit == cudaLimitPrintfFifoSize) printf_bytes = value;
    if (limit == cudaLimitStackSize) stack_bytes = value;
    return limit >= cudaLimitStackSize && limit <= cudaLimitPersistingL2CacheSize ? status() : failed(cudaErrorUnsupportedLimit);
}
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
    if (value == nullptr) return failed(cudaErrorInvalidValue);
    switch (limit) {
        case cudaLimitStackSize: *value = stack_bytes; return status();
        case cudaLimitMallocHeapSize: *value = heap_bytes; return status();
        case cudaLimitPrintfFifoSize: *value = printf_bytes; return status();
        case cudaLimitDevRuntimeSyncDepth: *value = 2; return status();
        case cudaLimitDevRuntimePendingLaunchCount: *value = 2048; return status();
        case cudaLimitMaxL2FetchGranularity: *value = 64; return status();
        case cudaLimitPersistingL2CacheSize: *value = 0; return status();
        default: return failed(cudaErrorUnsupportedLimit);
    }
}
std::uint64_t wmmadiag_heap_bytes() { return heap_bytes; }
cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return failed(cudaErrorInvalidDevice); }
cudaError_t cudaDeviceDisablePeerAccess(int) { return failed(cudaErrorPeerAccessNotEnabled); }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
    *flags = 0;
    return status();
}
cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) { return cudaGetDevice(device); }
cudaError_t cudaDeviceGetPCIBusId(char* to, int size, int) {
    std::snprintf(to, static_cast<std::size_t>(size), "0000:00:00.0");
    return status();
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
