// The driver's interface, further: what a pointer is, launches with attributes.
#include <cuda.h>

#include "driver.hpp"

using namespace wmmadiag;

namespace {

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

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
    const auto runtime_config = config_of(*config);
    return result(cudaOccupancyMaxActiveClusters(clusters, function, &runtime_config));
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments, void** extra) {
    return launch_function(function, {config->gridDimX, config->gridDimY, config->gridDimZ},
                           {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes, config->hStream, arguments, extra,
                           way_of(*config));
}

}  // extern "C"
