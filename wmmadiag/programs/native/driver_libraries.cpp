// The driver's interface, further: memory that moves, libraries of kernels.
#include <cuda.h>

#include "driver.hpp"

using namespace wmmadiag;

namespace {

cudaMemLocation location_of(CUmemLocation where) { return {static_cast<cudaMemLocationType>(where.type), {where.id}}; }

}  // namespace

extern "C" {

CUresult cuMemPrefetchAsync_v2(CUdeviceptr memory, std::size_t bytes, CUmemLocation where, unsigned flags, CUstream stream) {
    return result(cudaMemPrefetchAsync(pointer(memory), bytes, location_of(where), flags, stream));
}
CUresult cuMemAdvise_v2(CUdeviceptr memory, std::size_t bytes, CUmem_advise advice, CUmemLocation where) {
    return result(cudaMemAdvise(pointer(memory), bytes, static_cast<cudaMemoryAdvise>(advice), location_of(where)));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, std::size_t bytes, CUstream stream) {
    return result(cudaMemcpyPeerAsync(pointer(to), 0, pointer(from), 0, bytes, stream));
}
CUresult cuMemsetD2D8Async(CUdeviceptr to, std::size_t pitch, unsigned char value, std::size_t width, std::size_t height, CUstream stream) {
    return result(cudaMemset2DAsync(pointer(to), pitch, value, width, height, stream));
}
CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data, CUdeviceptr memory) {
    for (unsigned i = 0; i < count; ++i)
        if (const auto error = cuPointerGetAttribute(data[i], attributes[i], memory); error != CUDA_SUCCESS) return error;
    return CUDA_SUCCESS;
}

// A library is a module here, a kernel a function of it.
CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    return cuModuleLoadData(reinterpret_cast<CUmodule*>(library), image);
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* name, CUjit_option*, void**, unsigned, CUlibraryOption*, void**, unsigned) {
    return cuModuleLoad(reinterpret_cast<CUmodule*>(library), name);
}
CUresult cuLibraryUnload(CUlibrary) { return CUDA_SUCCESS; }
CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
    return cuModuleGetFunction(reinterpret_cast<CUfunction*>(kernel), reinterpret_cast<CUmodule>(library), name);
}
CUresult cuLibraryGetModule(CUmodule* module, CUlibrary library) {
    *module = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, std::size_t* bytes, CUlibrary library, const char* name) {
    return cuModuleGetGlobal(address, bytes, reinterpret_cast<CUmodule>(library), name);
}
CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
    *function = reinterpret_cast<CUfunction>(kernel);
    return CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) { return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel)); }
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
    return cuFuncSetAttribute(reinterpret_cast<CUfunction>(kernel), attribute, value);
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
    return cuFuncGetAttribute(value, attribute, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
    *name = reinterpret_cast<const Function*>(function)->name.c_str();
    return CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* module, CUfunction function) {
    *module = reinterpret_cast<const Function*>(function)->module;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* size) {
    const auto& info = reinterpret_cast<const Function*>(function)->info;
    if (index >= static_cast<std::size_t>(info.count)) return CUDA_ERROR_INVALID_VALUE;
    *offset = info.offsets[index];
    if (size != nullptr) *size = info.sizes[index];
    return CUDA_SUCCESS;
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) { return cuModuleLoadData(module, image); }
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

}  // extern "C"
