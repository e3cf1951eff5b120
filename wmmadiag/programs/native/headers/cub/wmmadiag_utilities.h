// What CUB offers host code besides: checks of errors, and questions to the device. As in CUB, an error is printed where CUB_STDERR
// is defined before its header, or a debug build is made.
#pragma once
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#if (defined(DEBUG) || defined(_DEBUG) || defined(CUB_DEBUG_LOG)) && !defined(CUB_STDERR)
#define CUB_STDERR
#endif
#ifndef CUB_NS_QUALIFIER
#define CUB_NS_PREFIX
#define CUB_NS_POSTFIX
#define CUB_NS_QUALIFIER ::cub
#endif

namespace cub {

inline cudaError_t Debug(cudaError_t error, const char* file, int line) {
    const cudaError_t last = (::cudaGetLastError)();
    if (error == cudaSuccess) error = last;
#ifdef CUB_STDERR
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA error %d [%s, %d]: %s\n", error, file, line, (::cudaGetErrorString)(error));
        std::fflush(stderr);
    }
#else
    (void)file, (void)line;
#endif
    return error;
}

inline int CurrentDevice() {
    int device = -1;
    return (::cudaGetDevice)(&device) == cudaSuccess ? device : -1;
}
inline int DeviceCount() {
    int count = -1;
    return (::cudaGetDeviceCount)(&count) == cudaSuccess ? count : -1;
}
inline cudaError_t SmVersion(int& version, int device = CurrentDevice()) {
    int major = 0, minor = 0;
    cudaError_t status = (::cudaDeviceGetAttribute)(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (status == cudaSuccess) status = (::cudaDeviceGetAttribute)(&minor, cudaDevAttrComputeCapabilityMinor, device);
    version = major * 100 + minor * 10;
    return status;
}
// Kernels are compiled for the device itself.
inline cudaError_t PtxVersion(int& version) { return SmVersion(version); }
inline cudaError_t PtxVersion(int& version, int device) { return SmVersion(version, device); }
template <class Kernel>
cudaError_t MaxSmOccupancy(int& blocks, Kernel kernel, int threads, int shared_bytes = 0) {
    return (::cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, reinterpret_cast<const void*>(kernel), threads, shared_bytes);
}

}  // namespace cub

#ifndef CubDebug
#define CubDebug(e) CUB_NS_QUALIFIER::Debug((cudaError_t)(e), __FILE__, __LINE__)
#endif
#ifndef CubDebugExit
#define CubDebugExit(e) \
    if (CUB_NS_QUALIFIER::Debug((cudaError_t)(e), __FILE__, __LINE__)) std::exit(1)
#endif
#ifndef _CubLog
#define _CubLog(format, ...) std::printf(format, __VA_ARGS__)
#endif
