// The driver's interface, as far as programs use it to load PTX and launch it: on the runtime's memory, streams and launches.
#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "ordering.hpp"
#include "runtime.hpp"

using namespace wmmadiag;

namespace {

// cuda.h and driver_types.h number their errors alike.
CUresult result(cudaError_t error) { return static_cast<CUresult>(error); }

template <class T>
cudaError_t runtime(T error) {
    return static_cast<cudaError_t>(error);
}

struct Function {
    KernelInfo info;
};

void* pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

extern "C" {

CUresult cuInit(unsigned) { return CUDA_SUCCESS; }
CUresult cuDriverGetVersion(int* version) { return result(cudaDriverGetVersion(version)); }
CUresult cuDeviceGetCount(int* count) { return result(cudaGetDeviceCount(count)); }
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
CUresult cuCtxSynchronize() { return result(cudaDeviceSynchronize()); }

CUresult cuGetErrorName(CUresult error, const char** text) {
    *text = cudaGetErrorName(runtime(error));
    return CUDA_SUCCESS;
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
CUresult cuMemAllocHost_v2(void** to, std::size_t bytes) { return result(cudaMallocHost(to, bytes)); }
CUresult cuMemFree_v2(CUdeviceptr address) { return result(cudaFree(pointer(address))); }
CUresult cuMemFreeHost(void* address) { return result(cudaFreeHost(address)); }
CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) { return result(cudaMemGetInfo(free, total)); }
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
CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, std::size_t count) {
    WMMADIAG_LOCKED;
    auto* bytes = device_bytes(pointer(to), count * 4, Access::write, "cuMemsetD32");
    if (bytes == nullptr) return result(failed(cudaErrorInvalidValue));
    return result(submit(nullptr, [=] {
        called("cuMemsetD32");
        touches(pointer(to), count * 4, Touch::write);
        for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes + 4 * i, &value, 4);
        wrote(pointer(to), count * 4);
        return cudaSuccess;
    }));
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) { return result(cudaStreamCreateWithFlags(stream, flags)); }
CUresult cuStreamSynchronize(CUstream stream) { return result(cudaStreamSynchronize(stream)); }
CUresult cuStreamDestroy_v2(CUstream stream) { return result(cudaStreamDestroy(stream)); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) { return result(cudaStreamWaitEvent(stream, event, flags)); }
CUresult cuEventCreate(CUevent* event, unsigned flags) { return result(cudaEventCreateWithFlags(event, flags)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { return result(cudaEventRecord(event, stream)); }
CUresult cuEventSynchronize(CUevent event) { return result(cudaEventSynchronize(event)); }
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) { return result(cudaEventElapsedTime(milliseconds, start, end)); }
CUresult cuEventDestroy_v2(CUevent event) { return result(cudaEventDestroy(event)); }

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
    std::string text;
    std::FILE* file = std::fopen(name, "rb");
    if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
    char part[65536];
    while (const auto read = std::fread(part, 1, sizeof part, file)) text.append(part, read);
    std::fclose(file);
    return cuModuleLoadData(module, text.c_str());
}
CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
    WMMADIAG_LOCKED;
    auto made = std::make_unique<Function>();
    if (host().function(static_cast<int>(reinterpret_cast<std::intptr_t>(module)), name, &made->info) != 0) return CUDA_ERROR_NOT_FOUND;
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
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) return CUDA_ERROR_NOT_SUPPORTED;
    return result(allow_shared(reinterpret_cast<Function*>(function)->info, value));
}
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                        unsigned shared, CUstream stream, void** arguments, void** extra) {
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
    return result(launch(info, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments, shared, stream, false));
}

}  // extern "C"
