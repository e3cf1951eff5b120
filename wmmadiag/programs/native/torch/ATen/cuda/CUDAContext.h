// The device's context: its stream, properties and cuBLAS handle are those of the emulator.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

namespace at::cuda {

inline int64_t getNumGPUs() { return 1; }
inline bool is_available() { return true; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
    static cudaDeviceProp properties = [] {
        cudaDeviceProp one;
        C10_CUDA_CHECK(cudaGetDeviceProperties(&one, 0));
        return one;
    }();
    return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
inline int warp_size() { return 32; }

}  // namespace at::cuda
