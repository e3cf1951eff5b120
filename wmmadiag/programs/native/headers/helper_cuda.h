// What programs in the style of the CUDA samples call of helper_cuda.h, where that is not there: errors end the program, there is one device.
#pragma once
#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

#include "helper_string.h"

inline const char* _cudaGetErrorEnum(cudaError_t error) { return cudaGetErrorName(error); }
template <class Status>
std::string _cudaGetErrorEnum(Status status) {
    return std::to_string(static_cast<int>(status));
}

template <class Status>
void check(Status result, const char* function, const char* file, int line) {
    if (!result) return;
    const std::string name = _cudaGetErrorEnum(result);
    fprintf(stderr, "CUDA error at %s:%d code=%d(%s) \"%s\" \n", file, line, static_cast<int>(result), name.c_str(), function);
    exit(EXIT_FAILURE);
}
#define checkCudaErrors(value) check((value), #value, __FILE__, __LINE__)

inline void wmmadiag_last_error(const char* message, const char* file, int line, bool ends) {
    const auto error = cudaGetLastError();
    if (error == cudaSuccess) return;
    fprintf(stderr, "%s(%i) : %sCUDA error : %s : (%d) %s.\n", file, line, ends ? "getLastCudaError() " : "", message, static_cast<int>(error),
            cudaGetErrorString(error));
    if (ends) exit(EXIT_FAILURE);
}
#define getLastCudaError(message) wmmadiag_last_error(message, __FILE__, __LINE__, true)
#define printLastCudaError(message) wmmadiag_last_error(message, __FILE__, __LINE__, false)

inline int ftoi(float value) { return value >= 0 ? static_cast<int>(value + 0.5f) : static_cast<int>(value - 0.5f); }

// CUDA C++ Programming Guide, "Arithmetic Instructions": results of 32-bit floating-point adds in a clock cycle of a multiprocessor.
inline int _ConvertSMVer2Cores(int major, int minor) {
    if (major == 6) return minor == 0 ? 64 : 128;
    if (major == 7) return 64;
    return major == 8 && minor == 0 ? 64 : 128;
}
inline const char* _ConvertSMVer2ArchName(int major, int minor) {
    switch (major) {
        case 5: return "Maxwell";
        case 6: return "Pascal";
        case 7: return minor == 5 ? "Turing" : minor == 2 ? "Xavier" : "Volta";
        case 8: return minor == 9 ? "Ada" : "Ampere";
        case 9: return "Hopper";
        default: return "Blackwell";
    }
}

inline int gpuDeviceInit(int device) {
    int count = 0;
    checkCudaErrors(cudaGetDeviceCount(&count));
    if (device >= count) return -device;
    checkCudaErrors(cudaSetDevice(device < 0 ? 0 : device));
    return device < 0 ? 0 : device;
}
inline int gpuGetMaxGflopsDeviceId() { return 0; }
inline int findCudaDevice(int argc, const char** argv) {
    int device = 0;
    if (checkCmdLineFlag(argc, argv, "device")) {
        device = gpuDeviceInit(getCmdLineArgumentInt(argc, argv, "device="));
        if (device < 0) {
            printf("exiting...\n");
            exit(EXIT_FAILURE);
        }
        return device;
    }
    int major = 0, minor = 0;
    checkCudaErrors(cudaSetDevice(device));
    checkCudaErrors(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    checkCudaErrors(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    printf("GPU Device %d: \"%s\" with compute capability %d.%d\n\n", device, _ConvertSMVer2ArchName(major, minor), major, minor);
    return device;
}
inline int findIntegratedGPU() {
    fprintf(stderr, "CUDA error: No GPU has been found that shares the host's memory.\n");
    exit(EXIT_FAILURE);
}
inline bool checkCudaCapabilities(int major, int minor) {
    int has_major = 0, has_minor = 0;
    checkCudaErrors(cudaDeviceGetAttribute(&has_major, cudaDevAttrComputeCapabilityMajor, 0));
    checkCudaErrors(cudaDeviceGetAttribute(&has_minor, cudaDevAttrComputeCapabilityMinor, 0));
    return has_major > major || (has_major == major && has_minor >= minor);
}
