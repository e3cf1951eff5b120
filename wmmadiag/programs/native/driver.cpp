// The driver's interface, as far as programs use it to load PTX and launch it: on the runtime's memory, streams and launches.
#include <cuda.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "copies.hpp"
#include "driver.hpp"

using namespace wmmadiag;

namespace {

template <class T>
cudaError_t runtime(T error) {
    return static_cast<cudaError_t>(error);
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    std::snprintf(name, static_cast<std::size_t>(size), "%s", properties.name);
    return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
    *bytes = static_cast<std::size_t>(host().property("totalGlobalMem"));
    return CUDA_SUCCESS;
}
// CUdevice_attribute and cudaDeviceAttr have the same numbers.
CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
    if (attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) return *value = 1, CUDA_SUCCESS;  // driver_mapped.cpp
    return result(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}
CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice) {
    *major = static_cast<int>(host().property("major"));
    *minor = static_cast<int>(host().property("minor"));
    return CUDA_SUCCESS;
}

// One context: the device's.
static int the_context;
CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams*, unsigned, CUdevice) {
    *context = reinterpret_cast<CUcontext>(&the_context);
    return CUDA_SUCCESS;
}
CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) { return cuCtxCreate_v4(context, nullptr, flags, device); }
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) { return cuCtxCreate_v2(context, 0, device); }
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
CUresult cuCtxDestroy_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
CUresult cuCtxPopCurrent_v2(CUcontext* context) { return cuCtxCreate_v2(context, 0, 0); }
CUresult cuCtxGetCurrent(CUcontext* context) { return cuCtxCreate_v2(context, 0, 0); }
CUresult cuCtxGetDevice(CUdevice* device) { return cuDeviceGet(device, 0); }

CUresult cuGetErrorName(CUresult error, const char** text) {
    switch (error) {
#define NAME(E) \
    case E: *text = #E; return CUDA_SUCCESS
        NAME(CUDA_SUCCESS);
        NAME(CUDA_ERROR_INVALID_VALUE);
        NAME(CUDA_ERROR_OUT_OF_MEMORY);
        NAME(CUDA_ERROR_NOT_INITIALIZED);
        NAME(CUDA_ERROR_DEINITIALIZED);
        NAME(CUDA_ERROR_PROFILER_DISABLED);
        NAME(CUDA_ERROR_PROFILER_NOT_INITIALIZED);
        NAME(CUDA_ERROR_PROFILER_ALREADY_STARTED);
        NAME(CUDA_ERROR_PROFILER_ALREADY_STOPPED);
        NAME(CUDA_ERROR_STUB_LIBRARY);
        NAME(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
        NAME(CUDA_ERROR_DEVICE_UNAVAILABLE);
        NAME(CUDA_ERROR_NO_DEVICE);
        NAME(CUDA_ERROR_INVALID_DEVICE);
        NAME(CUDA_ERROR_DEVICE_NOT_LICENSED);
        NAME(CUDA_ERROR_INVALID_IMAGE);
        NAME(CUDA_ERROR_INVALID_CONTEXT);
        NAME(CUDA_ERROR_CONTEXT_ALREADY_CURRENT);
        NAME(CUDA_ERROR_MAP_FAILED);
        NAME(CUDA_ERROR_UNMAP_FAILED);
        NAME(CUDA_ERROR_ARRAY_IS_MAPPED);
        NAME(CUDA_ERROR_ALREADY_MAPPED);
        NAME(CUDA_ERROR_NO_BINARY_FOR_GPU);
        NAME(CUDA_ERROR_ALREADY_ACQUIRED);
        NAME(CUDA_ERROR_NOT_MAPPED);
        NAME(CUDA_ERROR_NOT_MAPPED_AS_ARRAY);
        NAME(CUDA_ERROR_NOT_MAPPED_AS_POINTER);
        NAME(CUDA_ERROR_ECC_UNCORRECTABLE);
        NAME(CUDA_ERROR_UNSUPPORTED_LIMIT);
        NAME(CUDA_ERROR_CONTEXT_ALREADY_IN_USE);
        NAME(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        NAME(CUDA_ERROR_INVALID_PTX);
        NAME(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT);
        NAME(CUDA_ERROR_NVLINK_UNCORRECTABLE);
        NAME(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
        NAME(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
        NAME(CUDA_ERROR_JIT_COMPILATION_DISABLED);
        NAME(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
        NAME(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC);
        NAME(CUDA_ERROR_INSUFFICIENT_LOADER_VERSION);
        NAME(CUDA_ERROR_INVALID_SOURCE);
        NAME(CUDA_ERROR_FILE_NOT_FOUND);
        NAME(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND);
        NAME(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
        NAME(CUDA_ERROR_OPERATING_SYSTEM);
        NAME(CUDA_ERROR_INVALID_HANDLE);
        NAME(CUDA_ERROR_ILLEGAL_STATE);
        NAME(CUDA_ERROR_LOSSY_QUERY);
        NAME(CUDA_ERROR_NOT_FOUND);
        NAME(CUDA_ERROR_NOT_READY);
        NAME(CUDA_ERROR_ILLEGAL_ADDRESS);
        NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
        NAME(CUDA_ERROR_LAUNCH_TIMEOUT);
        NAME(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING);
        NAME(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
        NAME(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
        NAME(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE);
        NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED);
        NAME(CUDA_ERROR_ASSERT);
        NAME(CUDA_ERROR_TOO_MANY_PEERS);
        NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
        NAME(CUDA_ERROR_HARDWARE_STACK_ERROR);
        NAME(CUDA_ERROR_ILLEGAL_INSTRUCTION);
        NAME(CUDA_ERROR_MISALIGNED_ADDRESS);
        NAME(CUDA_ERROR_INVALID_ADDRESS_SPACE);
        NAME(CUDA_ERROR_INVALID_PC);
        NAME(CUDA_ERROR_LAUNCH_FAILED);
        NAME(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
        NAME(CUDA_ERROR_NOT_PERMITTED);
        NAME(CUDA_ERROR_NOT_SUPPORTED);
        NAME(CUDA_ERROR_SYSTEM_NOT_READY);
        NAME(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
        NAME(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
        NAME(CUDA_ERROR_MPS_CONNECTION_FAILED);
        NAME(CUDA_ERROR_MPS_RPC_FAILURE);
        NAME(CUDA_ERROR_MPS_SERVER_NOT_READY);
        NAME(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
        NAME(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED);
        NAME(CUDA_ERROR_MPS_CLIENT_TERMINATED);
        NAME(CUDA_ERROR_CDP_NOT_SUPPORTED);
        NAME(CUDA_ERROR_CDP_VERSION_MISMATCH);
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        NAME(CUDA_ERROR_STREAM_CAPTURE_MERGE);
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
        NAME(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        NAME(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
        NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        NAME(CUDA_ERROR_CAPTURED_EVENT);
        NAME(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        NAME(CUDA_ERROR_TIMEOUT);
        NAME(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
        NAME(CUDA_ERROR_EXTERNAL_DEVICE);
        NAME(CUDA_ERROR_INVALID_CLUSTER_SIZE);
        NAME(CUDA_ERROR_UNKNOWN);
#undef NAME
        default: *text = nullptr; return CUDA_ERROR_INVALID_VALUE;
    }
}
CUresult cuGetErrorString(CUresult error, const char** text) {
    *text = cudaGetErrorString(runtime(error));
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* to, std::size_t bytes) {
    void* made = nullptr;
    const auto error = cudaMalloc(&made, bytes);
    *to = reinterpret_cast<CUdeviceptr>(made);
    return result(error);
}
CUresult cuMemAllocManaged(CUdeviceptr* to, std::size_t bytes, unsigned flags) {
    void* made = nullptr;
    const auto error = cudaMallocManaged(&made, bytes, flags);
    *to = reinterpret_cast<CUdeviceptr>(made);
    return result(error);
}
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, std::size_t bytes) {
    return result(cudaMemcpy(pointer(to), from, bytes, cudaMemcpyHostToDevice));
}
CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, std::size_t bytes) {
    return result(cudaMemcpy(to, pointer(from), bytes, cudaMemcpyDeviceToHost));
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    return result(cudaMemcpy(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(pointer(to), from, bytes, cudaMemcpyHostToDevice, stream));
}
CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(to, pointer(from), bytes, cudaMemcpyDeviceToHost, stream));
}
CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, std::size_t count) { return result(cudaMemset(pointer(to), value, count)); }
static CUresult filled(CUdeviceptr to, unsigned value, unsigned size, std::size_t count, CUstream stream, const char* what) {
    WMMADIAG_LOCKED;
    cudaMemsetParams p{};
    p.dst = pointer(to);
    p.value = value;
    p.elementSize = size;
    p.width = count;
    p.height = 1;
    p.pitch = count * size;
    return result(submit(stream, [=] { return fill_elements(p, what); }, cudaGraphNodeTypeMemset));
}
CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, std::size_t count) { return filled(to, value, 2, count, nullptr, "cuMemsetD16"); }
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) { return filled(to, value, 4, count, nullptr, "cuMemsetD32"); }
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
    return result(cudaMemsetAsync(pointer(to), value, count, stream));
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
    return filled(to, value, 4, count, stream, "cuMemsetD32Async");
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count, CUstream stream) {
    return filled(to, value, 2, count, stream, "cuMemsetD16Async");
}
static CUresult filled_rows(CUdeviceptr to, std::size_t pitch, unsigned value, unsigned size, std::size_t width, std::size_t height, CUstream stream,
                            const char* what) {
    WMMADIAG_LOCKED;
    const cudaMemsetParams p{pointer(to), pitch, value, size, width, height};
    return result(submit(stream, [=] { return fill_elements(p, what); }, cudaGraphNodeTypeMemset));
}
CUresult cuMemsetD2D16_v2(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height) {
    return filled_rows(to, pitch, value, 2, width, height, nullptr, "cuMemsetD2D16");
}
CUresult cuMemsetD2D32_v2(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height) {
    return filled_rows(to, pitch, value, 4, width, height, nullptr, "cuMemsetD2D32");
}
CUresult cuMemsetD2D16Async(CUdeviceptr to, std::size_t pitch, unsigned short value, std::size_t width, std::size_t height, CUstream stream) {
    return filled_rows(to, pitch, value, 2, width, height, stream, "cuMemsetD2D16Async");
}
CUresult cuMemsetD2D32Async(CUdeviceptr to, std::size_t pitch, unsigned value, std::size_t width, std::size_t height, CUstream stream) {
    return filled_rows(to, pitch, value, 4, width, height, stream, "cuMemsetD2D32Async");
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
    return result(cudaMemcpy(pointer(to), pointer(from), bytes, cudaMemcpyDefault));
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDefault, stream));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyAsync(pointer(to), pointer(from), bytes, cudaMemcpyDeviceToDevice, stream));
}
CUresult cuMemAllocPitch_v2(CUdeviceptr* to, std::size_t* pitch, std::size_t width, std::size_t height, unsigned) {
    return result(cudaMallocPitch(reinterpret_cast<void**>(to), pitch, width, height));
}

// CUlimit and cudaLimit have the same numbers.
CUresult cuCtxSetCacheConfig(CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }
CUresult cuProfilerStart() { return CUDA_SUCCESS; }
CUresult cuProfilerStop() { return CUDA_SUCCESS; }

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    WMMADIAG_LOCKED;
    const auto* text = static_cast<const char*>(image);
    if (std::strstr(text, ".version") == nullptr) {
        report("launch", "unsupported", "error", "cuModuleLoadData: the image is no PTX; machine code is not emulated",
               "load the PTX (nvrtcGetPTX, nvcc -ptx)");
        return CUDA_ERROR_INVALID_PTX;
    }
    const int number = host().module(text);
    if (number <= 0) return CUDA_ERROR_INVALID_PTX;
    *module = reinterpret_cast<CUmodule>(static_cast<std::intptr_t>(number));
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned, CUjit_option*, void**) { return cuModuleLoadData(module, image); }
CUresult cuModuleLoad(CUmodule* module, const char* name) {
    const auto text = wmmadiag::content(name);
    if (!text) return CUDA_ERROR_FILE_NOT_FOUND;
    return cuModuleLoadData(module, text->c_str());
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    WMMADIAG_LOCKED;
    auto made = std::make_unique<Function>();
    if (host().function(static_cast<int>(reinterpret_cast<std::intptr_t>(module)), name, &made->info) != 0) return CUDA_ERROR_NOT_FOUND;
    made->info.body = reinterpret_cast<std::uint64_t>(made.get());
    known_by_handle(made.get(), made->info);
    *function = reinterpret_cast<CUfunction>(made.release());
    return CUDA_SUCCESS;
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, std::size_t* bytes, CUmodule module, const char* name) {
    WMMADIAG_LOCKED;
    std::uint64_t at = 0, size = 0;
    if (host().global(static_cast<int>(reinterpret_cast<std::intptr_t>(module)), name, &at, &size) != 0) return CUDA_ERROR_NOT_FOUND;
    if (address != nullptr) *address = at;
    if (bytes != nullptr) *bytes = size;
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    WMMADIAG_LOCKED;
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return CUDA_SUCCESS;  // a preference, without effect on results
    if (attribute == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED) {
        allow_wide(reinterpret_cast<Function*>(function)->info, value != 0);
        return CUDA_SUCCESS;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_INVALID_VALUE;
    return result(allow_shared(reinterpret_cast<Function*>(function)->info, value));
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
    WMMADIAG_LOCKED;
    const auto found = attributes_of(reinterpret_cast<Function*>(function)->info);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = found.maxThreadsPerBlock; break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = static_cast<int>(found.sharedSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = static_cast<int>(found.constSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = static_cast<int>(found.localSizeBytes); break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS:
            *value = found.numRegs;
            if (found.numRegs != 0) break;
            report("launch", "unsupported", "warning",
                   "cuFuncGetAttribute: neither ptxas nor nvJitLink is here, which would allocate the registers of the program's PTX",
                   "the call gives 0 for CU_FUNC_ATTRIBUTE_NUM_REGS; pip install nvidia-nvjitlink");
            break;
        case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = found.ptxVersion; break;
        case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = found.binaryVersion; break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = found.maxDynamicSharedSizeBytes; break;
        case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET: *value = found.clusterDimMustBeSet; break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH: *value = found.requiredClusterWidth; break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT: *value = found.requiredClusterHeight; break;
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: *value = found.requiredClusterDepth; break;
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED: *value = found.nonPortableClusterSizeAllowed; break;
        default: return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, std::size_t shared) {
    WMMADIAG_LOCKED;
    if (threads < 1) return CUDA_ERROR_INVALID_VALUE;
    *blocks = blocks_at_once(reinterpret_cast<Function*>(function)->info, threads, shared);
    return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* threads, CUfunction function, CUoccupancyB2DSize shared_of, std::size_t shared, int limit) {
    WMMADIAG_LOCKED;
    const auto& info = reinterpret_cast<Function*>(function)->info;
    int most = 0;
    *threads = 0;
    for (int size = limit > 0 ? std::min(limit, 1024) : 1024; size >= 32; size -= 32) {
        const int blocks = blocks_at_once(info, size, shared_of != nullptr ? shared_of(size) : shared);
        if (blocks * size <= most) continue;
        most = blocks * size;
        *threads = size;
        *grid = blocks * static_cast<int>(host().property("multiProcessorCount"));
    }
    return CUDA_SUCCESS;
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, CUstream stream, void** arguments) {
    return launch_function(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, arguments, nullptr, true);
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared, CUstream stream, void** arguments, void** extra) {
    return launch_function(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, stream, arguments, extra, false);
}

}  // extern "C"

CUresult wmmadiag::launch_function(CUfunction function, dim3 grid, dim3 block, unsigned shared, CUstream stream, void** arguments, void** extra,
                                   LaunchWay way) {
    WMMADIAG_LOCKED;
    const auto& info = reinterpret_cast<Function*>(function)->info;
    std::vector<void*> parts;
    if (extra != nullptr) {
        std::byte* buffer = nullptr;
        for (auto** one = extra; *one != CU_LAUNCH_PARAM_END; one += 2)
            if (*one == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = static_cast<std::byte*>(one[1]);
        if (buffer == nullptr) return CUDA_ERROR_INVALID_VALUE;
        for (int i = 0; i < info.count; ++i) parts.push_back(buffer + info.offsets[i]);
        arguments = parts.data();
    }
    return result(launch(info, grid, block, arguments, shared, stream, way));
}
