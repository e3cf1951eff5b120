// Kernels and functions of the driver by other ways than their names in host code: libraries loaded at run time, symbols, entry points.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>
#include <map>

#include "driver.hpp"

using namespace wmmadiag;

namespace {

// The handle by which the driver knows a kernel of the program.
Function* function_of_symbol(const KernelInfo& info) {
    static auto* known = new std::map<std::int32_t, Function*>;
    auto*& one = (*known)[info.id];
    if (one == nullptr) {
        one = new Function{info, info.name};
        known_by_handle(one, info);
    }
    return one;
}

cudaError_t found_kernel(Function** to, const void* symbol) {
    KernelInfo info;
    if (to == nullptr || symbol == nullptr) return failed(cudaErrorInvalidValue);
    if (const auto error = kernel_at(symbol, info); error != cudaSuccess) return error;
    *to = function_of_symbol(info);
    return cudaSuccess;
}

std::string of_module(const char* what, const void* module) {
    return what + (":" + std::to_string(static_cast<int>(reinterpret_cast<std::intptr_t>(module))));
}

// Handles of a module's kernels, in the order of its PTX.
template <class Handle>
CUresult enumerated(Handle* handles, unsigned most, CUmodule module) {
    const auto count = host().property(of_module("kernels", module).c_str());
    for (unsigned i = 0; i < most && i < count; ++i) {
        const auto name = host().property((of_module("kernel", module) + ":" + std::to_string(i)).c_str());
        if (const auto error = cuModuleGetFunction(reinterpret_cast<CUfunction*>(&handles[i]), module, reinterpret_cast<const char*>(name));
            error != CUDA_SUCCESS)
            return error;
    }
    return CUDA_SUCCESS;
}
CUresult counted(unsigned* count, const void* module) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<unsigned>(host().property(of_module("kernels", module).c_str()));
    return CUDA_SUCCESS;
}

// Functions of the driver that changed what they take, and since when they do it as here (cudaTypedefs.h); one that is asked for as
// an earlier release had it is not there.
struct Changed {
    const char* name;
    int since;
};
constexpr Changed changed_calls[] = {
    {"cuCtxCreate", 12050}, {"cuDeviceGetUuid", 11040},    {"cuEventElapsedTime", 12080},
    {"cuMemAdvise", 12020}, {"cuMemPrefetchAsync", 12020}, {"cuGetProcAddress", 12000},
};

// The address of a function of the driver, by the name that programs write; nullptr: it is not offered, or was another one then.
void* entry_point(const char* symbol, int version, bool& too_old) {
    static const auto own = [] {
        Dl_info where{};
        dladdr(reinterpret_cast<void*>(&cuInit), &where);
        return dlopen(where.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    }();
    too_old = false;
    if (symbol == nullptr || std::strncmp(symbol, "cu", 2) != 0) return nullptr;
    if (std::strcmp(symbol, "cuCtxCreate") == 0 && version < 11040) return dlsym(own, "cuCtxCreate_v2");
    for (const auto& one : changed_calls)
        if (std::strcmp(symbol, one.name) == 0 && version < one.since) {
            too_old = true;
            return nullptr;
        }
    for (const char* suffix : {"_v4", "_v3", "_v2", ""})
        if (auto* found = dlsym(own, (symbol + std::string(suffix)).c_str())) return found;
    return nullptr;
}

cudaError_t runtime_entry_point(const char* symbol, void** to, int version, cudaDriverEntryPointQueryResult* status_of) {
    if (symbol == nullptr || to == nullptr) return failed(cudaErrorInvalidValue);
    bool too_old = false;
    *to = entry_point(symbol, version, too_old);
    if (status_of != nullptr)
        *status_of = *to != nullptr ? cudaDriverEntryPointSuccess
                     : too_old      ? cudaDriverEntryPointVersionNotSufficent
                                    : cudaDriverEntryPointSymbolNotFound;
    return *to != nullptr || status_of != nullptr ? cudaSuccess : failed(cudaErrorSymbolNotFound);
}

}  // namespace

extern "C" {

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned) {
    return of_runtime(cuLibraryLoadData(library, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* name, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**,
                                    unsigned) {
    return of_runtime(cuLibraryLoadFromFile(library, name, nullptr, nullptr, 0, nullptr, nullptr, 0));
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) { return of_runtime(cuLibraryUnload(library)); }
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
    return of_runtime(cuLibraryGetKernel(kernel, library, name));
}
cudaError_t cudaLibraryGetGlobal(void** address, std::size_t* bytes, cudaLibrary_t library, const char* name) {
    return of_runtime(cuLibraryGetGlobal(reinterpret_cast<CUdeviceptr*>(address), bytes, library, name));
}
cudaError_t cudaLibraryGetKernelCount(unsigned* count, cudaLibrary_t library) { return of_runtime(cuLibraryGetKernelCount(count, library)); }
cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t* kernels, unsigned most, cudaLibrary_t library) {
    return of_runtime(cuLibraryEnumerateKernels(kernels, most, library));
}
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute, int value, int device) {
    return device == 0 ? cudaFuncSetAttribute(kernel, attribute, value) : failed(cudaErrorInvalidDevice);
}
cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
    WMMADIAG_LOCKED;
    return found_kernel(reinterpret_cast<Function**>(function), symbol);
}
cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
    WMMADIAG_LOCKED;
    return found_kernel(reinterpret_cast<Function**>(kernel), symbol);
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
    WMMADIAG_LOCKED;
    return counted(count, module);
}
CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
    WMMADIAG_LOCKED;
    return counted(count, library);
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned most, CUmodule module) {
    WMMADIAG_LOCKED;
    return enumerated(functions, most, module);
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned most, CUlibrary library) {
    WMMADIAG_LOCKED;
    return enumerated(kernels, most, reinterpret_cast<CUmodule>(library));
}
CUresult cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
    return cuFuncGetModule(reinterpret_cast<CUmodule*>(library), reinterpret_cast<CUfunction>(kernel));
}
CUresult cuKernelGetParamInfo(CUkernel kernel, std::size_t index, std::size_t* offset, std::size_t* size) {
    return cuFuncGetParamInfo(reinterpret_cast<CUfunction>(kernel), index, offset, size);
}
CUresult cuKernelSetCacheConfig(CUkernel, CUfunc_cache, CUdevice) { return CUDA_SUCCESS; }  // a preference, without effect on results
CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }
CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction) {
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
}

// Streams by threads are one setting of the whole program here, whichever entry point is asked for.
CUresult cuGetProcAddress_v2(const char* symbol, void** to, int version, cuuint64_t, CUdriverProcAddressQueryResult* status_of) {
    if (symbol == nullptr || to == nullptr) return CUDA_ERROR_INVALID_VALUE;
    bool too_old = false;
    *to = entry_point(symbol, version, too_old);
    if (status_of != nullptr)
        *status_of = *to != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
                     : too_old      ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                                    : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *to != nullptr || status_of != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** to, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status_of) {
    return runtime_entry_point(symbol, to, static_cast<int>(version), status_of);
}
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** to, unsigned long long, cudaDriverEntryPointQueryResult* status_of) {
    return runtime_entry_point(symbol, to, CUDART_VERSION, status_of);
}

}  // extern "C"
